"""What admits a connection: limits on connections, the share of unauthenticated ones, PROXY headers."""
