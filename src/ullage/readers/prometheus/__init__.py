"""Production as Prometheus, Thanos, Mimir or VictoriaMetrics know it, or files of their answers, as an Observation."""
