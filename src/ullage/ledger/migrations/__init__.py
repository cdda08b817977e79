"""The ledger's tables, one revision after the other."""
