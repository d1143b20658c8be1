"""PageRank: one function, and the versions of it that notebook 06 compares."""

from helpers.pagerank.solve import ConvergenceError, PageRankResult, pagerank

__all__ = ["ConvergenceError", "PageRankResult", "pagerank"]
