"""Deletes the delegation tokens that have ended. In a cluster with ZooKeeper the controller does so, as in Kafka."""

from __future__ import annotations

import logging
from itertools import islice
from typing import TYPE_CHECKING, Final

from headgate.gateway.runtime.clock import Clock
from headgate.gateway.security.tokens.rules import expired
from headgate.protocol.errors import KafkaError
from headgate.protocol.internal.metadata import RemoveDelegationTokenRecord

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig
    from headgate.gateway.metadata.store import MetadataStore
    from headgate.gateway.runtime.scheduler import Scheduler

logger = logging.getLogger("headgate.tokens")

MAX_DELETED: Final = 100
"""The most tokens in one change: ZooKeeper takes about a megabyte at once."""
PAUSE_MS: Final = 1_000.0
"""The wait before the next change, if there are more."""


class TokenExpiry:
    """The check of all tokens, every `delegation.token.expiry.check.interval.ms`."""

    def __init__(self, metadata: MetadataStore, config: BrokerConfig, clock: Clock, scheduler: Scheduler) -> None:
        self._metadata = metadata
        self._config = config
        self._clock = clock
        self._scheduler = scheduler

    def start(self) -> None:
        """Begin the checks. The scheduler runs."""
        self._scheduler.call_after(self._config.delegation_token_expiry_check_interval_ms, self._check)

    def _check(self) -> None:
        image, has_more = self._metadata.planned, False
        if image.controller_id == self._config.node_id:
            ended = [*islice(expired(image.tokens, self._clock.now_ms()), MAX_DELETED)]
            has_more = len(ended) == MAX_DELETED
            try:
                self._metadata.submit([RemoveDelegationTokenRecord(token_id=token_id) for token_id in ended])
            except KafkaError as error:
                has_more = False
                logger.warning("%d expired delegation tokens stay until the next check: %s", len(ended), error.message)
        interval_ms = self._config.delegation_token_expiry_check_interval_ms
        self._scheduler.call_after(min(PAUSE_MS, interval_ms) if has_more else interval_ms, self._check)
