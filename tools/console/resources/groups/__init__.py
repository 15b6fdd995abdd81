"""Groups of every kind, their members, offsets and lag."""
