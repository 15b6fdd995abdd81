"""A cluster of one broker that answers each request as a test tells, behind the real client, encoder and decoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from headgate.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headgate.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from headgate.protocol.schema import Message
from headgate.tools.client.cluster import Cluster
from headgate.tools.tests.model_cluster import ModelSocket, opened

Answers = Mapping[type[Message], Message | Callable[..., Message]]
_NODE = MetadataResponse(brokers=[MetadataResponseBroker(0, "127.0.0.1", 9092)], controller_id=0, cluster_id="model")


@contextmanager
def answering_cluster(answers: Answers, versions: Mapping[type[Message], int] | None = None) -> Iterator[Cluster]:
    """The broker serves the requests in `answers`, in all versions or up to that in `versions`, and Metadata."""
    known: dict[type[Message], Message | Callable[..., Message]] = {MetadataRequest: _NODE, **answers}
    kinds: list[type[Message]] = [ApiVersionsRequest, *known]
    served = {kind: kind.versions.last for kind in kinds} | dict(versions or {})

    def answer(request: Message, version: int) -> Message:
        if isinstance(request, ApiVersionsRequest):
            keys = [ApiVersion(kind.api_key, kind.versions.first, last) for kind, last in served.items()]
            told = known.get(ApiVersionsRequest, ApiVersionsResponse())
            assert isinstance(told, ApiVersionsResponse)
            told.api_keys = keys
            return told
        given = known[type(request)]
        return given if isinstance(given, Message) else given(request)

    with (
        mock.patch("socket.create_connection", side_effect=lambda *_: ModelSocket(answer)),
        opened() as cluster,
    ):
        yield cluster
