"""TLS of listeners and clients: settings, key stores, trust stores and contexts."""
