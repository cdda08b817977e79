"""Our own files: plan.yaml and its schema."""
