"""Three brokers with a ZooKeeper: processes, faults, and what holds of all replicas."""
