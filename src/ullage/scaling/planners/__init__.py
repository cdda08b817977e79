"""Autoscalers that plan: they look at the whole pool and say a number of replicas, which somebody else then makes."""
