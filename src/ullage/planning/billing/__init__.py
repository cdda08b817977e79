"""Money of a planned service: its bill, who caused it, and peaks sent to a provider."""
