"""Lag as a broker shows it over HTTP, beside `headgate groups lag` and Kafka's own tool."""
