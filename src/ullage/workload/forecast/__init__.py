"""Demand over time: forecasters, their backtest, and bands from past errors."""
