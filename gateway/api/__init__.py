"""Requests: dispatch, handlers and their helpers, up to the response; this room holds no cluster state."""
