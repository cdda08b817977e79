"""Who caused the bill: usage by owner, and the rules that divide a line."""
