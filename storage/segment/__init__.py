"""One file of a log with its indexes: appends, seals, iteration, lookups."""
