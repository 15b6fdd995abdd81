"""A log directory, all of them as one, and how a partition comes into one and leaves it."""
