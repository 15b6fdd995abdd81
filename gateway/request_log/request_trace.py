"""The trace of a request: the times of its stages, from its first byte to the end of its reply.

    begun ── received ── started ── handled ── answered ── written ── sent
       │  bytes   │ earlier  │ handler  │ parked    │ the file  │ socket
       │ arrive   │ requests │          │ for ...   │           │

The stages follow each other. A stage that a request does not have takes no time: a request is parked only if its
handler waits, and its reply waits for a write only if appends of the turn were staged. A connection has one request in
progress at a time; replies that the client has not taken may be several.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from headgate.gateway.request_log.request_waits import NO_WAIT, RequestWait

if TYPE_CHECKING:
    from headgate.gateway.runtime.scheduler import Scheduler, Timer
    from headgate.protocol.schema import Message


T = TypeVar("T")
NOT_YET: Final = -1.0
CORRELATION_ID: Final = Struct(">i")
CORRELATION_ID_AT: Final = 4  # behind the API and its version
DescribeRequest = Callable[["Message", Any], tuple[Sequence[str], RequestWait]]
"""(request, context of its handler) -> the names of its topics, and its wait."""


class TracedClient(Protocol):
    """The client of a traced connection."""

    remote_host: str
    remote_port: int
    listener: str
    principal: str
    software_name: str
    software_version: str
    client_id: str | None

    @property
    def active_ms(self) -> float: ...


class TraceLog(Protocol):
    """Takes requests that have ended (`RequestLog`)."""

    monotonic_ms: Callable[[], float]
    scheduler: Scheduler
    slow_ms: int

    def is_sampled(self) -> bool: ...
    def log(self, request: RequestTrace, /) -> None: ...


class RequestTrace:
    """One request, from the moment that it is complete."""

    __slots__ = (
        "_connection",
        "_timer",
        "answered_ms",
        "api_key",
        "begun_ms",
        "client_id",
        "correlation_id",
        "handled_ms",
        "has_disconnected",
        "is_sampled",
        "memory_ms",
        "received_ms",
        "request_bytes",
        "response_bytes",
        "sent_ms",
        "started_ms",
        "throttle_ms",
        "topics",
        "version",
        "wait",
        "written_ms",
    )

    def __init__(self, connection: ConnectionTrace, api_key: int, version: int, frame: memoryview) -> None:
        """`frame`: the request without its size."""
        self._connection = connection
        self._timer: Timer | None = None
        self.api_key = api_key
        self.version = version
        (self.correlation_id,) = CORRELATION_ID.unpack_from(frame, CORRELATION_ID_AT)
        self.client_id = connection.client.client_id
        self.request_bytes = len(frame) + 4
        self.response_bytes = 0
        self.is_sampled = connection.log.is_sampled()
        self.has_disconnected = False
        self.topics: Sequence[str] = ()
        self.wait: RequestWait = NO_WAIT
        self.memory_ms = 0.0
        self.throttle_ms = 0
        self.begun_ms = self.received_ms = self.started_ms = 0.0
        self.handled_ms = self.answered_ms = self.written_ms = self.sent_ms = NOT_YET

    @property
    def client(self) -> TracedClient:
        return self._connection.client

    @property
    def total_ms(self) -> float:
        """From the first byte of the request to the last one of its reply."""
        return self.sent_ms - self.begun_ms

    @property
    def parked_ms(self) -> float:
        """The wait between the end of the handler and the reply, without the wait for memory."""
        return max(0.0, self.answered_ms - self.handled_ms - self.memory_ms)

    @property
    def asked_ms(self) -> float:
        """The part of the wait that the client has asked for: such a request is not slow."""
        return min(self.parked_ms, self.wait.asked_ms)

    def note_request(self, topics: Sequence[str], wait: RequestWait) -> None:
        """The request is read. `wait`: what its handler may wait for."""
        self.topics, self.wait = topics, wait

    def handled(self, response_bytes: int) -> None:
        """The handler has ended, with a reply, or without one (0 bytes)."""
        self.handled_ms = self.answered_ms = self.written_ms = self._connection.now_ms()
        self.response_bytes = response_bytes

    def parked(self) -> None:
        """The handler has ended, and the request waits. A slow wait is described again."""
        connection, log = self._connection, self._connection.log
        self.handled_ms = connection.now_ms()
        if self.wait.refresh is not None and log.slow_ms >= 0:
            self._timer = log.scheduler.call_after(float(log.slow_ms), self._refresh_wait)

    def _refresh_wait(self) -> None:
        if self.wait.refresh is not None:
            self.wait = self.wait._replace(text=self.wait.refresh())

    def answered(self, response_bytes: int) -> None:
        """The wait is over."""
        self.answered_ms = self.written_ms = self._connection.now_ms()
        self.response_bytes = response_bytes
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def written(self) -> None:
        """What the reply reports is written."""
        if self.sent_ms == NOT_YET:
            self.written_ms = self._connection.now_ms()

    def ended(self, now_ms: float, *, has_disconnected: bool = False) -> None:
        """The reply is sent, or there is none; or the client has disconnected, and stages are missing."""
        self.sent_ms, self.has_disconnected = now_ms, has_disconnected
        self.handled_ms = now_ms if self.handled_ms == NOT_YET else self.handled_ms
        self.answered_ms = now_ms if self.answered_ms == NOT_YET else self.answered_ms
        self.written_ms = self.answered_ms if self.written_ms == NOT_YET else self.written_ms
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._connection.log.log(self)


class ConnectionTrace:
    """The traces of one connection."""

    __slots__ = (
        "_arrivals",
        "_begun_ms",
        "_current",
        "_memory_ms",
        "_received_ms",
        "_starved_ms",
        "_unsent",
        "client",
        "log",
        "now_ms",
    )

    def __init__(self, log: TraceLog, client: TracedClient) -> None:
        self.log = log
        self.client = client
        self.now_ms: Callable[[], float] = log.monotonic_ms
        self._begun_ms: float | None = None  # the first byte of the incomplete request
        self._received_ms: float | None = None  # of the pending request that is next
        self._arrivals: deque[float] = deque()  # of the pending requests
        self._starved_ms = 0.0  # since when the connection waits for memory
        self._memory_ms = 0.0
        self._current: RequestTrace | None = None
        self._unsent: list[RequestTrace] = []

    # Bytes

    def note_progress(self, now_ms: float, held_bytes: int, *, has_requests: bool) -> None:
        """Bytes have arrived; `held_bytes` belong to a request that is not complete."""
        if not held_bytes:
            self._begun_ms = None
        elif has_requests or self._begun_ms is None:
            self._begun_ms = now_ms

    def note_pending(self, count: int, now_ms: float) -> None:
        """So many complete requests wait behind an earlier one."""
        self._arrivals.extend([now_ms] * count)

    def next_pending(self) -> None:
        """The first request that has waited is dispatched next."""
        self._received_ms = self._arrivals.popleft() if self._arrivals else None

    def starve(self) -> None:
        """The rest of the requests waits for memory."""
        self._starved_ms = self.now_ms()

    def granted(self) -> None:
        """There is memory again."""
        if self._starved_ms:
            self._memory_ms += self.now_ms() - self._starved_ms
            self._starved_ms = 0.0

    # Requests

    def begin(self, api_key: int, version: int, frame: memoryview) -> RequestTrace:
        """A request is dispatched; `frame` is the request without its size."""
        request = RequestTrace(self, api_key, version, frame)
        received_ms = self.client.active_ms if self._received_ms is None else self._received_ms
        request.received_ms = received_ms
        request.begun_ms = received_ms if self._begun_ms is None else min(self._begun_ms, received_ms)
        request.started_ms = max(received_ms, self.now_ms())
        request.memory_ms, self._memory_ms = self._memory_ms, 0.0
        self._begun_ms = self._received_ms = None
        self._current = request
        return request

    @property
    def current(self) -> RequestTrace | None:
        """The request in progress."""
        return self._current

    def note_memory_wait(self, waited_ms: float) -> None:
        """The request in progress has waited for memory."""
        if self._current is not None:
            self._current.memory_ms += waited_ms

    def throttled(self, throttle_ms: int) -> None:
        """The connection pauses, after the request in progress or the last one."""
        request = self._current or (self._unsent[-1] if self._unsent else None)
        if request is not None:
            request.throttle_ms = throttle_ms

    def end_handling(self, request: RequestTrace, reply: Sequence[Any]) -> None:
        """The reply will be sent; an empty one is none, and ends the request."""
        self._current = None
        if reply:
            self._unsent.append(request)
        else:
            request.ended(self.now_ms())

    def sent(self) -> None:
        """All replies are sent."""
        if self._unsent:
            now_ms = self.now_ms()
            ended, self._unsent = self._unsent, []
            for request in ended:
                request.ended(now_ms)

    def close(self) -> None:
        """The connection is closed: the requests without a reply end."""
        left, self._unsent = self._unsent, []
        if self._current is not None:
            left.append(self._current)
            self._current = None
        now_ms = self.now_ms()
        for request in left:
            request.ended(now_ms, has_disconnected=True)


def trace_handler(handler: Callable[[Message, Any], T], describe: DescribeRequest, request: Message, context: Any) -> T:
    """Call the handler of a route, and note its request."""
    trace = context.client.trace
    current = None if trace is None else trace.current
    if current is not None:
        current.note_request(*describe(request, context))
    return handler(request, context)
