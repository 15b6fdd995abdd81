"""Resources about the cluster and its brokers."""
