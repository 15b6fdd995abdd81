"""The rows of the benchmark: one module for each kind, and the table of all of them."""
