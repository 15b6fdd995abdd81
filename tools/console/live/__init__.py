"""Live figures of brokers: readings of their metrics, rates between two readings, and a bounded history."""
