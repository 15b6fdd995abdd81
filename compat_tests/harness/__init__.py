"""Brokers, servers and clients under test, and what every room reads and waits with."""
