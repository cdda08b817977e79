"""A plan as a page, as Markdown and as JSON."""
