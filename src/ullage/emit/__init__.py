"""A plan as manifests, engine flags, alert rules and FOCUS rows."""
