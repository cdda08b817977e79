"""Load tools that are installed, run one test at a time against one address: found, started, bounded, and read."""
