"""Request frames, written from Kafka's definitions without `protocol`, and a small client."""
