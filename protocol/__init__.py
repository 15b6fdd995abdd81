"""The Kafka wire protocol, sans-IO: bytes to values and back.

The package uses no clock, no network and no other package of Headgate; files are read by the seams of `security` alone.
"""
