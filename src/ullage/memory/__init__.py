"""The device-memory budget: what is reserved for what, and how much fits."""
