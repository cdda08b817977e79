"""Logs of proxies, providers and tracing systems: one file a format, each listed in `traces/table.py`."""
