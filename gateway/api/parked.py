"""Parked requests: those that run in steps, and those that wait for an event.

A request goes through up to four phases, and its connection is parked from the first phase that does not end at once:

    memory ──> read in steps ──> handler ──> its steps ──> waits (purgatory, task) ──> written in steps ──> done(reply)

A request of more than `FREE_BYTES` reserves the most memory that its bytes may take once they are read; after the read,
it keeps the part for the elements that it has, until its reply is written. So any bytes of any number of clients take
at most about twice the budget, and a request is refused for its size alone.

Steps take turns with the steps of all other requests (`gateway.runtime.time_slices`). Steps of less than half a
millisecond end in `begin`, as if there were no steps. When a client disconnects, the phase of its request ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.gateway.api.context import Client, CloseConnection, HandlerContext, Services
from headgate.gateway.api.routes import Reply, Route, body_of, with_body
from headgate.gateway.runtime.purgatory import NO_REPLY, Waiting
from headgate.gateway.runtime.time_slices import Work
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.reading import BYTES_PER_ELEMENT, parsed_bytes
from headgate.protocol.schema import Message
from headgate.protocol.steps import Steps, is_steps

if TYPE_CHECKING:
    from headgate.gateway.metadata.image import Image

FREE_BYTES = 1 << 17
"""A request of up to this size reserves no memory for its elements."""

MEMORY_WAIT_MS = 30_000.0
"""A request that gets no memory for so long closes its connection: by then most clients have given up."""

Done = Callable[[Reply | Exception], None]
Keep = Callable[["Image", bytes], None]


class Parked:
    """A request whose reply comes later, through `done`. Call `abandon` after its connection is closed.

    `is_silent`: the request gets no reply, and only delays the requests behind it.
    """

    __slots__ = ("_abandon", "is_silent")

    def __init__(self, abandon: Callable[[], None], is_silent: bool = False) -> None:
        self._abandon: Callable[[], None] | None = abandon
        self.is_silent = is_silent

    def abandon(self) -> None:
        """The client has disconnected: forget the reply."""
        abandon, self._abandon = self._abandon, None
        if abandon is not None:
            abandon()


class ParkedRequest(Parked):
    """A request in progress through the phases. `done` is called once, and never after `abandon`.

    Other clients with an equal request may `join`: they get the same response, also after the first client disconnects.
    """

    __slots__ = (
        "__weakref__",
        "_client",
        "_correlation_id",
        "_done",
        "_is_large",
        "_keep",
        "_reserved",
        "_route",
        "_services",
        "_sharers",
        "image",
    )

    def __init__(
        self,
        services: Services,
        route: Route,
        correlation_id: int,
        client: Client,
        done: Done,
        keep: Keep | None = None,
    ) -> None:
        """`keep(image, body)` caches a response that is valid as long as the image."""
        super().__init__(_nothing)
        self.image = services.metadata.image
        """The image at the arrival of the request."""
        self._services = services
        self._route = route
        self._correlation_id = correlation_id
        self._client = client
        self._done: Done | None = done
        self._keep = keep
        self._is_large = False
        self._reserved = 0
        self._sharers: dict[Parked, tuple[int, Done]] = {}

    # Phases

    def begin(self, frame: bytes, position: int) -> Reply | Parked:
        """Read, handle and answer a large request, once there is memory. Raises MalformedRequest, CloseConnection."""
        self._is_large = True
        if len(frame) <= FREE_BYTES:
            reply = self._go(self._read(frame, position))
            return self if reply is None else reply
        memory, size = self._services.parsed_memory, parsed_bytes(len(frame), self._route.max_elements)

        def granted(size: int) -> None:
            self._reserved = size
            self._go_later(self._read(frame, position))

        def granted_later(size: int) -> None:
            timer.cancel()
            granted(size)

        def expire() -> None:
            memory.forget(granted_later)
            reason = "other large requests have all memory: send fewer, or raise queued.max.request.bytes"
            self._end(CloseConnection(f"a request waited {MEMORY_WAIT_MS / 1000:.0f} s for {size} bytes; {reason}"))

        def forget() -> None:
            timer.cancel()
            memory.forget(granted_later)

        if memory.reserve(size, granted_later):
            granted(size)
        else:
            timer = self._services.scheduler.call_after(MEMORY_WAIT_MS, expire)
            self._abandon = forget
        return self

    def _go_later(self, steps: Steps[Reply | None]) -> None:
        work = Work(steps, self._end)
        self._abandon = work.cancel
        self._services.slices.put(work)

    def go_on(self, request: Message, outcome: Any) -> Reply | Parked:
        """Continue with a handler's outcome that is not a response yet."""
        reply = self._go(self._follow(request, outcome)) if is_steps(outcome) else self._wait(request, outcome)
        return self if reply is None else reply

    def _go(self, steps: Steps[Reply | None]) -> Reply | None:
        work = Work(steps, self._end)
        if self._services.slices.begin(work):
            reply: Reply | None = work.result
            return reply
        self._abandon = work.cancel
        return None

    def _read(self, frame: bytes, position: int) -> Steps[Reply | None]:
        request, _, elements = yield from self._route.read_in_steps(frame, position)
        self._keep_reserved(len(frame) + elements * BYTES_PER_ELEMENT)
        del frame  # frees the memory
        services, route, client = self._services, self._route, self._client
        services.appends.commit()  # other requests may have staged appends meanwhile
        try:
            outcome = route.handler(request, HandlerContext(services, client, route.version, client.client_id))
        except Exception as error:  # noqa: BLE001  a failed request gets an error response
            outcome = route.error_response(request, client, error)
        return (yield from self._follow(request, outcome))

    def _follow(self, request: Message, outcome: Any) -> Steps[Reply | None]:
        """The reply to an outcome; None if the reply comes later."""
        image = self._services.metadata.image
        try:
            while is_steps(outcome):
                outcome = yield from outcome
        except Exception as error:  # noqa: BLE001  as above
            outcome = self._route.error_response(request, self._client, error)
        self._services.appends.commit()  # appends staged by these steps must not wait for another turn
        if not isinstance(outcome, Message):
            return self._wait(request, outcome)
        reply = yield from self._route.encode_in_steps(outcome, self._correlation_id)
        return self._kept(image, outcome, reply)

    def _wait(self, request: Message, outcome: Any) -> Reply | None:
        if outcome is None:
            return []
        services = self._services
        if isinstance(outcome, Waiting):
            services.purgatory.park(outcome, lambda result: self._finish(request, result))
            self.is_silent = outcome.is_silent
            self._abandon = lambda: services.purgatory.abandon(outcome)
        else:
            self._abandon = _nothing
            services.scheduler.spawn(partial(_task, outcome), lambda result: self._finish(request, result))
        return None

    def _finish(self, request: Message, result: Any) -> None:
        """Answer with the result of the wait."""
        if self._done is None and not self._sharers:
            return
        try:
            if isinstance(result, Exception):
                result = self._route.error_response(request, self._client, result)
            if result is NO_REPLY:
                reply: Reply | None = []
            elif self._is_large or is_steps(result):
                reply = self._go(self._follow(request, result))
            else:
                reply = self._route.encode(result, self._correlation_id)
        except Exception as error:  # noqa: BLE001  the connection logs the error and closes
            self._end(error)
        else:
            if reply is not None:
                self._end(reply)

    def _end(self, reply: Reply | Exception | None) -> None:
        if reply is None:  # the reply comes later
            return
        if isinstance(reply, MalformedRequest):
            reply = CloseConnection(str(reply))
        done, self._done = self._done, None
        sharers, self._sharers = self._sharers, {}
        self._abandon = None
        self._keep_reserved(0)
        for correlation_id, other in sharers.values():
            other(_same(reply, correlation_id))
        if done is not None:
            done(reply)

    # Clients that share the answer

    @property
    def is_open(self) -> bool:
        """Whether the response is still in progress."""
        return self._done is not None or bool(self._sharers)

    def join(self, correlation_id: int, done: Done) -> Parked:
        """Give another client the same response."""
        sharer = Parked(lambda: self._leave(sharer))
        self._sharers[sharer] = correlation_id, done
        return sharer

    def abandon(self) -> None:
        """The client has disconnected: abandon the request, unless other clients share it."""
        self._done = None
        if not self._sharers:
            super().abandon()
            self._keep_reserved(0)

    def _leave(self, sharer: Parked) -> None:
        self._sharers.pop(sharer, None)
        if not self.is_open:
            super().abandon()
            self._keep_reserved(0)

    def _keep_reserved(self, size: int) -> None:
        """Give back reserved memory, down to `size` bytes."""
        if size < self._reserved:
            self._services.parsed_memory.release(self._reserved - size)
            self._reserved = size

    def _kept(self, image: Image, response: Message, reply: Reply) -> Reply:
        """The reply; its bytes are cached if they stay valid."""
        if self._keep is None:
            return reply
        body = body_of(reply)
        assert body is not None, "a cached response has no pieces of files"
        if self._route.is_lasting is not None and self._route.is_lasting(response):
            self._keep(image, body)
        return with_body(body, self._correlation_id)


def _same(reply: Reply | Exception, correlation_id: int) -> Reply | Exception:
    """The reply to another client with an equal request."""
    if isinstance(reply, Exception) or not reply:
        return reply
    body = body_of(reply)
    assert body is not None, "a shared response has no pieces of files"
    return with_body(body, correlation_id)


async def _task(outcome: Awaitable[Any]) -> Any:
    return await outcome


def _nothing() -> None:
    """There is nothing to abandon."""
