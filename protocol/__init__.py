"""The Kafka wire protocol, sans-IO: bytes to values and back.

The package uses no clock, no files, no network and no other package of Headgate.
"""
