"""What changed between two plans, figure by figure and cause by cause."""
