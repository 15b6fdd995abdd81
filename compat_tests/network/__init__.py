"""Connections: many, pipelined, half closed, of both address families, without free descriptors."""
