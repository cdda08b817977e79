"""Targets that set aside machines and quotas for the pools."""
