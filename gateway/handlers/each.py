"""What handlers share: the loop over topics and partitions, in which an error is a value and stops nothing else."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from protocol.errors import ErrorCode, KafkaError

P = TypeVar("P")
R = TypeVar("R")
logger = logging.getLogger("headgate.handlers")


def each(partitions: Iterable[P], answer: Callable[[P], R], refuse: Callable[[P, ErrorCode, str], R]) -> list[R]:
    """One row for every partition: `answer(partition)`, or `refuse(partition, code, message)` where that raised."""
    return [guarded(partition, answer, refuse) for partition in partitions]


def guarded(partition: P, answer: Callable[[P], R], refuse: Callable[[P, ErrorCode, str], R]) -> R:
    """The row of one partition. An OSError is the disk's: the client hears KAFKA_STORAGE_ERROR, the log the rest."""
    try:
        return answer(partition)
    except KafkaError as error:
        return refuse(partition, error.code, error.message)
    except OSError as error:
        logger.exception("the store failed")
        return refuse(partition, ErrorCode.KAFKA_STORAGE_ERROR, f"the store failed: {error.strerror}")
