"""Options, drills, checks and migrations as pages and as JSON."""
