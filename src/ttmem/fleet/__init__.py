"""Many hosts, from the metrics that a Prometheus collected."""
