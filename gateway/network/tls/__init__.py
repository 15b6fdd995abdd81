"""TLS connections: a driver for the readiness engine, its handshakes, and TLS over streams."""
