"""Pictures of attention: a document's words and sentences in shades, confusion, deletion."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from . import style

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes

    from helpers.attention.explain import Weights


def document_html(sentences: Sequence[Sequence[str]], found: Weights, title: str = "") -> str:
    """Return a document as HTML: the bar before a sentence is its weight, a word's shade its own.

    A word is shaded by weight × length of its sentence (1: as much as any other); sentences beyond
    what was read are left out.
    """
    rows = []
    for words, alphas, share in zip(sentences, found.words, found.sentences, strict=False):
        spans = []
        for word, alpha in zip(words, alphas, strict=False):
            opacity = min(1.0, max(0.0, (alpha * len(alphas) - 0.5) / 4))
            spans.append(
                f'<span title="{alpha:.3f}" style="background:rgba(230,159,0,{opacity:.2f});'
                f'color:black;padding:0 2px">{html.escape(word)}</span>'
            )
        bar = f'<div style="background:{style.BLUE};height:12px;width:{share * 100:.0f}px"></div>'
        rows.append(
            f'<tr style="background:white"><td style="width:110px;vertical-align:middle">{bar}</td>'
            f'<td style="color:black">{share:.2f}</td>'
            f'<td style="text-align:left;white-space:normal">{" ".join(spans)}</td></tr>'
        )
    return (
        f'<p style="font-size:15px"><b>{html.escape(title)}</b></p>'
        f'<table style="font-size:15px;line-height:1.5">{"".join(rows)}</table>'
    )


def confusion(counts: np.ndarray, names: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw a confusion matrix (true in rows, shares of each row); ``counts`` is (C, C)."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(7, 5.6))
    shares = counts / counts.sum(axis=1, keepdims=True).clip(min=1)
    picture = ax.imshow(shares, vmin=0, vmax=1)
    for i in range(len(names)):
        for j in range(len(names)):
            if shares[i, j] >= 0.005:
                shade = "white" if shares[i, j] < 0.5 else "black"
                ax.text(j, i, f"{shares[i, j]:.2f}", ha="center", va="center", color=shade, size=10)
    ax.set_xticks(range(len(names)), names, rotation=45, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("section that the model names")
    ax.set_ylabel("section in the archive")
    ax.grid(False)
    ax.figure.colorbar(picture, ax=ax, label="share of the row")
    return ax


def deletion(
    curves: Mapping[str, Sequence[float]], counts: Sequence[int], ax: Axes | None = None
) -> Axes:
    """Draw how probable the first answer stays as words are hidden."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots()
    for name, values in curves.items():
        ax.plot(counts, values, label=name)
    ax.set_xlabel("words hidden in each document")
    ax.set_ylabel("mean probability\nof the first answer")
    ax.set_ylim(0, 1)
    ax.legend(title="hidden first")
    return ax


def accuracies(
    scores: Mapping[str, Sequence[float]], bar: float, bar_name: str, ax: Axes | None = None
) -> Axes:
    """Draw every seed of every model, the median, and the bar to reach as a line."""
    import statistics

    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(figsize=(9, 1.5 + 0.55 * len(scores)))
    for row, values in enumerate(scores.values()):
        ax.plot(values, [row] * len(values), "o", color=style.GREY)
        ax.plot(statistics.median(values), row, "D", ms=9, color=style.colour(row))
    ax.axvline(bar, color=style.BLACK, ls="--", lw=1.6)
    ax.annotate(bar_name, (bar, -0.65), ha="center", va="bottom", annotation_clip=False)
    ax.set_yticks(range(len(scores)), list(scores))
    ax.set_ylim(len(scores) - 0.5, -0.6)
    ax.set_xlabel("accuracy on held-out packages (diamond: median)")
    return ax
