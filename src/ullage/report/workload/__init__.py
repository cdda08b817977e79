"""Profiles and forecasts as pages and as JSON."""
