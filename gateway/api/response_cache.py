"""The response cache: answers that clients ask for again and again, as bytes; Metadata alone has such answers.

An answer is a function of the cluster's image, the request, and the client's viewpoint: its principal, and the address
that it connected to. The cache keeps the answer under these, without the correlation id, until the image changes. The
size of the cache and of one answer are bounded. An answer in steps is made once for all clients that ask meanwhile.
"""

from __future__ import annotations

from typing import TypeAlias
from weakref import WeakValueDictionary

from headgate.gateway.api.context import Client
from headgate.gateway.api.parked import ParkedRequest
from headgate.gateway.api.routes import LARGE_BYTES
from headgate.gateway.metadata.image import Image

Key: TypeAlias = tuple[bytes, str, str, str, int]

MAX_ANSWER_BYTES = 8 << 20
"""A hundred thousand partitions fit."""
MAX_REQUEST_BYTES = 1 << 18
"""Ten thousand names of topics fit."""
MAX_KEPT_BYTES = 16 << 20
_OVERHEAD_BYTES = 200


def key(api: memoryview, body: memoryview, client: Client) -> Key | None:
    """Everything that an answer depends on, beside the image; None for a request that is too large for the cache.

    `api`: API key and version as they stand in the request.
    """
    if len(body) > MAX_REQUEST_BYTES:
        return None
    return b"".join((api, body)), client.principal, client.listener, client.local_host, client.local_port


class ResponseCache:
    """Kept answers of one image."""

    __slots__ = ("_answers", "_image", "_large", "kept_bytes", "making")

    def __init__(self) -> None:
        self._image: Image | None = None
        self._answers: dict[Key, bytes] = {}
        self._large: dict[Key, bytes] = {}
        self.kept_bytes = 0
        self.making: WeakValueDictionary[Key, ParkedRequest] = WeakValueDictionary()
        """The requests whose answers are being made."""

    def find(self, image: Image, key: Key) -> bytes | None:
        """The kept small answer to a request, to be sent in one piece with its head."""
        return self._answers.get(key) if image is self._image else None

    def find_large(self, image: Image, key: Key) -> bytes | None:
        """The kept large answer to a request, not to be copied."""
        return self._large.get(key) if image is self._image else None

    def keep(self, image: Image, key: Key, answer: bytes) -> None:
        """Keep an answer, unless it is too large. With no room, or a new image, it replaces all others."""
        if len(answer) > MAX_ANSWER_BYTES:
            return
        size = len(key[0]) + len(answer) + _OVERHEAD_BYTES
        if image is not self._image or self.kept_bytes + size > MAX_KEPT_BYTES:
            self._image, self._answers, self._large, self.kept_bytes = image, {}, {}, 0
        kept = self._answers if len(answer) <= LARGE_BYTES else self._large
        kept[key] = answer
        self.kept_bytes += size
