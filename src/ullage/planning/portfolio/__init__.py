"""Many pools under shared quotas, budgets, commitments and nodes: placement, what is dropped, what moves."""
