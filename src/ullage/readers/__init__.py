"""Outside formats in: traces, load tests, engine logs and metrics, model configs, price lists, Prometheus."""
