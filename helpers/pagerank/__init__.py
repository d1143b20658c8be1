"""PageRank: one function for every graph, and the versions of it that notebook 06 compares."""

from helpers.pagerank.solve import METHODS, ConvergenceError, PageRankResult, pagerank

__all__ = ["METHODS", "ConvergenceError", "PageRankResult", "pagerank"]
