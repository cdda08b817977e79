"""Forecast and plan against production: error by cause, and what to update."""
