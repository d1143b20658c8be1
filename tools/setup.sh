#!/bin/sh
# Make or repair the environment: sh tools/setup.sh course|openmpi
#
# The Makefile calls this before everything else. When a fingerprint of all that the environment
# depends on is unchanged, it returns at once. Settings come from the Makefile by environment:
# PYTHON (which interpreter), TORCH_INDEX (an index with another build of PyTorch), WHEELS (a folder
# of wheels, in place of the network), COMPILER=no (go on without a C++ compiler).
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf '\n%s\n\n' "$1" >&2
    exit 1
}

# --- which environment -----------------------------------------------------------------------
case "${1:-course}" in
course) venv=.venv lock=requirements.txt ;;
openmpi) venv=.venv-openmpi lock=requirements-openmpi.txt ;;
*) fail "setup.sh expects course or openmpi, got $1" ;;
esac
here=$(pwd -P)
python="$here/$venv/bin/python"
fingerprint() {
    printf '%s\n' "$here/$venv" "$("$python" -V 2>&1)"
    cat requirements.txt "$lock" pyproject.toml tools/setup.sh
}
same_python() { [ -z "${PYTHON:-}" ] || [ "$("$python" -V 2>&1)" = "$("$PYTHON" -V 2>&1)" ]; }
same_index() {
    [ -z "${TORCH_INDEX:-}" ] || [ "$TORCH_INDEX" = "$(cat "$venv/.torch-index" 2>/dev/null)" ]
}
ready() {
    [ -x "$python" ] && same_python && same_index &&
        [ "$(cat "$venv/.ready" 2>/dev/null)" = "$(fingerprint | cksum)" ]
}
if ready; then exit 0; fi

# --- what the machine must have --------------------------------------------------------------
case "$(uname -s)-$(uname -m)" in
Linux-x86_64 | Linux-aarch64 | Darwin-arm64) ;;
Darwin-x86_64) fail "This Mac has an Intel processor, for which PyTorch is no longer built: \
use a Linux machine, or Linux in a virtual machine here." ;;
MINGW* | MSYS* | CYGWIN*) fail "On Windows the course runs inside WSL 2: type 'wsl --install' in \
PowerShell, then clone and 'make lab' in the Ubuntu window that opens." ;;
*) fail "The course runs on Linux (x86_64, aarch64) and macOS (arm64), not on $(uname -s) \
$(uname -m): use one of those." ;;
esac

# Runs under any Python 2.7 or later. 0: fits; 3: wrong version; 4: cannot make environments.
probe='import sys
if not (3, 11) <= sys.version_info[:2] < (3, 14): sys.exit(3)
try: import ensurepip, venv
except ImportError: sys.exit(4)'

find_python() { # prints the first interpreter that fits, DGL's version first
    crippled='' seen=''
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else
        set -- python3.11 python3.12 python3.13 python3 python
    fi
    for name in "$@"; do
        path=$(command -v "$name" 2>/dev/null) || continue
        status=0
        "$path" -c "$probe" >/dev/null 2>&1 || status=$?
        case $status in
        0) "$path" -c 'import sys; print(sys.executable)'; return ;;
        3) seen="$seen${seen:+, }$("$path" -V 2>&1) at $path" ;;
        4) crippled="$crippled${crippled:+, }$path" ;;
        esac
    done
    if [ -n "$crippled" ]; then
        fail "$crippled cannot make virtual environments, because its venv module is missing: \
install it (on Debian and Ubuntu: sudo apt install python3-venv) and type make again."
    elif [ -n "${PYTHON:-}" ]; then
        fail "The course needs Python 3.11, 3.12 or 3.13, and PYTHON=$PYTHON is \
${seen:-not an interpreter that runs}."
    fi
    fail "The course needs Python 3.11, 3.12 or 3.13, and there is ${seen:-none} here: install \
one and type make again, or name it: make lab PYTHON=/path/to/python3.11"
}

