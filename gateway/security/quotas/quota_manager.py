"""The quotas of a broker, and how much of them each client has used.

A peer chooses its client id, so the buckets are bounded. A bucket whose usage no longer counts is forgotten: a new one
is equal. Beyond `MAX_BUCKETS`, further clients share one bucket for each quota that applies to them.

Source: `ClientQuotaManager`, `ControllerMutationQuotaManager` of kafka.server, Apache Kafka 4.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from headgate.gateway.security.quotas.rates import USUAL_WINDOWS, SampledRate, TokenBucket, Windows
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.security.quotas import (
    CLIENT_KEYS,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    AppliedQuota,
    QuotaBucket,
    QuotaEntity,
    Quotas,
    find_connection_rate,
    find_quota,
)

MAX_BUCKETS = 20_000
"""About a kilobyte each."""
MIN_SWEEP_MS = 1_000
"""The time between two searches for idle buckets."""

_Key = tuple[str, QuotaBucket | QuotaEntity]


class ClientLimits:
    """The quotas of one client, each with what the client, and others of its bucket, have used; None: no limit.

    Valid as long as the client has this principal and client id, and `epoch` is the manager's.
    """

    __slots__ = ("client_id", "epoch", "fetch", "mutations", "principal", "produce", "request")

    def __init__(self, principal: str, client_id: str | None, epoch: object) -> None:
        self.principal = principal
        self.client_id = client_id
        self.epoch = epoch
        self.produce: SampledRate | None = None
        """Bytes of Produce requests."""
        self.fetch: SampledRate | None = None
        """Bytes of Fetch responses."""
        self.request: SampledRate | None = None
        """Percent of the time of the event loop."""
        self.mutations: TokenBucket | None = None
        """Partitions created or deleted."""


class MutationQuota:
    """The mutation quota of one request. A strict one refuses mutations while there is a debt."""

    def __init__(self, bucket: TokenBucket, monotonic_ms: Callable[[], float], *, is_strict: bool) -> None:
        self._bucket = bucket
        self._monotonic_ms = monotonic_ms
        self._is_strict = is_strict
        self._throttle_ms = 0
        self._noted_ms = 0.0

    def charge(self, partitions: int) -> None:
        """Account for the partitions of one topic. Raises KafkaError(THROTTLING_QUOTA_EXCEEDED)."""
        now_ms = self._monotonic_ms()
        if not self._is_strict:
            self._bucket.take(partitions, now_ms)
        throttle_ms = self._bucket.throttle_ms(now_ms)
        if throttle_ms > 0:
            self._throttle_ms, self._noted_ms = throttle_ms, now_ms
            if self._is_strict:
                code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
                raise KafkaError(code, code.message)
        elif self._is_strict:
            self._bucket.take(partitions, now_ms)

    def throttle_ms(self) -> int:
        """The rest of the last throttle time, in ms."""
        return max(0, int(self._throttle_ms - (self._monotonic_ms() - self._noted_ms)))


class QuotaManager:
    """Finds the quotas of clients, and keeps their usage."""

    def __init__(
        self,
        windows: Windows = USUAL_WINDOWS,
        mutation_windows: Windows = USUAL_WINDOWS,
        max_buckets: int = MAX_BUCKETS,
    ) -> None:
        """`windows`: those of rates; `mutation_windows`: those of CONTROLLER_MUTATION_RATE."""
        self.quotas: Quotas = {}
        self.epoch = object()
        """Changes when clients have to find their limits again."""
        self.throttled = Counter[str]()
        """The number of throttled requests and refused connections, by quota."""
        self.throttled_ms = Counter[str]()
        """The sum of their throttle times, by quota."""
        self.windows = windows
        self._mutation_windows = mutation_windows
        self._max_buckets = max_buckets
        self._rates: dict[_Key, SampledRate] = {}
        self._mutations: dict[_Key, TokenBucket] = {}
        self._keys = frozenset[str]()
        self._swept_ms = float("-inf")

    def change(self, quotas: Quotas) -> None:
        """Apply these quotas from now on. The usage before the change still counts."""
        self.quotas = quotas
        self.epoch = object()
        self._keys = frozenset(key for values in quotas.values() for key in values if key in CLIENT_KEYS)

    def counts(self, key: str) -> bool:
        """Whether any client has this quota."""
        return key in self._keys

    @property
    def bucket_count(self) -> int:
        """The number of clients, users, pairs and addresses whose usage is known."""
        return len(self._rates) + len(self._mutations)

    def limits(self, principal: str, client_id: str | None, now_ms: float) -> ClientLimits:
        """The limits of a client. `principal`: type and name, separated by a colon."""
        user, named = principal.partition(":")[2], client_id or ""
        self._forget_idle(now_ms)
        limits = ClientLimits(principal, client_id, self.epoch)
        find = partial(find_quota, self.quotas, user=user, client_id=named)
        limits.produce = self._rate(PRODUCER_BYTE_RATE, find(PRODUCER_BYTE_RATE))
        limits.fetch = self._rate(CONSUMER_BYTE_RATE, find(CONSUMER_BYTE_RATE))
        limits.request = self._rate(REQUEST_PERCENTAGE, find(REQUEST_PERCENTAGE))
        limits.mutations = self._bucket(find(CONTROLLER_MUTATION_RATE), now_ms)
        return limits

    def refuse_connection(self, address: str, now_ms: float) -> tuple[int, str | None]:
        """After how many ms to close a new connection of an address, and the reason; (0, None): it is within its rate.

        The pause is of one window at most, as in Kafka. A refused connection does not count.
        """
        applied = find_connection_rate(self.quotas, address)
        rate = self._rate(CONNECTION_CREATION_RATE, applied)
        if applied is None or rate is None:
            return 0, None
        self._forget_idle(now_ms)
        throttle_ms = min(rate.record(1, now_ms), self.windows.size_ms)
        if not throttle_ms:
            return 0, None
        rate.take_back(1, now_ms)
        self.note_throttled(CONNECTION_CREATION_RATE, throttle_ms)
        bound = f"more than {applied.bound:g} connections a second"
        return throttle_ms, f"{bound}, {CONNECTION_CREATION_RATE} of {applied.entity.title}"

    def note_throttled(self, key: str, throttle_ms: int) -> None:
        """Count a throttled request."""
        self.throttled[key] += 1
        self.throttled_ms[key] += throttle_ms

    def count_throttled(self) -> Iterator[tuple[tuple[str, ...], int]]:
        """The number of throttled requests, for the metrics."""
        return iter([((key,), count) for key, count in self.throttled.items()])

    def count_throttle_seconds(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """The sum of throttle times, for the metrics."""
        return iter([((key,), sum_ms / 1_000) for key, sum_ms in self.throttled_ms.items()])

    def _rate(self, key: str, applied: AppliedQuota | None) -> SampledRate | None:
        if applied is None:
            return None
        place: _Key = key, applied.bucket
        if place not in self._rates and self.bucket_count >= self._max_buckets:
            place = key, applied.entity
        rate = self._rates.get(place)
        if rate is None:
            rate = self._rates[place] = SampledRate(self.windows, applied.bound)
        rate.bound = applied.bound
        return rate

    def _bucket(self, applied: AppliedQuota | None, now_ms: float) -> TokenBucket | None:
        if applied is None:
            return None
        place: _Key = CONTROLLER_MUTATION_RATE, applied.bucket
        if place not in self._mutations and self.bucket_count >= self._max_buckets:
            place = CONTROLLER_MUTATION_RATE, applied.entity
        bucket = self._mutations.get(place)
        if bucket is None:
            bucket = self._mutations[place] = TokenBucket(self._mutation_windows, applied.bound, now_ms)
        bucket.bound = applied.bound
        return bucket

    def _forget_idle(self, now_ms: float) -> None:
        """Forget the buckets whose usage no longer counts, at most once in a while; all clients find theirs again.

        So no client keeps a bucket that others of its kind do not share.
        """
        if self.bucket_count < _FEW or now_ms - self._swept_ms < MIN_SWEEP_MS:
            return
        self._swept_ms = now_ms
        rates = {place: rate for place, rate in self._rates.items() if not rate.is_idle(now_ms)}
        mutations = {place: bucket for place, bucket in self._mutations.items() if not bucket.is_idle(now_ms)}
        if len(rates) + len(mutations) < self.bucket_count:
            self._rates, self._mutations = rates, mutations
            self.epoch = object()


_FEW = 256
"""So many buckets are kept, idle or not."""
