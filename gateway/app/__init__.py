"""The broker as people start it: the command, the wiring of all parts, a broker inside a program or a test."""
