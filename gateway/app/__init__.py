"""Ways to start a broker: the command, the wiring of all parts, a broker inside a program or a test."""
