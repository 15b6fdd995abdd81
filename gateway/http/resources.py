"""The resources of the HTTP listener, by their paths.

A part of the broker adds its resource by a path, at the start; nothing is computed or imported before a peer asks. A
body is an iterator of slices. Each takes less than a millisecond to make, and other tasks run in between; an empty
slice is a step of the work that has no text yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"
INDEX: Final = "/"
OK: Final = 200


class HttpAnswer(NamedTuple):
    """The answer to one request."""

    content_type: str
    body: Iterable[bytes]
    """The slices. A generator is closed if the peer disconnects."""
    status: int = OK


class HttpResource(NamedTuple):
    """One path, and the answer to requests for it."""

    summary: str
    """One line, for the list of all resources."""
    answer: Callable[[], HttpAnswer]
    """Makes the answer to one request. It takes less than a millisecond; the slices of the body do the work."""
    modules: tuple[str, ...] = ()
    """What `answer` imports when it is called: a thread imports it before the first call, while clients are served."""


class HttpResources:
    """The resources by path. The list of them is at `/`."""

    def __init__(self) -> None:
        self._by_path: dict[str, HttpResource] = {}
        self.add(INDEX, HttpResource("this list", self._index))

    def add(self, path: str, resource: HttpResource) -> None:
        """Serve a resource at a path. Raises ValueError if the path has one."""
        if path in self._by_path or not path.startswith("/"):
            raise ValueError(f"{path} has a resource already, or does not begin with /")
        self._by_path[path] = resource

    def find(self, path: str) -> HttpResource | None:
        """The resource at a path, which has no query."""
        return self._by_path.get(path)

    def paths(self) -> list[str]:
        """All paths, in the order of the letters."""
        return sorted(self._by_path)

    def _index(self) -> HttpAnswer:
        width = max(map(len, self._by_path))
        lines = [f"{path.ljust(width)}  {self._by_path[path].summary}\n" for path in self.paths()]
        return HttpAnswer(TEXT, ["".join(lines).encode()])
