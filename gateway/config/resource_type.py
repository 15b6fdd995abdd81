"""Types of resources with settings, by their numbers in DescribeConfigs and related requests.

Source: org.apache.kafka.common.config.ConfigResource.Type.
"""

from enum import IntEnum


class ResourceType(IntEnum):
    """An int8 on the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32
