"""A font for formulas on machines that have none: where exponents stand, and no letters.

A browser takes the heights of exponents, limits and fractions from the table MATH of the first
font that it finds. Without one it sets an exponent on top of what it belongs to. Windows and macOS
have such a font, a Linux or a phone often not. Made here is one that holds nothing but that table,
with the proportions of TeX's own fonts (Knuth, The TeXbook, appendix G), in a few hundred bytes;
the letters come from whatever font has them.
"""

from __future__ import annotations

import base64
import io
from functools import cache

FAMILIES = (
    "Cambria Math",
    "STIX Two Math",
    "Latin Modern Math",
    "Libertinus Math",
    "Noto Sans Math",
    "DejaVu Math TeX Gyre",
)
OURS = "Course Formulas"
PLACED = "msup, msub, msubsup, munder, mover, munderover, mfrac"  # a root needs the sign as well
EM = 1000  # units
CONSTANTS = {
    "ScriptPercentScaleDown": 70,
    "ScriptScriptPercentScaleDown": 50,
    "DelimitedSubFormulaMinHeight": 1300,
    "DisplayOperatorMinHeight": 1300,
    "MathLeading": 154,
    "AxisHeight": 250,
    "AccentBaseHeight": 450,
    "FlattenedAccentBaseHeight": 664,
    "SubscriptShiftDown": 247,
    "SubscriptTopMax": 344,
    "SubscriptBaselineDropMin": 200,
    "SuperscriptShiftUp": 363,
    "SuperscriptShiftUpCramped": 289,
    "SuperscriptBottomMin": 108,
    "SuperscriptBaselineDropMax": 250,
    "SubSuperscriptGapMin": 160,
    "SuperscriptBottomMaxWithSubscript": 344,
    "SpaceAfterScript": 56,
    "UpperLimitGapMin": 200,
    "UpperLimitBaselineRiseMin": 111,
    "LowerLimitGapMin": 167,
    "LowerLimitBaselineDropMin": 600,
    "StackTopShiftUp": 444,
    "StackTopDisplayStyleShiftUp": 677,
    "StackBottomShiftDown": 345,
    "StackBottomDisplayStyleShiftDown": 686,
    "StackGapMin": 120,
    "StackDisplayStyleGapMin": 280,
    "StretchStackTopShiftUp": 111,
    "StretchStackBottomShiftDown": 600,
    "StretchStackGapAboveMin": 200,
    "StretchStackGapBelowMin": 167,
    "FractionNumeratorShiftUp": 394,
    "FractionNumeratorDisplayStyleShiftUp": 677,
    "FractionDenominatorShiftDown": 345,
    "FractionDenominatorDisplayStyleShiftDown": 686,
    "FractionNumeratorGapMin": 40,
    "FractionNumDisplayStyleGapMin": 120,
    "FractionRuleThickness": 40,
    "FractionDenominatorGapMin": 40,
    "FractionDenomDisplayStyleGapMin": 120,
    "SkewedFractionHorizontalGap": 350,
    "SkewedFractionVerticalGap": 96,
    "OverbarVerticalGap": 120,
    "OverbarRuleThickness": 40,
    "OverbarExtraAscender": 40,
    "UnderbarVerticalGap": 120,
    "UnderbarRuleThickness": 40,
    "UnderbarExtraDescender": 40,
    "RadicalVerticalGap": 50,
    "RadicalDisplayStyleVerticalGap": 148,
    "RadicalRuleThickness": 40,
    "RadicalExtraAscender": 40,
    "RadicalKernBeforeDegree": 278,
    "RadicalKernAfterDegree": -556,
    "RadicalDegreeBottomRaisePercent": 60,
}
PLAIN = (
    "ScriptPercentScaleDown",
    "ScriptScriptPercentScaleDown",
    "DelimitedSubFormulaMinHeight",
    "DisplayOperatorMinHeight",
    "RadicalDegreeBottomRaisePercent",
)  # numbers; the others are lengths, which could be adjusted for a device


@cache
def stylesheet() -> str:
    """Return the rules for formulas, with the font in them: nothing is fetched."""
    data = base64.b64encode(font()).decode()
    known = ", ".join(f'"{name}"' for name in FAMILIES)
    return (
        f'@font-face {{ font-family: "{OURS}"; src: url("data:font/ttf;base64,{data}"); }}\n'
        f"math, math * {{ font-family: {known}, math; }}\n"
        f'{PLACED} {{ font-family: {known}, "{OURS}", math; }}\n'
    )


def font() -> bytes:
    """Return the font as the bytes of a TrueType file, the same at each call."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.ttLib import newTable
    from fontTools.ttLib.tables import otTables
    from fontTools.ttLib.tables._g_l_y_f import Glyph

    builder = FontBuilder(EM, isTTF=True)
    builder.setupGlyphOrder([".notdef", "space"])
    builder.setupCharacterMap({0x20: "space"})  # which makes it the formula's first font
    builder.setupGlyf({".notdef": Glyph(), "space": Glyph()})
    builder.setupHorizontalMetrics({".notdef": (EM // 3, 0), "space": (EM // 3, 0)})
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": OURS, "styleName": "Regular"})
    builder.setupOS2(sTypoAscender=800, sTypoDescender=-200, usWinAscent=800, usWinDescent=200,
                     sxHeight=431, sCapHeight=683)  # fmt: skip
    builder.setupPost()
    constants = otTables.MathConstants()
    for name, value in CONSTANTS.items():
        setattr(constants, name, value if name in PLAIN else _length(value))
    made = otTables.MATH()
    made.Version = 0x00010000
    made.MathConstants = constants
    made.MathGlyphInfo, made.MathVariants = otTables.MathGlyphInfo(), otTables.MathVariants()
    made.MathVariants.MinConnectorOverlap = 20  # browsers drop a table without its three parts
    made.MathVariants.VertGlyphCount = made.MathVariants.HorizGlyphCount = 0
    made.MathVariants.VertGlyphConstruction = made.MathVariants.HorizGlyphConstruction = []
    table = newTable("MATH")
    table.table = made
    builder.font["MATH"] = table
    builder.font["head"].created = builder.font["head"].modified = 0
    builder.font.recalcTimestamp = False
    written = io.BytesIO()
    builder.save(written)
    return written.getvalue()


def _length(value: int):
    from fontTools.ttLib.tables import otTables

    made = otTables.MathValueRecord()
    made.Value = value
    return made
