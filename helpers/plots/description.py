"""What a figure shows, in words, read from the figure itself: the alt text of every plot.

Nobody writes these words and so nobody forgets them: titles, axes with their units and scale, and
for each labelled line its first and last point and its least and largest value. The numbers are
those of the run that drew the figure. After Jung, Mehta, Kulkarni, Zhao & Kim (2021),
"Communicating Visualizations without Visuals": first the kind and the axes, then the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from helpers.plots import dark

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 1500  # characters: what a screen reader says in a minute and a half
MOST_TITLES = 4  # that stand in a caption
ITEMS = 12  # lines, bars or words that are told one by one; of more, how many there are


def describe(figure: Figure) -> str:
    """Return what a figure shows, in sentences: one line of at most ``LONGEST`` characters.

    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> _ = ax.plot([1, 2, 4], [8.0, 5.0, 6.0], label="ring")
    >>> _ = ax.set(title="Cost", xlabel="ranks", ylabel="time in ms", xscale="log")
    >>> describe(ax.figure)
    'Cost. Across: ranks, logarithmic. Up: time in ms. Line "ring": from 8 at 1 to 6 at 4, least 5.'
    """
    panels = _panels(figure)
    told = [" ".join(_panel(ax)) for ax in panels]
    named = dict.fromkeys(filter(None, (str(figure.get_label()), figure.get_suptitle())))
    heading = [_sentence(_text(name)) for name in named]
    if len(told) > 1:
        told = [f"Panel {number} of {len(told)}: {text}" for number, text in enumerate(told, 1)]
    text = " ".join([*heading, *told]).strip() or "An empty figure."
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rsplit(" ", 1)[0] + " …"


def title(figure: Figure) -> str:
    """Return what a figure is called, for its caption: its label, or its titles if they are few.

    The label, ``figure.set_label(...)``, is not drawn. Lines of a title after its first are
    remarks, such as a warning.

    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> title(ax.figure)
    ''
    >>> _ = ax.set_title("Cost.")
    >>> title(ax.figure)
    'Cost'
    >>> ax.figure.set_label("What an allreduce costs")
    >>> title(ax.figure)
    'What an allreduce costs'
    """
    if label := str(figure.get_label()):
        return label
    titles = [figure.get_suptitle(), *(next(_titles(ax), "") for ax in _panels(figure))]
    words = [_text(first).rstrip(".") for one in titles if (first := one.partition("\n")[0])]
    return "; ".join(dict.fromkeys(words)) if len(words) <= MOST_TITLES else ""


def axes(figure: Figure) -> str:
    """Return what a figure shows by what, for the caption of one without a title.

    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> _ = ax.set(xlabel="ranks", ylabel="time in ms")
    >>> axes(ax.figure)
    'time in ms by ranks'

    A panel that shares its axes with one before it adds no words.

    >>> left, right = Figure().subplots(1, 2, sharey=True)
    >>> _ = left.set(xlabel="ranks", ylabel="time in ms"), right.set(xlabel="ranks")
    >>> axes(left.figure)
    'time in ms by ranks'
    """
    found: list[str] = []
    shown: set[str] = set()
    for ax in _panels(figure):
        labels = [one for one in (ax.get_ylabel(), ax.get_xlabel()) if one and "\\" not in one]
        if not shown.issuperset(labels):
            found.append(" by ".join(map(_text, labels)))  # a caption has no formulas
        shown.update(labels)
    return "; ".join(found) if len(found) <= MOST_TITLES else ""


def install(shell: Any) -> None:
    """Let the figures that an IPython shell shows carry their description as alt text.

    They also say which parts keep their colours in a dark theme (``helpers/plots/dark.py``). Called
    twice, it changes nothing the second time.
    """
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    # Load the backend now: loaded later, it would put its own formatter back.
    pyplot.switch_backend(pyplot.get_backend())
    for kind in ("image/png", "image/svg+xml", "image/jpeg"):
        formatter = shell.display_formatter.formatters[kind]
        try:
            plain = formatter.lookup_by_type(Figure)
        except KeyError:  # not shown so: a terminal, a window of its own, another format
            continue
        if not getattr(plain, "describes", False):
            formatter.for_type(Figure, _describing(plain))


def _describing(plain: Callable) -> Callable:
    """Return a formatter of figures that adds what they show, and what of it keeps its colours."""

    def described(figure: Figure) -> Any:
        shown = plain(figure)
        if shown is None:
            return None
        data, metadata = shown if isinstance(shown, tuple) else (shown, {})
        found = {"alt": describe(figure), "title": title(figure), "axes": axes(figure)}
        parts = dark.kept(figure, data)
        return data, {**metadata, **found, **({} if parts is None else {"kept": parts})}

    described.describes = True  # type: ignore[attr-defined]
    return described


def _panels(figure: Figure) -> list[Axes]:
    return [ax for ax in figure.axes if ax.get_visible() and not _is_colorbar(ax)]


def _titles(ax: Axes) -> Iterator[str]:
    return filter(None, (ax.get_title(loc=place) for place in ("left", "center", "right")))


def _panel(ax: Axes) -> Iterator[str]:
    """Yield the sentences about one pair of axes."""
    yield from (_sentence(_text(title)) for title in _titles(ax))
    if ax.axison:
        for name, axis in (("Across", ax.xaxis), ("Up", ax.yaxis)):
            if label := _text(axis.get_label_text()):
                scale = ", logarithmic" if axis.get_scale() == "log" else ""
                yield f"{name}: {label}{scale}."
        for name, axis in (("Columns", ax.xaxis), ("Rows", ax.yaxis)):
            if (names := _names(axis)) and not ax.containers:
                yield f"{name}: {', '.join(names)}."
    yield from _few(map(_line, _curves(ax)), "lines")
    yield from _few(_bars(ax), "bars")
    yield from map(_image, [*ax.images, *_meshes(ax)])
    legend = ax.get_legend()
    lines = {_text(str(line.get_label())) for line in ax.lines}
    groups = {_text(str(group.get_label())) for group in ax.containers}
    if legend is not None:
        named = [_text(entry.get_text()) for entry in legend.get_texts()]
        if others := [name for name in named if name not in lines | groups]:
            yield f"Legend: {', '.join(others)}."
    words = [_text(text.get_text()) for text in ax.texts if text.get_visible()]
    if words := [word for word in words if word]:
        more = f" and {len(words) - ITEMS} more" if len(words) > ITEMS else ""
        yield f"Written in it: {'; '.join(words[:ITEMS])}{more}."


def _few(sentences: Iterable[str], what: str) -> list[str]:
    told = list(sentences)
    if len(told) <= ITEMS:
        return told
    return [*told[:ITEMS], f"{len(told) - ITEMS} more {what}."]


def _curves(ax: Axes) -> list[Any]:
    """The lines that hold data, or have a name; not those of error bars, and no bare guides."""
    inside = {id(part) for group in ax.containers for part in _parts(group)}
    lines = [line for line in ax.lines if len(line.get_xdata()) and id(line) not in inside]
    named = [line for line in lines if not str(line.get_label()).startswith("_")]
    return named or [line for line in lines if not _is_guide(line)]


def _is_guide(line: Any) -> bool:
    """Whether a line crosses the whole panel, as ``axhline`` and ``axvline`` draw it."""
    return line.axes is not None and line.get_transform() != line.axes.transData


def _names(axis: Any) -> list[str]:
    """Return an axis's ticks where they are words: ranks, methods."""
    from matplotlib.category import StrCategoryFormatter
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    formatter = axis.get_major_formatter()
    if not isinstance(formatter, FixedFormatter | FuncFormatter | StrCategoryFormatter):
        return []
    words = [_text(tick.get_text()) for tick in axis.get_ticklabels()]
    named = [word for word in words if word]
    numbers = [word for word in named if word[0].isdigit() or word[0] in "-−+."]
    return [] if numbers or len(named) > ITEMS else named


