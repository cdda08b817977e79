"""REST routes over the verbs. No arithmetic, no loading."""
