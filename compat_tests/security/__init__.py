"""Security with stock clients, on real processes."""