def _parts(group: Any) -> Iterator[Any]:
    for part in group:
        yield from part if isinstance(part, tuple | list) else [part]


def _line(line: Any) -> str:
    import numpy as np

    label = _text(str(line.get_label()))
    name = "Line" if label.startswith("_") else f'Line "{label}"'
    x, y = (np.asarray(values) for values in line.get_data())
    if _is_guide(line):
        return (
            f"{name}: upright at {_number(x[0])}."
            if x[0] == x[-1]
            else f"{name}: level at {_number(y[0])}."
        )
    try:
        heights = y.astype(float)
    except (TypeError, ValueError):
        return f"{name}: {len(y)} points."
    finite = np.isfinite(heights)
    if not finite.any():
        return f"{name}: no finite value."
    x, heights = x[finite], heights[finite]
    if len(heights) == 1:
        return f"{name}: {_number(heights[0])} at {_number(x[0])}."
    ends = f"from {_number(heights[0])} at {_number(x[0])} to {_number(heights[-1])}"
    extremes = [
        f"{word} {_number(value)}"
        for word, value in (("least", heights.min()), ("most", heights.max()))
        if value not in (heights[0], heights[-1])
    ]
    return f"{name}: {', '.join([f'{ends} at {_number(x[-1])}', *extremes])}."


def _bars(ax: Axes) -> Iterator[str]:
    from matplotlib.container import BarContainer

    for group in ax.containers:
        if not isinstance(group, BarContainer) or not len(group):
            continue
        flat = group.orientation == "horizontal"
        axis = ax.yaxis if flat else ax.xaxis
        labels = {
            round(float(at), 6): _text(tick.get_text())
            for at, tick in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
        }
        told = []
        for bar in list(group)[:ITEMS]:
            low, size = (bar.get_y(), bar.get_height()) if flat else (bar.get_x(), bar.get_width())
            length = bar.get_width() if flat else bar.get_height()
            middle = round(float(low + size / 2), 6)
            told.append(f"{labels.get(middle) or _number(middle)} {_number(length)}")
        label = _text(str(group.get_label()))
        name = "Bars" if label.startswith("_") else f'Bars "{label}"'
        more = f", {len(group) - ITEMS} more" if len(group) > ITEMS else ""
        yield f"{name}: {', '.join(told)}{more}."


def _meshes(ax: Axes) -> list[Any]:
    from matplotlib.collections import QuadMesh

    return [part for part in ax.collections if isinstance(part, QuadMesh)]


def _image(picture: Any) -> str:
    import numpy as np

    values = np.ma.masked_invalid(np.ma.asarray(picture.get_array()))
    shape = " × ".join(str(size) for size in values.shape[:2])
    if values.ndim == 3 or not values.count():
        return f"A picture of {shape} points."
    return f"A map of {shape} values, from {_number(values.min())} to {_number(values.max())}."


def _number(value: Any) -> str:
    """Three digits, without an exponent where people write none."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return _text(str(value))
    if number and (abs(number) >= 1e6 or abs(number) < 1e-3):
        return f"{number:.2e}"
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _text(words: str) -> str:
    """One line without the marks of formulas."""
    return " ".join(words.replace("$", "").replace("\\", "").split())


def _sentence(words: str) -> str:
    return words if words.endswith((".", "?", "!", ":")) else f"{words}."


def _is_colorbar(ax: Axes) -> bool:
    return hasattr(ax, "_colorbar") or ax.get_label() == "<colorbar>"
