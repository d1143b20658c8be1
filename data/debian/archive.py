"""Fetch indices of a Debian archive, check their sums, and read them paragraph by paragraph.

    archive = Archive()                                     # Debian 12, bookworm
    for package in archive.paragraphs("main/binary-amd64/Packages"):
        package["Package"], package.get("Depends", "")

Indices come from an ordinary mirror by their SHA-256 ("by-hash"), as apt fetches them; the sums
stand in the InRelease file, whose signature is checked where gpgv and Debian's keyring exist.
A mirror serves the current point release; to rebuild an older one give the address of a dated
mirror, https://snapshot.debian.org/archive/debian/YYYYMMDDTHHMMSSZ.
"""

from __future__ import annotations

import hashlib
import lzma
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

MIRROR = "http://deb.debian.org/debian"  # plain http, as apt: trust comes from signature and sums
SUITE = "bookworm"  # Debian 12
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
CACHE = Path(__file__).resolve().parents[2] / "build" / "debian"  # git-ignored


class ArchiveError(RuntimeError):
    """An index is not listed, could not be fetched, or does not match its stated sum."""


class Archive:
    """One suite of one mirror; files are kept under ``cache`` and fetched once.

    Raises ArchiveError from every method that needs the network or a sum.
    """

    def __init__(self, mirror: str = MIRROR, suite: str = SUITE, cache: Path = CACHE):
        self.root = f"{mirror.rstrip('/')}/dists/{suite}"
        self.cache = Path(cache)

    @cached_property
    def release(self) -> dict[str, str]:
        """The fields of InRelease: Version ("12.15"), Date, Codename, SHA256 (the list of sums)."""
        signed = self._get("InRelease")
        self.signed = _signature_holds(signed)
        return next(read_paragraphs(signed.decode().split("\n")[3:]))  # after the PGP header

    @cached_property
    def sums(self) -> dict[str, str]:
        """SHA-256 of each index by path below the suite ("main/binary-amd64/Packages.xz")."""
        lines = (line.split() for line in self.release["SHA256"].splitlines() if line.strip())
        return {path: digest for digest, _size, path in lines}

    def index(self, path: str) -> bytes:
        """Return the unpacked index ``path``, e.g. "main/i18n/Translation-en" (without .xz)."""
        packed = f"{path}.xz"
        if packed not in self.sums:
            raise ArchiveError(f"{self.root} lists no {packed!r} in its Release file")
        digest = self.sums[packed]
        kept = self.cache / f"{digest}.xz"
        data = kept.read_bytes() if kept.exists() else b""
        if hashlib.sha256(data).hexdigest() != digest:
            data = self._get(f"{path.rpartition('/')[0]}/by-hash/SHA256/{digest}")
            if (found := hashlib.sha256(data).hexdigest()) != digest:
                raise ArchiveError(f"{packed}: expected sha256 {digest}, the mirror sent {found}")
            self.cache.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(data)
        return lzma.decompress(data)

    def paragraphs(self, path: str) -> Iterator[dict[str, str]]:
        """Yield the paragraphs of the index ``path`` as dictionaries from field to text."""
        return read_paragraphs(self.index(path).decode().split("\n"))

    def _get(self, path: str, timeout: float = 60.0) -> bytes:
        try:
            with urllib.request.urlopen(f"{self.root}/{path}", timeout=timeout) as answer:
                return answer.read()
        except OSError as error:
            raise ArchiveError(f"could not fetch {self.root}/{path}: {error}") from error


def read_paragraphs(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Yield deb822 paragraphs (deb-control(5)); continuation lines keep their leading space.

    >>> list(read_paragraphs(["Package: a", "Description: x", " y", "", "Package: b"]))
    [{'Package': 'a', 'Description': 'x\\n y'}, {'Package': 'b'}]
    """
    fields: dict[str, str] = {}
    name = ""
    for line in lines:
        if not line:
            if fields:
                yield fields
            fields = {}
        elif line[0] in " \t":
            fields[name] += "\n" + line
        else:
            name, _, value = line.partition(":")
            fields[name] = value.strip()
    if fields:
        yield fields


def pack(lines: Iterable[str], target: Path) -> str:
    """Write the lines compressed and, beside them, their sum as sha256sum(1) prints it."""
    packed = lzma.compress(("\n".join(lines) + "\n").encode(), preset=9 | lzma.PRESET_EXTREME)
    target.write_bytes(packed)
    digest = hashlib.sha256(packed).hexdigest()
    target.with_name(target.name + ".sha256").write_text(f"{digest}  {target.name}\n")
    return digest


def _signature_holds(signed: bytes) -> bool:
    """True if gpgv accepts the signature, False if it cannot be checked on this machine.

    Raises ArchiveError for a signature that is there and wrong.
    """
    if not (shutil.which("gpgv") and KEYRING.exists()):
        print(f"signature not checked: needs gpgv and {KEYRING}", file=sys.stderr)
        return False
    answer = subprocess.run(
        ["gpgv", "--keyring", str(KEYRING)], input=signed, capture_output=True, timeout=60
    )
    if answer.returncode:
        raise ArchiveError(f"the archive's signature is wrong: {answer.stderr.decode().strip()}")
    return True
