"""`make release`: one version everywhere, what is committed, and hashes."""

import functools
import http.server
import re
import shutil
import subprocess
import tarfile
import threading
import zipfile

import pytest

from helpers.paths import ROOT
from tests.environment.test_aside import make_wheel
from tools import publish

PLACES = ("pyproject.toml", "CITATION.cff", "CHANGELOG.md")


@pytest.fixture
def copy(tmp_path):
    """A repository of its own with the places in which the version stands."""
    root = tmp_path / "copy"
    root.mkdir()
    for name in PLACES:
        shutil.copy(ROOT / name, root)
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm one"):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    return root


def test_the_version_is_one():
    assert publish.version() == publish.helpers.__version__


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("pyproject.toml", 'version = "0', 'version = "7', "expected one version everywhere"),
        ("CITATION.cff", "version: 0", "version: 7", r"CITATION.cff': '7\.1\.0'"),
        ("CHANGELOG.md", "## 0", "## 7", r"CHANGELOG.md': '7\.1\.0'"),
        ("CHANGELOG.md", "## 0.1.0 (2", "## 0.1.0 (3", "name one day; got 2026.* and 3026"),
        ("CHANGELOG.md", "## 0.1.0 (", "## next (", "expected a heading such as .* got 'none'"),
    ],
)
def test_versions_and_days_that_differ_are_named(copy, name, old, new, says):
    text = (copy / name).read_text()
    assert old in text
    (copy / name).write_text(text.replace(old, new, 1))
    with pytest.raises(publish.PublishError, match=says):
        publish.version(copy)


def test_changes_are_not_shipped_under_an_old_number(copy):
    text = (copy / "CHANGELOG.md").read_text()
    now = publish.version(copy)
    newest = text[text.index(f"## {now}") :]
    (copy / "CHANGELOG.md").write_text(f"# Changes\n\n{newest}")
    publish.unreleased(copy)
    (copy / "CHANGELOG.md").write_text(f"# Changes\n\n## Not yet released\n\n- One.\n\n{newest}")
    with pytest.raises(publish.PublishError, match=f"'## Not yet released' above {now}: raise"):
        publish.unreleased(copy)
    assert publish.version(copy) == now, "such changes are no fault of a copy at work"


@pytest.mark.parametrize("how", ["", "-m out "])
def test_a_version_whose_tag_is_on_another_commit_is_out(copy, how):
    text = (copy / "CHANGELOG.md").read_text()
    now = publish.version(copy)
    (copy / "CHANGELOG.md").write_text(text[text.index(f"## {now}") :])
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "tag", *how.split(), f"v{now}"], cwd=copy, check=True)
    publish.unreleased(copy)  # made once more from the commit that has the tag
    subprocess.run([*git, "commit", "-qam", "two"], cwd=copy, check=True)
    with pytest.raises(publish.PublishError, match=rf"v{now} is on another commit: raise"):
        publish.unreleased(copy)


def test_the_command_refuses_before_it_makes_anything(monkeypatch, capsys):
    def refuse():
        raise publish.PublishError("raise the version")

    monkeypatch.setattr(publish, "unreleased", refuse)
    monkeypatch.setattr(publish, "committed", lambda: pytest.fail("it went on"))
    assert publish.main([]) == 1
    assert capsys.readouterr().err == "release: raise the version\n"


def test_what_is_not_committed_is_refused_by_name(copy):
    publish.committed(copy)
    (copy / "new.txt").touch()
    with pytest.raises(publish.PublishError, match=r"to be committed; changed: new\.txt"):
        publish.committed(copy)


def test_a_release_is_whole_and_its_sums_are_right(copy, tmp_path, monkeypatch):
    # the index is tried below
    monkeypatch.setattr(publish, "hashed", lambda text, whole: text)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<p>here</p>")
    files = publish.publish(tmp_path / "dist", tmp_path / "site", copy)
    now = f"parallel-deep-learning-{publish.version()}"
    assert {path.name for path in files} == {
        f"{now}.tar.gz",
        f"{now}-site.zip",
        *publish.LOCKS,
        "SHA256SUMS",
    }
    for name, (lock, _) in publish.LOCKS.items():
        assert (tmp_path / "dist" / name).read_text() == lock.read_text()
    with tarfile.open(tmp_path / "dist" / f"{now}.tar.gz") as archive:
        assert {f"{now}/{name}" for name in PLACES} <= set(archive.getnames())
    with zipfile.ZipFile(tmp_path / "dist" / f"{now}-site.zip") as archive:
        assert archive.read("site/index.html") == b"<p>here</p>"
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=tmp_path / "dist").returncode == 0
    (tmp_path / "dist" / "requirements-hashed.txt").write_text("another")
    assert subprocess.run(check, cwd=tmp_path / "dist", capture_output=True).returncode == 1


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index on loopback: ``one`` has a hash there, ``two`` has none."""
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        wheel = make_wheel(folder, name)
        anchor = f"#sha256={publish.sums(folder).split()[0]}" if name == "one" else ""
        (folder / "index.html").write_text(f'<a href="{wheel.name}{anchor}">{wheel.name}</a>')
    serve = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for name in ("UV_FIND_LINKS", "UV_EXTRA_INDEX_URL", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.part(of="bare-machine")
def test_a_pin_has_its_hashes_or_is_named(index):
    found = publish.hashed("one==1.0\n")
    wheel = re.search(r"(\w+)  one-1", publish.sums(index / "one"))
    assert wheel[1] in found
    with pytest.raises(publish.PublishError, match=r"none for two==1\.0"):
        publish.hashed("one==1.0\ntwo==1.0\n")
    with pytest.raises(publish.PublishError, match="three"):
        publish.hashed("three==2.0\n")


def test_every_lock_of_the_course_is_in_a_release():
    names = subprocess.run(
        ["git", "ls-files", "*requirements*.txt"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    assert {str(lock.relative_to(ROOT)) for lock, _ in publish.LOCKS.values()} == set(names)
