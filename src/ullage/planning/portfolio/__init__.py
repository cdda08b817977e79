"""Many pools under shared quotas, budgets, commitments and nodes: who stands where, who gives up what, who moves."""
