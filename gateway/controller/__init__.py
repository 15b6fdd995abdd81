"""The controller of a cluster: a pure machine, and the requests by which brokers follow its decisions."""
