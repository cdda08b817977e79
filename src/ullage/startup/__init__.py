"""Time to ready: how long a new replica takes, phase by phase, cold, warm and hot."""
