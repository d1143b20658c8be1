#!/bin/sh
# Make or repair the hub's environment, .venv-hub (`make setup-hub`): JupyterHub, its proxy, a kernel.
#
# It stands on .venv, whose packages it sees and never changes: one JupyterLab, one nbgrader, one
# PyTorch for the students' servers and for their kernels.
set -eu
cd "$(dirname "$0")/../.."

fail() {
    printf '\n%s\n\n' "$1" >&2
    exit 1
}

here=$(pwd -P)
hub=.venv-hub
recipe=deploy/jupyterhub
[ -x .venv/bin/python ] || fail "The course's environment .venv is missing: type 'make setup' first."
course=$(cd .venv && pwd -P)
packages=$("$course/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
fingerprint() {
    printf '%s\n' "$here" "$packages" "$("$course/bin/python" -V)"
    cat requirements.txt $recipe/requirements.txt $recipe/package-lock.json $recipe/setup.sh
}
stamp=$(fingerprint | cksum)
if [ "$(cat $hub/.ready 2>/dev/null)" = "$stamp" ]; then exit 0; fi

major=$(node -p 'process.versions.node.split(".")[0]' 2>/dev/null || echo 0)
if [ "$major" -lt 20 ] || ! command -v npm >/dev/null; then
    fail "JupyterHub's proxy needs Node.js 20 or later with npm, and there is $(node -v 2>/dev/null || echo none): \
install it (Debian 13, Ubuntu 25.04 or later: apt install nodejs npm; else from nodejs.org)."
fi

echo "Making $hub on top of .venv ..."
rm -rf $hub
"$course/bin/python" -m venv --without-pip $hub
site=$($hub/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "import site; site.addsitedir('$packages')" >"$site/course.pth"
$hub/bin/python -m pip install --quiet --disable-pip-version-check --no-input \
    -c requirements.txt -r $recipe/requirements.txt ||
    fail "pip could not install $recipe/requirements.txt (its own words are above)."
cp $recipe/package.json $recipe/package-lock.json $hub/
npm ci --silent --no-audit --no-fund --prefix $hub ||
    fail "npm could not install the proxy, configurable-http-proxy (its own words are above)."

# The notebooks' kernel: the course's Python, whichever Python the server runs under.
kernel=$hub/share/jupyter/kernels/python3
mkdir -p $kernel
cat >$kernel/kernel.json <<KERNEL
{
  "argv": ["$course/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
  "display_name": "Python 3 (the course)",
  "language": "python",
  "metadata": {"debugger": true, "supported_encryption": ["curve"]}
}
KERNEL
# Students cannot write beside the modules: whatever is not compiled now is compiled at each import.
"$course/bin/python" -m compileall -q helpers tools $hub/lib >/dev/null 2>&1 || true
echo "$stamp" >$hub/.ready
echo "$hub is ready."
