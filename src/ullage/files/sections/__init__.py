"""The sections of a plan file: their keys, units and defaults."""
