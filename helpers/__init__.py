"""The tested code behind the notebooks: one package per topic, in the order of the course."""

__version__ = "0.1.0"
