"""Topics as a consumer sees them, from the files of a broker or by Fetch: bounds, times, and batches in pieces."""
