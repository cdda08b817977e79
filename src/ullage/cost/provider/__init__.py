"""A provider beside one's own devices: its offer, its rate limits, and classes that could go to it."""
