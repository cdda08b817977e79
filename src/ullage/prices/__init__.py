"""The price book as values."""
