"""Rates over time: requests counted in windows, as monitoring systems and usage reports give them."""
