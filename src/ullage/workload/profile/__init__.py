"""The profile of a trace: arrivals, lengths, sessions, prefix reuse, and anomalies."""
