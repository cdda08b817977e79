"""Where to stop admitting: queue bounds, deadlines, priorities, burst budget, time to ready."""
