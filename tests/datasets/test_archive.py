"""data/debian/archive.py against a mirror of one index, served from a folder."""

import hashlib
import importlib.util
import lzma

import pytest

from helpers.paths import ROOT

SOURCE = ROOT / "data" / "debian" / "archive.py"
PACKAGES = "Package: a\nDepends: b,\n c\n\nPackage: b\nDescription: with\u2028a separator\n"
RELEASE = (
    "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n"
    "Version: 12.0\nSHA256:\n {} 9 main/Packages.xz\n"
)


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("debian_archive", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def mirror(tmp_path, module, monkeypatch):
    """A file:// mirror of one index and an archive that reads it; its signature is not checked."""
    monkeypatch.setattr(module, "_signature_holds", lambda signed: False)
    packed = lzma.compress(PACKAGES.encode())
    digest = hashlib.sha256(packed).hexdigest()
    suite = tmp_path / "mirror" / "dists" / "bookworm"
    index = suite / "main" / "by-hash" / "SHA256" / digest
    index.parent.mkdir(parents=True)
    index.write_bytes(packed)
    (suite / "InRelease").write_text(RELEASE.format(digest))
    return index, module.Archive((tmp_path / "mirror").as_uri(), cache=tmp_path / "cache")


def test_paragraphs_are_read_from_an_index_whose_sum_holds(mirror):
    _, archive = mirror
    assert archive.release["Version"] == "12.0"
    assert list(archive.paragraphs("main/Packages")) == [
        {"Package": "a", "Depends": "b,\n c"},
        {"Package": "b", "Description": "with\u2028a separator"},
    ]


def test_an_index_is_fetched_once_and_again_if_the_kept_copy_is_damaged(mirror, tmp_path):
    index, archive = mirror
    archive.index("main/Packages")
    packed = index.read_bytes()
    index.write_bytes(b"never read")
    assert archive.index("main/Packages").decode() == PACKAGES
    next((tmp_path / "cache").iterdir()).write_bytes(b"damaged")
    index.write_bytes(packed)
    assert archive.index("main/Packages").decode() == PACKAGES


def test_a_wrong_sum_a_missing_index_and_a_dead_mirror_are_refused(mirror, module, tmp_path):
    index, archive = mirror
    index.write_bytes(b"something else")
    with pytest.raises(module.ArchiveError, match="the mirror sent"):
        archive.index("main/Packages")
    with pytest.raises(module.ArchiveError, match=r"lists no 'main/Sources\.xz'"):
        archive.index("main/Sources")
    with pytest.raises(module.ArchiveError, match="could not fetch"):
        module.Archive((tmp_path / "nowhere").as_uri(), cache=tmp_path).index("main/Packages")


def test_a_wrong_signature_is_refused(module):
    if not module._signature_holds.__globals__["shutil"].which("gpgv"):
        pytest.skip("gpgv is not installed")
    if not module.KEYRING.exists():
        pytest.skip("Debian's keyring is not installed")
    with pytest.raises(module.ArchiveError, match="signature is wrong"):
        module._signature_holds(RELEASE.encode())
