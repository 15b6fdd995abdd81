"""A controlled shutdown: before a broker stops, the controller moves its leads to other brokers.

The broker asks up to `controlled.shutdown.max.retries` times, and serves meanwhile. A broker that is alone does not
ask, nor does a controller without a connection to ZooKeeper. Afterwards the broker waits a moment until it follows the
new leaders: its clients then get NOT_LEADER_OR_FOLLOWER, and find the new leaders at other brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from headgate.gateway.runtime.broker_links import BrokerLinks, LinkLost
from headgate.gateway.runtime.tasks import Ask, Changes, Task, at_most, sleep
from headgate.gateway.zookeeper.session import Session
from headgate.gateway.zookeeper.store.metadata_store import ZooKeeperMetadataStore
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.runtime.tasks import Tasks

logger = logging.getLogger("headgate.zookeeper")

FOLLOWED_WITHIN_MS: Final = 2_000.0
"""The longest wait for the orders about the new leaders: clients without them lose time, and no records."""


class LedReplica(Protocol):
    """A partition that this broker leads."""

    replicas: tuple[int, ...]


class StoppingReplicas(Protocol):
    """The replicas of this broker, see `gateway.replication.replica_manager`."""

    @property
    def led(self) -> Iterable[LedReplica]:
        """The partitions that this broker leads."""

    def leave(self) -> None:
        """Join no further in-sync set."""


class ControlledShutdown:
    """Gives the leads of this broker to others."""

    def __init__(
        self,
        store: ZooKeeperMetadataStore,
        session: Session,
        replicas: StoppingReplicas,
        config: BrokerConfig,
        tasks: Tasks,
        links: BrokerLinks,
        own_epoch: Callable[[], int],
    ) -> None:
        """`own_epoch`: the epoch of this broker's registration, -1 before the first one."""
        self._store = store
        self._session = session
        self._replicas = replicas
        self._config = config
        self._tasks = tasks
        self._links = links
        self._own_epoch = own_epoch

    def run(self) -> Task[None]:
        """Ask the controller until it has moved all leads, or until the attempts are used up."""
        config, began_ms = self._config, self._tasks.monotonic_ms()
        self._replicas.leave()
        for attempts_left in reversed(range(config.controlled_shutdown_max_retries)):
            if not self._is_useful():
                return
            problem = yield from self._attempt()
            if not problem:
                yield from self._follow_leaders()
                logger.info("the leads of this broker moved within %.0f ms", self._tasks.monotonic_ms() - began_ms)
                return
            wait_ms = config.controlled_shutdown_retry_backoff_ms if attempts_left else 0
            then = f"the next attempt follows after {wait_ms} ms" if attempts_left else "this broker stops all the same"
            logger.warning("controlled shutdown: %s; %s", problem, then)
            if wait_ms:
                yield sleep(self._tasks.scheduler, wait_ms)

    def _is_useful(self) -> bool:
        """Whether another broker may lead in place of this one."""
        others = self._store.image.brokers.keys() - {self._config.node_id}
        return bool(others) and (self._session.is_connected or not self._store.is_controller)

    def _attempt(self) -> Task[str]:
        """Ask the controller once. Returns the reason of a failure, or nothing."""
        try:
            response = yield from self._ask_controller()
        except (LinkLost, KafkaError) as error:
            return str(error)
        if response.error_code:
            return f"the controller answers {ErrorCode(response.error_code).name}"
        remaining = response.remaining_partitions
        return f"no other broker can lead {_names(remaining)}" if remaining else ""

    def _ask_controller(self) -> Task[ControlledShutdownResponse]:
        """Raises LinkLost, KafkaError."""
        node_id, image = self._config.node_id, self._store.image
        if self._store.is_controller:
            return (yield from self._answer(self._store.shut_down(node_id, -1)))
        controller = image.brokers.get(image.controller_id)
        endpoint = None if controller is None else controller.endpoints.get(self._config.inter_broker_listener)
        if endpoint is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no controller is known")
        client_id, timeout_ms = f"broker-{node_id}-shutdown", self._config.controller_socket_timeout_ms
        link = self._links.open(image.controller_id, *endpoint, client_id, timeout_ms=timeout_ms)
        try:
            request = ControlledShutdownRequest(broker_id=node_id, broker_epoch=self._own_epoch())
            return (yield from self._answer(link.ask(request)))
        finally:
            link.close()

    def _answer(self, ask: Ask) -> Task[ControlledShutdownResponse]:
        response: ControlledShutdownResponse | None = yield at_most(
            self._tasks.scheduler, self._config.controller_socket_timeout_ms, ask
        )
        if response is None:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller does not answer")
        return response

    def _follow_leaders(self) -> Task[None]:
        """Wait until this broker follows the new leaders; a controller also waits until its orders are obeyed."""
        changes = Changes([self._store.waiters], self._tasks.monotonic_ms() + FOLLOWED_WITHIN_MS)
        while self._leads_for_others() or not self._store.has_sent_orders:
            if (yield changes) is None:
                return

    def _leads_for_others(self) -> bool:
        return any(len(replica.replicas) > 1 for replica in self._replicas.led)


def _names(partitions: Iterable[RemainingPartition]) -> str:
    return ", ".join(f"{partition.topic_name}-{partition.partition_index}" for partition in partitions)
