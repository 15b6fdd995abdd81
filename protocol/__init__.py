"""The Kafka wire protocol, sans-IO: bytes to values and back. No clock, no files, no network, nothing of ours."""
