"""Requests of coordinators to other brokers: one in flight for each broker, all later work in the next one.

    work ──> address in the image? ──no──> it ends with NETWORK_EXCEPTION
                  │ yes
                  v
    queue of the broker ──> one request, made of all that waits ──> answer, or LinkLost ──> each piece of work ends

No work is repeated here: its owner looks up the leader again, which may be another broker by then. A broker that has
left the image, or has moved to another address, ends its link: work must not wait for a host that is gone.

Source: `TransactionMarkerChannelManager` and `AddPartitionsToTxnManager` of Apache Kafka 4.1.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.store import MetadataStore
from headgate.gateway.runtime.broker_links import BrokerLink, BrokerLinks, LinkLost
from headgate.gateway.runtime.tasks import SingleTask, Task, Tasks, next_turn
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.schema import Message

logger = logging.getLogger("headgate.coordinator")

W = TypeVar("W")


class OtherBrokers(NamedTuple):
    """The way from this broker to others. `listener` is the one for brokers, `timeout_ms` the longest wait."""

    node_id: int
    listener: str
    metadata: MetadataStore
    tasks: Tasks
    links: BrokerLinks
    timeout_ms: float


class Gathering(Protocol[W]):
    """Makes one request of several pieces of work, and ends them."""

    version: ClassVar[int | None]
    """Of the requests; None for the latest that both brokers have."""

    def take(self, queue: deque[W]) -> tuple[Message, Sequence[W]] | None:
        """Take work from the queue; the rest is for the next request. None, and an empty queue, if nothing is left."""

    def end(self, taken: Sequence[W], answer: Message | KafkaError) -> None:
        """End the work with the answer, or with NETWORK_EXCEPTION if no answer will come."""


class BrokerRequests(Generic[W]):
    """The requests of one kind to all other brokers."""

    def __init__(self, name: str, gathering: Gathering[W], brokers: OtherBrokers) -> None:
        self._name = name
        self._gathering = gathering
        self._brokers = brokers
        self._recipients: dict[int, _Recipient[W]] = {}

    def add(self, broker_id: int, work: W) -> None:
        """Send work to a broker, in one request with other work of this turn. The work may end in this call."""
        recipient = self._recipients.get(broker_id) or self._new_recipient(broker_id)
        if recipient is None:
            message = f"broker {broker_id} is not alive, or has no listener {self._brokers.listener}"
            if broker_id < 0:
                message = "the partition has no leader"
            self._gathering.end([work], KafkaError(ErrorCode.NETWORK_EXCEPTION, message))
            return
        recipient.queue.append(work)
        recipient.sending.start(partial(self._send_all, recipient))

    def _new_recipient(self, broker_id: int) -> _Recipient[W] | None:
        address = _address(self._brokers.metadata.image, broker_id, self._brokers.listener)
        if address is None:
            return None
        client_id = f"broker-{self._brokers.node_id}-{self._name}"
        link = self._brokers.links.open(broker_id, *address, client_id, timeout_ms=self._brokers.timeout_ms)
        recipient = self._recipients[broker_id] = _Recipient(address, link)
        return recipient

    def _send_all(self, recipient: _Recipient[W]) -> Task[None]:
        yield next_turn(self._brokers.tasks.scheduler)
        while (request := self._gathering.take(recipient.queue)) is not None:
            message, taken = request
            try:
                answer = yield recipient.link.ask(message, self._gathering.version)
            except LinkLost as lost:
                answer = KafkaError(ErrorCode.NETWORK_EXCEPTION, str(lost))
            except KafkaError as error:
                answer = error
            try:
                self._gathering.end(taken, answer)
            except Exception:  # a strange answer must not leave a transaction open for ever
                logger.exception("the answer of %s cannot be used", recipient.link)
                self._gathering.end(taken, KafkaError(ErrorCode.NETWORK_EXCEPTION, "the answer cannot be used"))

    def follow(self, _old: Image, new: Image, _names: Collection[str]) -> None:
        """A listener of the metadata: end the links to brokers that are gone, or elsewhere."""
        for broker_id, recipient in list(self._recipients.items()):
            if _address(new, broker_id, self._brokers.listener) != recipient.address:
                del self._recipients[broker_id]
                recipient.link.close()


class _Recipient(Generic[W]):
    """One broker at one address, its link, and the work for its next request."""

    __slots__ = ("address", "link", "queue", "sending")

    def __init__(self, address: tuple[str, int], link: BrokerLink) -> None:
        self.address = address
        self.link = link
        self.queue: deque[W] = deque()
        self.sending = SingleTask()


def _address(image: Image, broker_id: int, listener: str) -> tuple[str, int] | None:
    node = image.brokers.get(broker_id)
    return None if node is None else node.endpoints.get(listener)
