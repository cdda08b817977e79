"""Curves, calibrations, load tests and simulations as pages and as JSON."""
