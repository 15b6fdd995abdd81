"""Requests as frames, written from Kafka's definitions and not by `protocol`; and a client that sends a handful."""
