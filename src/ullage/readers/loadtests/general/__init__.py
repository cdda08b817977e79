"""Results of tools that know requests and no tokens: Locust, k6, and request logs of one's own."""
