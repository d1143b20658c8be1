"""Side-by-side measurements against peers: `make bench`, or `python -m bench SUITE ...`."""
