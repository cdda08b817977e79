"""Targets that change the number of replicas, or guard it."""
