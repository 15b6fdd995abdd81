"""The console of a broker: its port, and the process behind it. The page itself is `tools/console/`."""
