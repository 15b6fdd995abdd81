"""Hostile clients, and batches that lie: others are served, memory stays bounded."""
