"""The broker: network, APIs, coordination, replication and upkeep over the logs of `storage`."""
