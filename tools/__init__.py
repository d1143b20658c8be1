"""Commands for people who work on the course: make its notebooks, pages and pictures."""
