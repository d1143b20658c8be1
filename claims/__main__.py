"""Run the claims of the notebooks, print what they say, and write a record (``make claims``).

    python -m claims                   every notebook that has claims
    python -m claims 03 07             these
    python -m claims 03-reset-gate     this claim only: printed, not recorded
    python -m claims --record 03-reset-gate  this claim only, and recorded: the others keep theirs
    python -m claims --smallest 03     each experiment once, at its smallest: does it still run?

A full run may take an hour: every experiment is run for each of its seeds at each of its settings.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

import claims
from helpers import records
from helpers.claims.claim import Claim
from helpers.claims.running import Evidence, run, run_smallest
from helpers.paths import CLAIM_RECORDS


def main(arguments: list[str]) -> int:
    """Run what was asked for; 1 if an experiment failed or a verdict is not the notebook's."""
    parser = argparse.ArgumentParser(prog="python -m claims", description=__doc__.splitlines()[0])
    parser.add_argument("which", nargs="*", metavar="NN or CLAIM", help="default: every notebook")
    parser.add_argument("--smallest", action="store_true", help="each experiment once, no record")
    parser.add_argument("--record", action="store_true", help="write one of single claims too")
    parser.add_argument("--no-record", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    chosen = choose(options.which)
    if isinstance(chosen, str):
        print(chosen, file=sys.stderr)
        return 1
    broken = []
    for topic, wanted in chosen.items():
        evidence, failed = _run(wanted, options.smallest)
        broken += failed
        if options.smallest or not evidence:
            continue
        print(table(evidence), flush=True)
        broken += [one.claim.id for one in evidence if not one.claim.agrees(one.verdict)]
        whole = len(evidence) == len(claims.of(topic))
        if (whole or options.record) and not options.no_record:
            rows = [row for found in evidence for row in found.rows()]
            single = " ".join(["--record", *(found.claim.id for found in evidence)])
            command = f"python -m claims {topic[:2] if whole else single}"
            print(f"written: {records.write(records.make({topic: rows}, command), CLAIM_RECORDS)}")
    if broken:
        print(f"claims: {', '.join(broken)}: not as the notebook says (above)", file=sys.stderr)
    return 1 if broken else 0


def choose(which: list[str]) -> dict[str, list[Claim]] | str:
    """Return the claims asked for by notebook, or the sentence that says why there are none."""
    everything = {topic: claims.of(topic) for topic in claims.topics()}
    known = {name for topic, found in everything.items() for name in (topic, topic[:2], *found)}
    if unknown := [name for name in which if name not in known]:
        got, there = ", ".join(unknown), ", ".join(everything) or "none"
        return f"claims: expected a notebook or a claim of one; got {got}. There are: {there}"
    chosen = {}
    for topic, found in everything.items():
        all_of_it = not which or {topic, topic[:2]} & set(which)
        wanted = [claim for name, claim in found.items() if all_of_it or name in which]
        if wanted:
            chosen[topic] = wanted
    return chosen or "claims: no notebook has claims yet"


def table(evidence: list[Evidence]) -> str:
    """Return a line for each claim and each of its settings."""
    lines = []
    for found in evidence:
        agrees, stated = found.claim.agrees(found.verdict), found.claim.verdict
        note = "" if found.verdict == stated else f" ({stated})" if agrees else f", NOT {stated}"
        lines.append(f"{found.claim.id}  {found.verdict}{note}")
        for row in found.rows():
            given = row.parameters
            low, high = ("∞" if end is None else f"{end:.3g}" for end in given["interval"])
            lines.append(
                f"    {given['setting']:24.24} {row.value:9.4g} against {row.peer_value:9.4g} "
                f"{row.unit:8.8} {given['effect']:+9.3g} [{low}, {high}]  {given['word']}"
            )
    return "\n".join(lines)


def _run(wanted: list[Claim], smallest: bool) -> tuple[list[Evidence], list[str]]:
    """Run the claims one after the other; one that fails does not take the others with it."""
    done, failed = [], []
    for claim in wanted:
        began = time.perf_counter()
        try:
            if smallest:
                run_smallest(claim)
            else:
                done.append(run(claim, lambda line: print(line, flush=True)))
        except Exception:
            traceback.print_exc()
            failed.append(claim.id)
        print(f"{claim.id}: {time.perf_counter() - began:.1f} s", flush=True)
    return done, failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
