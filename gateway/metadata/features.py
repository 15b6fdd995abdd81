"""Features of the cluster, which an operator finalizes at a level (KIP-584)."""

from collections.abc import Mapping

from headgate.gateway.metadata.image import Image
from headgate.protocol.errors import ErrorCode, KafkaError

GROUP_VERSION = "group.version"
"""Level 1: consumer groups of KIP-848."""

TRANSACTION_VERSION = "transaction.version"
"""Level 1: records of `__transaction_state` may have more fields. Level 2: an epoch for each transaction. KIP-890."""

HIGHEST: Mapping[str, int] = {GROUP_VERSION: 1, TRANSACTION_VERSION: 2}
"""The highest level of each feature; level 0 means off."""


def levels(image: Image) -> dict[str, int]:
    """The level of every feature. The default is the highest: a single node has no older broker to wait for."""
    return {name: image.features.get(name, highest) for name, highest in HIGHEST.items()}


def level(name: str, image: Image) -> int:
    return image.features.get(name, HIGHEST[name])


def check_is_on(name: str, image: Image) -> None:
    """Raises KafkaError(UNSUPPORTED_VERSION) if the feature is at level 0."""
    if not level(name, image):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{name} is finalized at level 0; kafka-features can raise it")
