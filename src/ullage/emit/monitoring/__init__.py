"""Targets that watch whether the plan comes true: rules, dashboards, service levels."""
