"""Security of connections for both sides: stores and contexts of TLS, JAAS lines, SCRAM; and logins of clients."""
