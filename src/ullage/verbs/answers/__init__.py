"""Answers of verbs that are too heavy to stand beside them: imported when they are handed back."""
