"""Fetches: sessions, plans, waits and disk reads. The handler makes the rows (`gateway.api.handlers.fetch`)."""
