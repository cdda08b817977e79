"""Step models fitted to load tests by simulating each test as it was run."""
