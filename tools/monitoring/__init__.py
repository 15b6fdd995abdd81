"""What people put beside a broker to watch it: a dashboard for Grafana and alerts for Prometheus."""
