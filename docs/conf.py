"""Sphinx's settings for the site; ``make site`` fills the folder that they apply to."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "Parallel deep learning, run for real"
author = "the course's authors"
copyright = "the course's authors. Code: BSD 3-Clause. Text: CC BY 4.0."
extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "tools.site.rendering"]
exclude_patterns = ["extra", "static"]
FIGURES = ROOT / "tools/jupyterlab/labextensions/course-figures/static/dark.js"
html_static_path = ["static", str(FIGURES)]
html_css_files = ["course.css", "states.css", "formulas.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("course.js", "states.js", "dark.js")]
html_title = project
html_theme = "furo"
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"source_view_link": "", "navigation_with_keys": True}

nb_execution_mode = "off"  # they come executed
nb_merge_streams = True
nb_render_error_lexer = "text"  # of ranks, a table; of a kernel, C
nb_render_markdown_format = "myst"  # tables and formulas that a cell displays, as in its text
nb_mime_priority_overrides = [("html", "text/html", 0)]
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_dmath_double_inline = True
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type", "misc.highlighting_failure"]
suppress_warnings += ["ref.python"]  # `bytes` is also the name of three attributes

autodoc_typehints = "none"  # the docstrings say them
autodoc_preserve_defaults = True  # as the source has them: a path of ours is nobody's
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
