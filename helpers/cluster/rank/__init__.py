"""What runs on a rank, and the files by which it tells the notebook what it does."""
