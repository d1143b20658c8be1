"""Programs of readers, ranked against the course's and each other in one run on one machine."""
