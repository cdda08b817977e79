"""Plans, forecasts, observations, bills and reconciliations, kept over time: appended, never changed."""
