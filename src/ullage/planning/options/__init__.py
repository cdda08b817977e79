"""Which device, parallelism and settings cost least: candidates, trials, ranking, mixes, order dates."""
