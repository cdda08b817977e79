"""Step models, calibration, service curves, the knee and the operating point."""
