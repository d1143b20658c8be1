"""A model that writes, after a minute of training: tokens that are pieces of words, or characters.

    python -m bench writing

Both are trained for about as long, by turns, in one process with all cores.
"""

from __future__ import annotations

import time

from helpers.records import Row

SUITE = "writing"
SEEDS = (0, 1, 2)
START = "This package"
TEMPERATURE = 0.5  # of the draws: the likelier tokens become likelier


def rows() -> list[Row]:
    """Train both with three seeds: seconds, bits for each held-out character, known words."""
    import torch

    from helpers.datasets.characters import decode, load_characters
    from helpers.machine import usable_cores
    from helpers.models.writing import READABLE, SPELT, WORD, bits, generate, known, trained

    torch.set_num_threads(usable_cores())
    train, test = map(decode, load_characters())
    words = {word.lower() for word in WORD.findall(train)}
    found = []
    for seed in SEEDS:
        both = []
        for recipe in (READABLE, SPELT):
            began = time.perf_counter()
            model, alphabet = trained(recipe, seed)
            took = time.perf_counter() - began
            context = recipe.config.context
            lost = bits(model, test[:300_000], context, alphabet)
            tokens = len(alphabet.encode(test[:400]))  # about as many characters of either
            texts = [
                generate(model, START, tokens, context, TEMPERATURE, n, alphabet) for n in range(16)
            ]
            both.append((took, lost, known(" ".join(texts), words), texts[0]))
            print(f"seed {seed}: {took:.0f} s, {lost:.3f} bits", flush=True)
        case = {"seed": seed, "threads": torch.get_num_threads(), "temperature": TEMPERATURE}
        for place, (name, unit) in enumerate(
            (("training", "s"), ("for each character", "bit"), ("words that exist", "1"))
        ):
            ours, theirs = (one[place] for one in both)
            texts = {"text": both[0][3], "peer's text": both[1][3]} if place == 2 else {}
            found.append(Row(name, ours, unit, "characters", theirs, {**case, **texts}))
    return found
