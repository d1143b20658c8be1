"""Waiting without keeping a core busy, under the name that notebooks import."""

from helpers.waiting import doze

__all__ = ["doze"]
