"""Security: what clients may do, and by which rules. Pure decisions; the state lies in the metadata."""
