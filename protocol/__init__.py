"""The Kafka wire protocol, sans-IO: bytes to values and back. Knows no clock, no files, no network and nothing of ours."""
