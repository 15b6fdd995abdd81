"""One file of a log with its indexes: written to, sealed, gone through, asked where an offset is."""
