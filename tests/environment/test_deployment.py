"""Container, dev container and GitHub's workflows do what the README's commands do."""

import json
import re
import shutil

import pytest
import yaml
from traitlets.config import Config

from helpers.paths import ROOT
from tests.environment import run
from tools.bare_machine import packages

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMMANDS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_container_has_the_readmes_packages_and_no_others():
    row = re.search(
        r"^\| Debian 12, Ubuntu 24.04, or later \| `sudo apt install ([^`]+)`",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )[1]
    assert set(packages(DOCKERFILE)) == {*row.split(), "ca-certificates"}


@pytest.mark.parametrize("path", [ROOT / "Dockerfile", *WORKFLOWS], ids=lambda path: path.name)
def test_every_command_exists(path):
    text = path.read_text(encoding="utf-8")
    commands = re.findall(r"\bmake ([a-z-]{2,})", re.sub(r"#.*", "", text))
    commands += re.findall(r'"make", "([a-z-]+)"', text)
    scripts = [script for script in re.findall(r"bash (\S+)", text) if (ROOT / script).exists()]
    assert commands or scripts
    assert set(commands) <= COMMANDS


def test_the_container_ends_as_an_ordinary_user():
    users = re.findall(r"^USER (.+)$", DOCKERFILE, re.M)
    assert users == ["${NB_USER}"], "Binder passes NB_USER; root must not run notebooks"


def test_figures_have_their_words_wherever_jupyterlab_is_started():
    hub = (ROOT / "deploy" / "jupyterhub" / "jupyterhub_config.py").read_text(encoding="utf-8")
    paths = re.search(r'"JUPYTER_PATH": os\.pathsep\.join\((.*?)\),\n', hub, re.S)[1]
    binder = re.search(r"^ENV JUPYTER_PATH=(.+)$", DOCKERFILE, re.M)[1]
    settings = re.search(r"^ENV JUPYTER_CONFIG_PATH=(.+)$", DOCKERFILE, re.M)[1]
    assert settings == binder, "as tools.work hands JupyterLab both"
    assert '"{ROOT}/tools/jupyterlab"' in paths
    assert binder == "/home/${NB_USER}/course/tools/jupyterlab"
    assert (ROOT / "tools" / "jupyterlab" / "labextensions" / "course-figures").is_dir()


