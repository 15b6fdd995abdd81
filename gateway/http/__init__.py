"""HTTP of a broker: metrics, health and JSON for tools, beside Kafka's protocol and never in its way."""
