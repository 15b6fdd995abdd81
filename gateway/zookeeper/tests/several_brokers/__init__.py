"""Whole brokers beside each other over one model of ZooKeeper: work that moves from broker to broker."""
