"""Files that lie beside a load test: configurations that say more of it, and others that are no result."""
