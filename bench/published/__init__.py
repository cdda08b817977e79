"""Published measurements as trials: what the efficiency fit and the accuracy tables are computed from."""
