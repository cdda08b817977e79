"""Checks: the known mistakes of capacity plans, looked for in one plan."""
