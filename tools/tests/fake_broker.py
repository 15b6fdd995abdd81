"""A broker that answers what a test tells it to, on a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.protocol.client.tests.scripted_peer import Answer, reply
from headgate.protocol.frame import FrameReader
from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.metadata import MetadataRequest

SERVED = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=cls.api_key, min_version=0, max_version=9) for cls in (ApiVersionsRequest, MetadataRequest)
    ]
)


@contextmanager
def fake_broker(answer: Answer) -> Iterator[str]:
    """The address of a broker that serves one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, answer), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def _serve(listener: socket.socket, answer: Answer) -> None:
    try:
        connection, _ = listener.accept()
    except OSError:
        return
    frames = FrameReader(1 << 20)
    with connection:
        while received := connection.recv(1 << 16):
            for frame in frames.feed(received):
                data = reply(frame, answer)
                if data is None:
                    return
                connection.sendall(data)
