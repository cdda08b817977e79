"""Bills as pages and as JSON."""
