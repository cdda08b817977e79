"""Targets that admit requests: rates, tokens, queues and priorities in front of the pools."""