def test_the_dev_container_uses_the_same_file():
    settings = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert (ROOT / ".devcontainer" / settings["build"]["dockerfile"]).resolve() == (
        ROOT / "Dockerfile"
    )
    assert f"ARG NB_USER={settings['remoteUser']}\n" in DOCKERFILE


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_read_and_ask_for_no_more_than_they_need(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"]["contents"] == "read"
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 90
        assert {"run", "uses"} & {key for step in job["steps"] for key in step}


PACKAGES = {  # of a part of `make test-all`, beside those of `make test`
    "": set(),
    "slurm": {"slurm-wlm", "munge", "openssh-server"},
    "hub bare-machine": {"nodejs", "npm", "mmdebstrap"},
}


@pytest.mark.parametrize("rights", [True, False])
@pytest.mark.parametrize("parts", PACKAGES)
def test_ci_installs_what_its_parts_need_and_runs_them(tmp_path, rights, parts):
    """All of .ci/run, on a machine that has nothing, with other programs."""
    (tmp_path / "tools").mkdir()
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / "tools" / "test_all.py", tmp_path / "tools")
    script = (ROOT / ".ci" / "run").read_text().replace(":/usr/sbin:/sbin", "")
    assert "export CI=true " in script, "what is left behind is an error"
    (tmp_path / ".ci" / "run").write_text(script)
    programs = {
        "id": "echo 1000",
        "sudo": f'[ {int(rights)} = 1 ] || exit 1; shift; [ "$*" = true ] || "$@"',
        "apt-get": 'echo "$*" >>installed',
        "make": 'echo "$@"; exit 3',
        **dict.fromkeys(("dpkg-query", "python3"), "exit 1"),
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("bash", "sh", "cat", "mktemp", "rm", "dirname", "sed", "xargs", "uname", "grep"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = run("bash", ".ci/run", *parts.split(), cwd=tmp_path, env={"PATH": str(tmp_path)})
    assert done.returncode == 3, done.stdout + done.stderr
    asked = f"test-all PART={parts} REQUIRE=browser,openmpi" if parts else "test REQUIRE=browser"
    assert done.stdout.splitlines()[1] == asked
    installed = set((tmp_path / "installed").read_text().split())
    assert {"chromium", "g++", "python3-venv", *PACKAGES[parts]} <= installed
    others = set().union(*PACKAGES.values()) - PACKAGES[parts]
    assert not installed & others


def test_makefile_judges_the_hubs_settings_and_starts_it_as_the_lesson_does():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    judged, started = re.search(r"^hub:.*\n((?:\t.*\n)+)", text, re.M)[1].splitlines()
    assert judged == "\t@env $(HUB_SETTINGS) $(PY) deploy/jupyterhub/settings.py"
    assert "-m jupyterhub -f deploy/jupyterhub/jupyterhub_config.py" in started
    settings = (ROOT / "deploy/jupyterhub/settings.py").read_text(encoding="utf-8")
    names = set(re.findall(r'"([A-Z]+)"', settings))
    assert len(names) == 7
    for name in names:
        assert f"{name}=$(call q,$({name}))" in text, name


# --- a class in containers, and other log-ins (the hub's part lets JupyterHub read these files)
CONTAINERS = ROOT / "deploy" / "jupyterhub" / "containers"
STUDENT = ["python", "deploy/jupyterhub/student.py"]


def steps(dockerfile):
    """Return a Dockerfile's steps, as (word, rest)."""
    lines = re.sub(r"^\s*#.*\n", "", dockerfile, flags=re.M).replace("\\\n", " ").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line.strip()]


def test_a_students_image_is_the_courses_with_the_hubs_server():
    made = steps((CONTAINERS / "Dockerfile").read_text(encoding="utf-8"))
    assert {word for word, _ in made} == {"FROM", "ARG", "RUN", "CMD"}, "nobody becomes root"
    assert made[0] == ("FROM", "course")
    hub = (ROOT / "deploy" / "jupyterhub" / "requirements.txt").read_text(encoding="utf-8")
    pinned = re.search(r"^jupyterhub==(.+)$", hub, re.M)[1]
    assert ("ARG", f"JUPYTERHUB={pinned}") in made
    assert json.loads(made[-1][1]) == STUDENT
    told = " ".join(rest for _, rest in made)
    for file in re.findall(r"[\w./]+\.(?:txt|py)\b", told.replace("/tmp/others.txt", "")):
        assert (ROOT / file).is_file(), file


def test_containers_agree_with_one_another_and_with_the_hub():
    values, config = yaml.safe_load((CONTAINERS / "values.yaml").read_text("utf-8")), Config()
    code = (CONTAINERS / "docker.py").read_text(encoding="utf-8")
    exec(compile(code, "docker.py", "exec"), {"get_config": lambda: config})
    docker, pod = config.DockerSpawner, values["singleuser"]
    assert docker.cmd == pod["cmd"] == STUDENT
    (home,) = docker.volumes.values()
    notebooks = values["hub"]["config"]["KubeSpawner"]["notebook_dir"]
    assert home == pod["storage"]["homeMountPath"] == notebooks
    assert home == f"/home/{re.search('ARG NB_USER=(.+)', DOCKERFILE)[1]}/work"
    assert pod["uid"] == int(re.search(r"ARG NB_UID=(\d+)", DOCKERFILE)[1])
    hub = (ROOT / "deploy" / "jupyterhub" / "jupyterhub_config.py").read_text(encoding="utf-8")
    assert f'default_url = "{pod["defaultUrl"]}"' in hub
    image = (CONTAINERS / "Dockerfile").read_text(encoding="utf-8")
    assert f"--build-arg JUPYTERHUB={pod['image']['tag']}," in image, "the chart's hub"
