"""A result as terminal text, JSON or HTML."""
