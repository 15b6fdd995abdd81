"""Messages of APIs that Headgate neither serves nor sends, declared as in `protocol.messages` and compared with Kafka.

When an API is served, its module moves to `protocol.messages`.
"""
