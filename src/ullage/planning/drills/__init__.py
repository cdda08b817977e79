"""Drills: what goes wrong in practice, simulated on a plan before it happens."""
