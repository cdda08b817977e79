"""Scaling signals and thresholds, tried in a closed loop in simulated time."""
