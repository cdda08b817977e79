"""Request classes and their SLOs, arrivals, lengths, sessions, reuse, demand."""
