"""Pictures of attention: a document's words and sentences in shades, deletion."""

from __future__ import annotations

import html
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots import style
from helpers.plots.style import arrow
from helpers.timing import student

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.attention.explain import Weights


def document_html(sentences: Sequence[Sequence[str]], found: Weights, title: str) -> str:
    """Return a document as HTML: the bar before a sentence is its weight, a word's shade its own.

    A word is shaded by weight × length of its sentence (1: as much as any other); each set of
    weights adds up to 1. What is beyond what was read is left out.
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
            '<tr style="background:white;color:black">'
            f'<td style="width:110px;vertical-align:middle">{bar}</td><td>{share:.2f}</td>'
            f'<td style="text-align:left;white-space:normal">{" ".join(spans)}</td></tr>'
        )
    return (
        f'<p style="font-size:15px"><b>{html.escape(title)}</b></p>'
        '<table class="course-figure" style="font-size:15px;line-height:1.5">'
        f"{''.join(rows)}</table>"
    )


def deletion(curves: Mapping[str, Sequence[float]], counts: Sequence[int]) -> Axes:
    """Draw how probable the first answer stays as ``counts`` words are hidden in each document.

    ``curves`` has, under what was hidden first, the mean probability for each of ``counts``.
    """
    ax = style.ensure_axes()
    for (name, values), marker in zip(curves.items(), itertools.cycle("osD^v")):
        ax.plot(counts, values, marker=marker, ms=8, label=name)
    ax.set_xlabel("words hidden in each document")
    ax.set_ylabel("mean probability\nof the first answer")
    ax.set_ylim(0, 1)
    ax.legend(title="hidden first", loc="lower left", fontsize="small")
    return ax


def differences(pairs: Mapping[str, Sequence[Sequence[float]]], margin: float) -> Axes:
    """Draw by how much one side is ahead: every pair, the mean, and its interval at 95 %.

    ``pairs`` has (ours, rival) under what was compared, such as two accuracies on the same split.
    Differences up to ``margin``, on both sides of 0, are shaded: they count as none.
    """
    ax = style.ensure_axes(figsize=(9, 1.5 + 0.5 * len(pairs)))
    ax.axvspan(-margin, margin, color=style.GREY, alpha=0.2, lw=0)
    ax.axvline(0, color=style.BLACK, lw=1.6)
    for row, values in enumerate(pairs.values()):
        apart = [ours - rival for ours, rival in values]
        mean, low, high = student(apart)
        colour = style.colour(row)
        ax.plot([low, high], [row, row], marker="", color=colour, lw=5, alpha=0.5)
        ax.plot(mean, row, "D", ms=11, color=colour)
        ax.plot(apart, [row] * len(apart), "o", ms=6, color=style.BLACK, mec="white", zorder=5)
    ax.set_yticks(range(len(pairs)), list(pairs))
    ax.set_ylim(len(pairs) - 0.5, -0.5)
    ax.set_xlabel("accuracy ahead of the rival's (dot: a split; diamond and bar: mean, 95 %)")
    return ax


def hierarchy(sentences: Sequence[Sequence[str]], answer: str) -> Axes:
    """Draw how the model reads a document: words, states, a summary of each sentence, one of all.

    ``answer`` stands behind the arrow that leaves the document's summary. Four words of each
    sentence are drawn.
    """
    ax = style.ensure_axes(figsize=(10.5, 5.2))
    ax.figure.set_label("How hierarchical attention reads a document")
    shown = [[*s[:4], "…"] if len(s) > 4 else list(s) for s in sentences]
    left, middles = 0.0, []
    for i, words in enumerate(shown, start=1):
        places = [left + t for t in range(len(words))]
        middle = sum(places) / len(places)
        for x, word in zip(places, words, strict=True):
            ax.text(x, 0, word, ha="center", va="center", fontsize=11, rotation=25)
            if word != "…":
                arrow(ax, (x, 0.3), (x, 0.72))
                _box(ax, x, 1.0, style.BLUE)
                arrow(ax, (x, 1.28), (middle, 2.12), style.ORANGE)
        for x, after in itertools.pairwise(places):
            arrow(ax, (x + 0.26, 1.0), (after - 0.26, 1.0), ends="<->")
        _box(ax, middle, 2.4, style.ORANGE, f"$s_{i}$")
        arrow(ax, (middle, 2.68), (middle, 3.12))
        _box(ax, middle, 3.4, style.BLUE)
        middles.append(middle)
        left = places[-1] + 1.5
    top = sum(middles) / len(middles)
    for x, after in itertools.pairwise(middles):
        arrow(ax, (x + 0.26, 3.4), (after - 0.26, 3.4), ends="<->")
    for x in middles:
        arrow(ax, (x, 3.68), (top, 4.52), style.ORANGE)
    _box(ax, top, 4.8, style.ORANGE, "$v$")
    arrow(ax, (top + 0.3, 4.8), (top + 1.5, 4.8))
    ax.text(top + 1.6, 4.8, answer, va="center")
    for y, name, colour in (
        (0, "words", style.BLACK),
        (1, "states, by a GRU", style.BLUE),
        (2.4, "attention", style.VERMILION),
        (3.4, "states, by a GRU", style.BLUE),
        (4.8, "attention", style.VERMILION),
    ):
        ax.text(-0.8, y, name, ha="right", va="center", color=style.legible(colour))
    ax.set(xlim=(-3.2, left - 0.5), ylim=(-0.5, 5.2))
    ax.set_axis_off()
    return ax


def _box(ax: Axes, x: float, y: float, colour: str, text: str = "") -> None:
    """Draw a box with rounded corners around its middle, and a text in it, in data coordinates."""
    from matplotlib.patches import FancyBboxPatch

    ax.add_patch(
        FancyBboxPatch(
            (x - 0.23, y - 0.26), 0.46, 0.52, boxstyle="round,pad=0,rounding_size=0.1",
            facecolor=colour, edgecolor=colour, linewidth=1.5,
        )
    )  # fmt: skip
    ax.text(x, y, text, ha="center", va="center", color=style.BLACK, fontsize=14)
