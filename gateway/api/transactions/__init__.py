"""Transactions in the requests of producers and consumers: their verification, and the level of old readers."""
