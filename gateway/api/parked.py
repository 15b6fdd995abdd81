"""Parked requests: those that wait, and those that take longer than a turn. Each is one task.

    memory ──> read in steps ──> handler ──> its task ──> written in steps ──> done(reply)

A request of more than `FREE_BYTES` reserves the most memory that its bytes may take once they are read; after the read,
it keeps the part for the elements that it has, until its reply is written. So any bytes of any number of clients take
at most about twice the budget, and a request is refused for its size alone.

When a client disconnects, the task of its request is cancelled, unless other clients share the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headgate.gateway.api.context import Client, CloseConnection, HandlerContext, Services
from headgate.gateway.api.routes import Reply, Route, body_of, with_body
from headgate.gateway.runtime.tasks import Changes, Running, Silent, Task, WaitList, is_task
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.reading import BYTES_PER_ELEMENT, parsed_bytes
from headgate.protocol.schema import Message

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
        "_keep",
        "_reply",
        "_reserved",
        "_route",
        "_running",
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
        super().__init__(self._cancel)
        self.image = services.metadata.image
        """The image at the arrival of the request."""
        self._services = services
        self._route = route
        self._correlation_id = correlation_id
        self._client = client
        self._done: Done | None = done
        self._keep = keep
        self._running: Running[Reply] | None = None
        self._reply: Reply | Exception | None = None
        self._reserved = 0
        self._sharers: dict[Parked, tuple[int, Done]] | None = None

    # The task

    def begin(self, frame: memoryview, position: int) -> Reply | Parked:
        """Read, handle and answer a large request, once there is memory. Raises MalformedRequest, CloseConnection."""
        return self._begin(self._serve(frame, position))

    def go_on(self, request: Message, outcome: Any) -> Reply | Parked:
        """Continue with a handler's outcome that is not a response yet. Raises CloseConnection."""
        return self._begin(self._answer(request, outcome))

    def _begin(self, task: Task[Reply]) -> Reply | Parked:
        running = self._services.tasks.start(task, self._end)
        if isinstance(self._reply, Exception):
            raise self._reply
        if self._reply is not None:
            return self._reply
        self._running = running
        return self

    def _serve(self, frame: memoryview, position: int) -> Task[Reply]:
        services, route, client = self._services, self._route, self._client
        while services.stall_watch.is_in_doubt and not route.is_order:
            yield Changes((services.stall_watch.waiters,))
        frame_bytes = len(frame)
        if frame_bytes > FREE_BYTES:
            yield from self._reserve(parsed_bytes(frame_bytes, route.max_elements))
        request, _, elements = yield from route.read_in_steps(frame, position)
        self._keep_reserved(frame_bytes + elements * BYTES_PER_ELEMENT)
        del frame  # frees the memory
        services.batcher.write_all()  # other requests may have staged appends meanwhile
        if route.throttling is not None:
            route.throttling.frame_bytes = frame_bytes
        try:
            outcome = route.handler(request, HandlerContext(services, client, route.version, client.client_id))
        except Exception as error:  # noqa: BLE001  a failed request gets an error response
            outcome = route.error_response(request, client, error)
        return (yield from self._answer(request, outcome))

    def _reserve(self, size: int) -> Task[None]:
        """Wait for memory. Raises CloseConnection after MEMORY_WAIT_MS."""
        tasks, memory, is_reserved = self._services.tasks, self._services.parsed_memory, WaitList()

        def granted(size: int) -> None:
            self._reserved = size
            tasks.touch(is_reserved)

        if memory.reserve(size, granted):
            self._reserved = size
            return
        began_ms = tasks.monotonic_ms()
        changes = Changes((is_reserved,), began_ms + MEMORY_WAIT_MS)
        try:
            while not self._reserved:
                if (yield changes) is None and tasks.monotonic_ms() >= changes.deadline_ms:
                    reason = "other large requests have all memory: send fewer, or raise queued.max.request.bytes"
                    raise CloseConnection(f"a request waited {MEMORY_WAIT_MS / 1000:.0f} s for {size} bytes; {reason}")
        finally:
            memory.forget(granted)
            if self._client.trace is not None:
                self._client.trace.note_memory_wait(tasks.monotonic_ms() - began_ms)

    def _answer(self, request: Message, outcome: Any) -> Task[Reply]:
        """The reply to a handler's outcome, written in steps."""
        image = self._services.metadata.image
        try:
            if isinstance(outcome, Silent):
                self.is_silent, outcome = True, outcome.task
            if is_task(outcome):
                outcome = yield from outcome
                image = self._services.metadata.image
        except Exception as error:  # noqa: BLE001  a failed request gets an error response
            outcome = self._route.error_response(request, self._client, error)
        self._services.batcher.write_all()  # appends that the task has staged must not wait for another turn
        if outcome is None:
            return []
        reply = self._route.encode_in_steps(outcome, self._correlation_id)
        if not isinstance(reply, list):
            reply = yield from reply
        keep = self._keep
        return reply if keep is None else self._kept(keep, image, outcome, reply)

    def _end(self, reply: Reply | Exception) -> None:
        if isinstance(reply, MalformedRequest) and self._running is not None:
            reply = CloseConnection(str(reply))
        done, self._done = self._done, None
        sharers, self._sharers = self._sharers, None
        self._abandon = None
        self._keep_reserved(0)
        if self._running is None:  # the caller of `_begin` gets the reply
            self._reply = reply
            return
        if sharers is not None:
            for correlation_id, other in sharers.values():
                other(_same(reply, correlation_id))
        if done is not None:
            done(reply)

    def _cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()
        self._keep_reserved(0)

    # Clients that share the answer

    @property
    def is_open(self) -> bool:
        """Whether the response is still in progress."""
        return self._done is not None or bool(self._sharers)

    def join(self, correlation_id: int, done: Done) -> Parked:
        """Give another client the same response."""
        sharer = Parked(lambda: self._leave(sharer))
        if self._sharers is None:
            self._sharers = {}
        self._sharers[sharer] = correlation_id, done
        return sharer

    def abandon(self) -> None:
        """The client has disconnected: abandon the request, unless other clients share it."""
        self._done = None
        if not self._sharers:
            super().abandon()

    def _leave(self, sharer: Parked) -> None:
        if self._sharers is not None:
            self._sharers.pop(sharer, None)
        if not self.is_open:
            super().abandon()

    def _keep_reserved(self, size: int) -> None:
        """Give back reserved memory, down to `size` bytes."""
        if size < self._reserved:
            self._services.parsed_memory.release(self._reserved - size)
            self._reserved = size

    def _kept(self, keep: Keep, image: Image, response: Message, reply: Reply) -> Reply:
        """The reply; its bytes are cached if they stay valid."""
        body = body_of(reply)
        assert body is not None, "a cached response has no pieces of files"
        if self._route.is_lasting is not None and self._route.is_lasting(response):
            keep(image, body)
        return with_body(body, self._correlation_id)


def _same(reply: Reply | Exception, correlation_id: int) -> Reply | Exception:
    """The reply to another client with an equal request."""
    if isinstance(reply, Exception) or not reply:
        return reply
    body = body_of(reply)
    assert body is not None, "a shared response has no pieces of files"
    return with_body(body, correlation_id)
