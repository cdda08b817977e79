"""The service curve of the production mix: knee, operating point, pool size."""
