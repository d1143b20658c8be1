"""Networks that the schemes of the course train."""
