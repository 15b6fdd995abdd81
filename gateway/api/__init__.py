"""Requests: dispatch, handlers, and what they share, up to the response; they hold no state of the cluster."""
