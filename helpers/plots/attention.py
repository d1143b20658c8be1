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

KEY = (1, 2, 3, 4)  # multiples of an equal share; from the last on the shade is full
WIDE = 100  # pixels of a bar of weight 1
APART = 0.062  # a line of text beside an axis of probability


def document_html(sentences: Sequence[Sequence[str]], found: Weights, title: str) -> str:
    """Return a document as HTML: the bar before a sentence is its weight, a word's shade its own.

    A word is shaded by weight × length of its sentence (1: as much as any other); each set of
    weights adds up to 1. What is beyond what was read is left out. A line above is the key.
    """
    rows = []
    for words, alphas, share in zip(sentences, found.words, found.sentences, strict=False):
        spans = (
            _shaded(html.escape(word), alpha * len(alphas), f' title="{alpha:.3f}"')
            for word, alpha in zip(words, alphas, strict=False)
        )
        rows.append(
            f'<tr style="background:white;color:black"><td style="vertical-align:middle">'
            f"{_bar(share)}</td><td>{share:.2f}</td>"
            f'<td style="text-align:left;white-space:normal">{" ".join(spans)}</td></tr>'
        )
    key = " ".join(_shaded(f"{times} ×", times) for times in KEY)
    head = (
        '<tr style="background:white;color:black"><th colspan="2" style="text-align:left">'
        "sentence's weight</th>"
        '<th style="text-align:left;font-weight:normal"><b>word\'s weight</b>, as a multiple of an '
        f"equal share: {key} or more</th></tr>"
    )
    return (
        f'<p style="font-size:15px"><b>{html.escape(title)}</b></p>'
        '<table class="course-figure" style="font-size:15px;line-height:1.5">'
        f"{head}{''.join(rows)}</table>"
    )


def _shaded(word: str, times: float, more: str = "") -> str:
    """Return a word on a ground that is full from KEY's last multiple on; from twice on, bold."""
    opacity = min(1.0, max(0.0, (times - 0.5) / (KEY[-1] - 0.5)) ** 0.6)  # seen in the dark too
    bold = "font-weight:bold;" if times >= 2 else ""
    return (
        f'<span{more} style="background:rgba(230,159,0,{opacity:.2f});{bold}'
        f'color:black;padding:0 2px">{word}</span>'
    )


def _bar(share: float) -> str:
    """Return a bar in a frame that is as wide as a weight of 1."""
    return (
        f'<div style="border:1px solid {style.GREY};width:{WIDE}px">'
        f'<div style="background:{style.BLUE};height:12px;width:{WIDE * share:.0f}px"></div></div>'
    )


def deletion(curves: Mapping[str, Sequence[float]], counts: Sequence[int]) -> Axes:
    """Draw how probable the first answer stays as ``counts`` words are hidden in each document.

    ``curves`` has, under what was hidden first, the mean probability for each of ``counts``.
    """
    from scipy.optimize import isotonic_regression

    ax = style.ensure_axes()
    ax.figure.set_label("How probable the first answer stays as words are hidden")
    shades = {}
    for i, ((name, values), marker) in enumerate(zip(curves.items(), itertools.cycle("osD^v"))):
        ax.plot(counts, values, color=style.colour(i), marker=marker, ms=8, label=name)
        shades[name] = style.legible(style.colour(i))
    last, beside = counts[-1], counts[-1] + (counts[-1] - counts[0]) / 12
    order = sorted(curves, key=lambda name: curves[name][-1])
    apart = [APART * k for k in range(len(order))]  # no name covers another
    near = isotonic_regression([curves[n][-1] - a for n, a in zip(order, apart, strict=True)]).x
    for name, low, a in zip(order, near, apart, strict=True):
        look = {"arrowstyle": "-", "color": shades[name], "shrinkA": 2, "shrinkB": 7}
        ax.annotate(name, (last, curves[name][-1]), (beside, low + a), va="center",
                    color=shades[name], arrowprops=look, annotation_clip=False)  # fmt: skip
    ax.text(beside, near[-1] + apart[-1] + 1.2 * APART, "hidden first:", va="center")
    ax.set_xlabel("words hidden in each document")
    ax.set_ylabel("mean probability\nof the first answer")
    ax.set_xticks(counts)
    ax.set_ylim(0, 1)
    return ax


def differences(pairs: Mapping[str, Sequence[Sequence[float]]], margins: Sequence[float]) -> Axes:
    """Draw by how many percentage points hierarchical attention is ahead: every pair, the mean,
    and its interval at 95 %.

    ``pairs`` has (ours, rival) under what was compared, such as two accuracies on the same split.
    Differences up to a row's margin, on both sides of 0, are shaded: they count as none.
    """
    ax = style.ensure_axes(figsize=(10, 2.2 + 0.5 * len(pairs)))
    wide = [200 * margin for margin in margins]
    left = [-100 * margin for margin in margins]
    bands = ax.barh(range(len(pairs)), wide, height=1, left=left, color=style.GREY, alpha=0.25,
                    label="too small to count")  # fmt: skip
    marks = ("a split", "their mean", "its 95 % interval")
    for row, (name, values) in enumerate(pairs.items()):
        apart = [100 * (ours - rival) for ours, rival in values]
        mean, low, high = student(apart)
        split, middle, interval = (f"{name}: {mark}" for mark in marks)
        ax.plot(apart, [row] * len(apart), "o", ms=6, color=style.BLACK, mec="white", zorder=5,
                label=split)  # fmt: skip
        ax.plot(mean, row, "D", ms=11, color=style.BLUE, zorder=4, label=middle)
        ax.plot([low, high], [row, row], marker="", color=style.BLUE, lw=5, alpha=0.4,
                label=interval)  # fmt: skip
    known = ax.lines[:3]
    ax.axvline(0, color=style.BLACK, lw=1.6, zorder=1.9)
    ax.set_yticks(range(len(pairs)), list(pairs))
    ax.set_ylim(len(pairs) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("lead in accuracy [percentage points]")
    for side, said in ((0.01, "← the rival ahead"), (0.99, "hierarchical attention ahead →")):
        ax.text(side, 1.02, said, transform=ax.transAxes, ha="left" if side < 0.5 else "right")
    ax.figure.legend(handles=[*known, bands[0]], labels=[*marks, "too small to count"], ncols=4,
                     loc="outside lower center")  # fmt: skip
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
            ax.text(x, 0, word, ha="center", va="center", fontsize=13, rotation=35)
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
        (2.4, "attention", style.ORANGE),
        (3.4, "states, by a GRU", style.BLUE),
        (4.8, "attention", style.ORANGE),
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
