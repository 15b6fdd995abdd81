"""The client of a cluster for tools and Spark: blocking sockets under `protocol.client`.

client.py    one connection, one request at a time
cluster.py   each request to the broker that can answer; failures that pass are asked again until a deadline
"""
