"""Connections: listeners and their limits, bytes to requests, replies to bytes, and the two socket drivers."""
