"""One fetch: its rows, whether they are enough for a response, and their conversion for clients of old versions."""
