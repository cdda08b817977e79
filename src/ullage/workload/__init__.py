"""What arrives: request classes and their targets, and the profile of a trace."""
