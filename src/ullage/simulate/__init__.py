"""The engine simulator: exact continuous batching, routing, fleets."""
