"""The output of loads: its files, plans and manifests, the log of loads, and the names of tables."""
