"""Answers that are too large for their verbs' own modules; imported when they are returned."""
