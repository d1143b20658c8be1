"""Watching MPI calls: a communicator that records them, and what is read out of the records."""
