"""The course as a site (``make site``): Sphinx and MyST-NB over the executed notebooks.

``sources`` lays out what Sphinx reads, ``generated`` writes the pages that come from records and
from the libraries' docstrings, ``rendering`` is our part of Sphinx (formulas as MathML, terms that
explain themselves), ``faults`` says what a finished page lacks. ``docs/`` holds the settings,
the style and the pages on use.
"""
