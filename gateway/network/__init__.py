"""Connections: listeners and limits, bytes to requests and replies to bytes, and the two drivers of sockets."""
