"""How much work a plan is, and the most that one command may be."""
