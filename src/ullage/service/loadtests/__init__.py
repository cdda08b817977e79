"""What a load test reported, in one shape whatever tool wrote it."""
