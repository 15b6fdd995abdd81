"""The broker: network, APIs, coordination, replication and maintenance over the logs of `storage`."""
