"""Rows of groups and of transactions, and their states after a restart."""
