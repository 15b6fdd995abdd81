"""The errors after which clients send a request again that had to wait for ZooKeeper and the log."""

from __future__ import annotations

from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.requests import Failed, T
from headgate.gateway.zookeeper.session import KeeperError
from headgate.protocol.errors import ErrorCode, KafkaError


def ask_again(message: str) -> KafkaError:
    """The error after which clients of every age send the request again, without a look for the coordinator."""
    return KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message)


def leaving() -> KafkaError:
    """The error of a request that waited while the group left one of the stores."""
    return ask_again("the offsets of the group go to another store now")


def late() -> KafkaError:
    """The error of a request that waited for too long."""
    return ask_again("ZooKeeper has not answered in time")


def zookeeper_error(error: KeeperError) -> KafkaError:
    """The client's error for one of ZooKeeper."""
    return ask_again(f"ZooKeeper: {error.name}")


def for_client(task: Task[T]) -> Task[T]:
    """The result of requests to ZooKeeper. Raises KafkaError where these fail."""
    try:
        return (yield from task)
    except Failed as error:
        raise zookeeper_error(error.error) from error
