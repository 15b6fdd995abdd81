"""TLS: key stores, trust stores, contexts of listeners and clients, and the names of clients with certificates."""
