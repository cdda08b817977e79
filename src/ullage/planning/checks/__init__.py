"""Checks: the known mistakes of capacity plans, and whether a plan has them."""
