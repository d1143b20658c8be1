"""Ranks that a Slurm starts on a cluster's nodes: one job, which outlives restarts of the ranks."""
