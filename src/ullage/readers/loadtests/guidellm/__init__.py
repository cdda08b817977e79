"""GuideLLM: its report, its CSV, and the guidance report of 0.1."""
