"""The response cache: encoded responses that many clients ask for; only Metadata has such responses.

A cached response depends on the cluster's image, which has the ACLs, on the request, and on the client's viewpoint: its
principal, the address that it connected to, and with an authorizer the hosts of ACLs that mean its own address. The
cache keeps the response under these as a key, without the correlation id, until the image changes. The size of the
cache and of one response are bounded. A response in steps is made once for all clients that ask meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias
from weakref import WeakValueDictionary

from headgate.gateway.api.authorization import StableAuthorizer
from headgate.gateway.api.context import Client
from headgate.gateway.api.parked import ParkedRequest
from headgate.gateway.api.routes import LARGE_BYTES
from headgate.gateway.metadata.image import Image

Key: TypeAlias = tuple[bytes, str, str, str, int, Hashable]

MAX_ANSWER_BYTES = 8 << 20
"""Enough for a hundred thousand partitions."""
MAX_REQUEST_BYTES = 1 << 18
"""Enough for ten thousand topic names."""
MAX_CACHED_BYTES = 16 << 20
_OVERHEAD_BYTES = 200
MAX_VIEWPOINTS = 1 << 12


class ResponseCache:
    """The cached responses of one image."""

    __slots__ = ("_answers", "_authorizer", "_image", "_large", "_viewed", "_viewpoints", "cached_bytes", "making")

    def __init__(self, authorizer: StableAuthorizer | None = None) -> None:
        self._authorizer = authorizer
        self._viewed: Image | None = None
        self._viewpoints: dict[tuple[str, str], Hashable] = {}
        """The viewpoints of clients under the image `_viewed`, by principal and remote host."""
        self._image: Image | None = None
        self._answers: dict[Key, bytes] = {}
        self._large: dict[Key, bytes] = {}
        self.cached_bytes = 0
        self.making: WeakValueDictionary[Key, ParkedRequest] = WeakValueDictionary()
        """The requests whose responses are in progress."""

    def key(self, image: Image, frame: memoryview, position: int, client: Client) -> Key | None:
        """The key of a response: everything that it depends on beside the image. None: the request is too large.

        `position`: where the request begins behind its header, whose first four bytes are API key and version.
        """
        if len(frame) - position > MAX_REQUEST_BYTES:
            return None
        viewpoint = None
        if self._authorizer is not None:
            viewpoint = self._viewpoints.get((client.principal, client.remote_host))
            if viewpoint is None or self._viewed is not image:
                viewpoint = self._view(image, client)
        body = b"".join((frame[:4], frame[position:]))
        return body, client.principal, client.listener, client.local_host, client.local_port, viewpoint

    def _view(self, image: Image, client: Client) -> Hashable:
        if self._viewed is not image or len(self._viewpoints) >= MAX_VIEWPOINTS:
            self._viewed, self._viewpoints = image, {}
        assert self._authorizer is not None
        viewpoint = self._viewpoints[client.principal, client.remote_host] = self._authorizer.viewpoint(client)
        return viewpoint

    def find(self, image: Image, key: Key) -> bytes | None:
        """The cached small response, which is sent in one piece with its header."""
        return self._answers.get(key) if image is self._image else None

    def find_large(self, image: Image, key: Key) -> bytes | None:
        return self._large.get(key) if image is self._image else None

    def keep(self, image: Image, key: Key, answer: bytes) -> None:
        """Cache a response, unless it is too large. A full cache or a new image drops all other responses."""
        if len(answer) > MAX_ANSWER_BYTES:
            return
        size = len(key[0]) + len(answer) + _OVERHEAD_BYTES
        if image is not self._image or self.cached_bytes + size > MAX_CACHED_BYTES:
            self._image, self._answers, self._large, self.cached_bytes = image, {}, {}, 0
        kept = self._answers if len(answer) <= LARGE_BYTES else self._large
        kept[key] = answer
        self.cached_bytes += size
