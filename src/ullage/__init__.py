"""Ullage plans capacity and cost for language-model serving."""

__version__ = "0.1.0"
