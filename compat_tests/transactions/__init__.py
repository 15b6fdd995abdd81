"""Idempotent producers and transactions of stock clients, across kills."""