check_compiler() {
    for name in ${CXX:+"$CXX"} c++ g++ clang++; do
        if echo '#include <vector>' | $name -x c++ -fsyntax-only - >/dev/null 2>&1; then return; fi
    done
    case "$(uname -s)" in
    Darwin) how="xcode-select --install" ;;
    *) how="on Debian, Ubuntu and WSL: sudo apt install g++" ;;
    esac
    fail "A C++ compiler is missing, which the notebooks on CUDA and rooflines need: install it \
($how) and type make again, or go on without: make lab COMPILER=no"
}

# --- one set-up at a time --------------------------------------------------------------------
mutex="$venv.lock"
if ! mkdir "$mutex" 2>/dev/null; then
    other=$(cat "$mutex/pid" 2>/dev/null || echo 0)
    if [ "$other" != 0 ] && kill -0 "$other" 2>/dev/null; then
        fail "Another set-up of this folder is running (process $other): wait until it has ended."
    fi
    mkdir -p "$mutex" # left by a set-up that was killed
fi
echo $$ >"$mutex/pid"
trap 'rm -rf "$mutex"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# --- the environment itself ------------------------------------------------------------------
if [ "$lock" = requirements.txt ] && [ "${COMPILER:-}" != no ]; then check_compiler; fi
base=$(find_python)
if [ -e "$venv" ] || [ -L "$venv" ]; then
    made=$(cat "$venv/.made" 2>/dev/null || true)
    if ! "$python" -m pip --version >/dev/null 2>&1; then
        echo "$venv is half-made, or its Python is gone: making it anew."
    elif ! "$python" -c "$probe" 2>/dev/null; then
        echo "$venv was made by $("$python" -V), which the course does not run on: making it anew."
    elif [ -n "$made" ] && [ "$made" != "$here/$venv" ]; then
        echo "$venv was made in another folder ($made): making it anew."
    elif ! same_python; then
        echo "$venv was made by $("$python" -V), and PYTHON=$PYTHON is another: making it anew."
    elif ! same_index; then
        echo "$venv has PyTorch from another index than TORCH_INDEX: making it anew."
    else
        base=''
    fi
fi
if [ -n "$base" ]; then
    rm -rf "$venv"
    echo "Making $venv with $("$base" -V) ($base)"
    "$base" -m venv "$venv" || fail "$base could not make an environment in $here/$venv (above)."
    echo "$here/$venv" >"$venv/.made"
    echo "${TORCH_INDEX:-}" >"$venv/.torch-index"
fi
quiet=''
if [ -f "$venv/.ready" ]; then quiet=--quiet; fi # an update: do not list what is there already
rm -f "$venv/.ready"
stamp=$(fingerprint | cksum) # of the files as they are now: an update meanwhile is not installed
set -- --disable-pip-version-check --no-input
if [ -n "${WHEELS:-}" ]; then
    [ -d "$WHEELS" ] || fail "WHEELS=$WHEELS is not a folder: make wheels WHEELS=$WHEELS fills it."
    set -- "$@" --no-index --find-links "$WHEELS"
elif [ -n "${TORCH_INDEX:-}" ]; then
    set -- "$@" --extra-index-url "$TORCH_INDEX"
fi
echo "Installing what $lock lists (a few minutes the first time) ..."
"$python" -m pip install "$@" $quiet --no-compile -r "$lock" || fail "pip could not install $lock (its own words are \
above). The same command goes on where it stopped."
if [ "$lock" = requirements.txt ]; then
    "$python" -m pip install "$@" --quiet --no-deps --no-build-isolation -e . ||
        fail "pip could not install the package helpers from this folder (its own words are above)."
    "$python" tools/first.py # a file helpers.py beside a notebook is then named, not puzzled over
    "$python" tools/kernels.py # a cell that works and shows nothing then says so
fi
# Half of pip's time would go into this, on one core; here every core takes part. A file that does not
# compile (some packages bring templates) is compiled, or refused, when it is imported.
"$python" -m compileall -q -q -j 0 "$here/$venv/lib" >/dev/null 2>&1 || true
echo "$stamp" >"$venv/.ready"
echo "$venv is ready."
