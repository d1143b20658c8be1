"""Pictures: a style, and a module for each family; a plot takes data and returns what it drew."""
