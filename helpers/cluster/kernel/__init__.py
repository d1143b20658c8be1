"""What the notebook's side does: cells, calls, and what the reader sees of the ranks."""
