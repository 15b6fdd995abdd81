"""A real Prometheus reads a broker: its metrics, and the rules of `headgate alerts`."""
