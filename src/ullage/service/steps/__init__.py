"""Step-time models: how long one engine iteration takes, and the physical floor below it."""
