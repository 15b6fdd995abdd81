"""A simulated cluster: whole brokers, clients, ZooKeeper, disks and a network, all by one seed."""
