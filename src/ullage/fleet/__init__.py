"""Replicas, reserves by name, nodes, zones, regions, quotas."""
