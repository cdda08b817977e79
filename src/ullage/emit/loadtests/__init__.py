"""A plan as inputs of load tools: the tests of one replica that verify it."""
