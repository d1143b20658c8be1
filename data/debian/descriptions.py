"""Build the snapshot of package descriptions: ``python data/debian/descriptions.py``.

Takes the descriptions of eight sections from the archive's package and translation indices and
writes ``descriptions.jsonl.xz`` with its sum beside it. One line for the snapshot's origin, then
one for each package: package, source, section, fold, text. The fold, 0 to 4, is drawn from the name
of the *source* package: twins built from one source never stand on both sides of a split.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections import Counter
from pathlib import Path

from archive import MIRROR, Archive, pack

from helpers.datasets.text import sentences, words

SECTIONS = ("admin", "games", "graphics", "net", "science", "sound", "text", "web")
MIN_SENTENCES = 3  # running prose, the synopsis and the items of lists not counted
MIN_WORDS = 5  # a shorter one is a heading
MAX_PER_SOURCE = 2  # one source builds 161 language packs that differ in a word
FOLDS = 5
TARGET = Path(__file__).with_name("descriptions.jsonl.xz")
LICENCE = (
    "Each description is part of its Debian source package and under that package's licence, stated"
    " in /usr/share/doc/PACKAGE/copyright and at https://metadata.ftp-master.debian.org/changelogs/;"
    " every package of Debian's main section is free software under the Debian Free Software"
    " Guidelines."
)


def source_of(package: dict[str, str]) -> str:
    """Return the source package's name without its version."""
    return package.get("Source", package["Package"]).split()[0]


def fold_of(source: str) -> int:
    """Return 0 to 4, the same on every machine and in every rebuild."""
    return int(hashlib.sha256(source.encode()).hexdigest(), 16) % FOLDS


def prose(text: str) -> list[str]:
    """Return the sentences of running text: ended by a stop and long enough."""
    body = sentences(text)[1:]
    return [s for s in body if re.search(r"[.!?][\"')]*$", s) and len(words(s)) >= MIN_WORDS]


def texts_of(archive: Archive) -> dict[str, str]:
    """Return each English description by the sum that packages refer to it with."""
    translations = archive.paragraphs("main/i18n/Translation-en")
    return {t["Description-md5"]: t["Description-en"] for t in translations}


def documents(archive: Archive) -> list[dict]:
    """Return the chosen packages in alphabetical order, as they are written."""
    texts, taken, chosen = texts_of(archive), Counter(), []
    packages = {p["Package"]: p for p in archive.paragraphs("main/binary-amd64/Packages")}
    for name in sorted(packages):
        package, source = packages[name], source_of(packages[name])
        text = texts.get(package.get("Description-md5", ""), "")
        if package["Section"] not in SECTIONS or taken[source] == MAX_PER_SOURCE:
            continue
        if len(prose(text)) < MIN_SENTENCES:
            continue
        taken[source] += 1
        chosen.append(
            {
                "package": name,
                "source": source,
                "section": package["Section"],
                "fold": fold_of(source),
                "text": text,
            }
        )
    return chosen


def write(target: Path, about: dict, rows: list[dict]) -> str:
    """Write the rows and, beside them, their sum as sha256sum(1) prints it; return the sum."""
    lines = [json.dumps(row, ensure_ascii=False) for row in (about, *rows)]
    return pack(lines, target)


def main() -> None:
    """Build, write, and print what was written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", default=MIRROR, help="a Debian mirror (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    archive = Archive(arguments.mirror)
    rows = documents(archive)
    about = {
        "origin": "Debian archive, suite bookworm, component main, architecture amd64",
        "version": archive.release["Version"],
        "date": archive.release["Date"],
        "sections": SECTIONS,
        "licence": LICENCE,
    }
    digest = write(arguments.out, about, rows)
    print(f"{len(rows)} descriptions, {arguments.out.stat().st_size / 2**20:.2f} MiB, {digest}")
    for name in ("section", "fold"):
        print(name, dict(sorted(Counter(row[name] for row in rows).items())))


if __name__ == "__main__":
    main()
