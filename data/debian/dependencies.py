"""Build the snapshot of Debian's dependency graph: ``python data/debian/dependencies.py``.

A node is a binary package of ``main``, amd64; an edge leads from a package to one that it needs
(Depends and Pre-Depends). Of alternatives, "a | b", the first that exists is taken, as apt does; a
name that is only provided by other packages stands for the first of its providers by name.
Versions are ignored. Writes ``dependencies.txt.xz`` with its sum beside it: a line of JSON for the
snapshot's origin, then for each package, in alphabetical order,
``name<TAB>section<TAB>numbers of the packages it needs``, each a difference from the one before.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

from archive import MIRROR, Archive, pack

TARGET = Path(__file__).with_name("dependencies.txt.xz")


def names_in(field: str) -> list[list[str]]:
    """Return the alternatives of each dependency, names only.

    >>> names_in("libc6 (>= 2.36), awk | mawk:any")
    [['libc6'], ['awk', 'mawk']]
    """
    groups = [[one.split() for one in group.split("|")] for group in field.split(",")]
    return [[one[0].split(":")[0] for one in group if one] for group in groups if any(group)]


def graph(paragraphs) -> tuple[list[tuple[str, str, list[int]]], int]:
    """Return (name, section, targets) by name, and how many dependencies nothing satisfies."""
    packages = {p["Package"]: p for p in paragraphs}
    number = {name: i for i, name in enumerate(sorted(packages))}
    providers = defaultdict(list)
    for name in number:
        for (virtual,) in names_in(packages[name].get("Provides", "")):
            providers[virtual].append(name)
    rows, unmet = [], 0
    for name in number:
        targets = set()
        for field in ("Pre-Depends", "Depends"):
            for group in names_in(packages[name].get(field, "")):
                real = [one for one in group if one in number]
                real = real or [p for one in group for p in providers[one]]
                unmet += not real
                targets.update(number[one] for one in real[:1])
        rows.append((name, packages[name].get("Section", "unknown"), sorted(targets)))
    return rows, unmet


def write(target: Path, about: dict, rows) -> str:
    """Write the graph and, beside it, its sum as sha256sum(1) prints it; return the sum."""
    lines = [json.dumps(about)]
    for name, section, targets in rows:
        steps = [b - a for a, b in zip([0, *targets], targets, strict=False)]
        lines.append(f"{name}\t{section}\t{' '.join(map(str, steps))}")
    return pack(lines, target)


def main() -> None:
    """Build, write, and print what was written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mirror", default=MIRROR, help="a Debian mirror (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=TARGET)
    arguments = parser.parse_args()
    archive = Archive(arguments.mirror)
    path = "main/binary-amd64/Packages"
    rows, unmet = graph(archive.paragraphs(path))
    edges = sum(len(targets) for _, _, targets in rows)
    about = {
        "origin": f"Debian archive, suite bookworm, {path}",
        "version": archive.release["Version"],
        "date": archive.release["Date"],
        "sha256 of the index": archive.sums[f"{path}.xz"],
        "nodes": len(rows),
        "edges": edges,
        "dependencies that nothing satisfies": unmet,
    }
    digest = write(arguments.out, about, rows)
    print(f"{len(rows)} packages, {edges} edges, {unmet} unmet", end=", ")
    print(f"{arguments.out.stat().st_size / 2**20:.2f} MiB, sha256 {digest}")


if __name__ == "__main__":
    main()
