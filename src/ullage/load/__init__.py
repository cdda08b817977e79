"""From a plan file, its names and paths to a specification: the only place that joins files, readers and facts."""
