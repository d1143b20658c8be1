"""Passes: each takes a graph's outputs and returns variables with the same values, cheaper to have.

>>> from helpers import autodiff
>>> from helpers.autodiff import passes
>>> x = autodiff.variable("x", shape=("n",))
>>> (y,) = passes.collect_terms([x + 1 - 2 + x])
>>> [str(node.operator) for node in autodiff.topological([y])]
['full(2.0)', 'multiply', 'full(-1.0)', 'add']

One file each. The same for all: built on :mod:`helpers.autodiff.rewriting`; the old graph stays as
it is, the new one shares what did not change, and results have the types of what they replace. They
keep values, not the rules for differentiating them: differentiate first.
"""

from helpers.autodiff.passes.chains import order_products
from helpers.autodiff.passes.constants import fold_constants
from helpers.autodiff.passes.fusion import fuse
from helpers.autodiff.passes.identities import simplify
from helpers.autodiff.passes.loops import inside_loops
from helpers.autodiff.passes.subexpressions import share_subexpressions
from helpers.autodiff.passes.terms import collect_terms
from helpers.autodiff.passes.updates import order_updates

__all__ = [
    "collect_terms",
    "fold_constants",
    "fuse",
    "inside_loops",
    "order_products",
    "order_updates",
    "share_subexpressions",
    "simplify",
]
