"""Rows of three brokers: replicated records, and what clients wait for when a broker is lost."""
