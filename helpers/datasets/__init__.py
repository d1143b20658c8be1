"""Loaders of small real data: offline, checksummed, each with its source and licence."""
