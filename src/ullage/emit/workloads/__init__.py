"""Targets that run engines: their workloads, and their own settings."""
