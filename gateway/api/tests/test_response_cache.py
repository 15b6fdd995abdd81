"""Answers kept as bytes: the same bytes as made anew, and no longer than they are right."""

from dataclasses import replace

import pytest

from headgate.gateway.api.authorization import Authorizer
from headgate.gateway.api.context import Client
from headgate.gateway.api.dispatch import Dispatcher
from headgate.gateway.api.handler_registration import REGISTRATIONS, load
from headgate.gateway.api.handlers.metadata import metadata
from headgate.gateway.api.response_cache import (
    MAX_ANSWER_BYTES,
    MAX_CACHED_BYTES,
    MAX_REQUEST_BYTES,
    Key,
    ResponseCache,
)
from headgate.gateway.api.routes import LARGE_BYTES
from headgate.gateway.api.tests.test_dispatch import answer, frame, never
from headgate.gateway.metadata.image import Image
from headgate.gateway.security.acls.authorizer import ClusterMetadataAuthorizer
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headgate.protocol.schema import Message
from headgate.protocol.security.acls.decision import AclPolicy

CLIENT = Client("127.0.0.1", 40_000, "127.0.0.1", 9092)
IMAGE = Image.empty()


def request(*names: str, create: bool = False) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], create)


def counted(node: HandlerBroker, authorizer: Authorizer | None = None) -> tuple[Dispatcher, list[Message]]:
    """The dispatcher, and the requests for Metadata that its handler saw."""
    seen: list[Message] = []

    def handler(request: MetadataRequest, context: object) -> object:
        seen.append(request)
        return metadata(request, context)  # type: ignore[arg-type]

    table = dict(load())
    (served,) = REGISTRATIONS[3].ranges
    table[3] = REGISTRATIONS[3]._replace(ranges=(served._replace(handler=handler),))  # type: ignore[arg-type]
    return Dispatcher(node.services, table, authorizer), seen


@pytest.mark.parametrize("version", range(14))
def test_the_second_answer_is_the_first_one(node: HandlerBroker, version: int) -> None:
    node.services.metadata.create_topic("t", 3)
    dispatcher, seen = counted(node)
    asked = request("t", create=version < 4)
    first = answer(dispatcher.dispatch(frame(asked, version), CLIENT, never), MetadataResponse, version)
    second = answer(dispatcher.dispatch(frame(asked, version), CLIENT, never), MetadataResponse, version)
    assert first == second
    assert len(seen) == 1


def test_a_change_of_the_image_makes_it_anew(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    dispatcher, seen = counted(node)
    for _ in range(2):
        dispatcher.dispatch(frame(request("t"), 9), CLIENT, never)
    node.services.metadata.create_topic("u", 1)
    dispatcher.dispatch(frame(request("t"), 9), CLIENT, never)
    assert len(seen) == 2


def test_an_answer_that_made_a_topic_is_right_for_the_image_it_made(node: HandlerBroker) -> None:
    dispatcher, seen = counted(node)
    for _ in range(2):
        found = answer(dispatcher.dispatch(frame(request("new", create=True), 9), CLIENT, never), MetadataResponse, 9)
        assert [(topic.name, topic.error_code) for topic in found.topics] == [("new", ErrorCode.NONE)]
    assert len(seen) == 1


def test_an_error_is_not_kept(node: HandlerBroker) -> None:
    dispatcher, seen = counted(node)
    for _ in range(2):
        found = answer(dispatcher.dispatch(frame(request("none"), 9), CLIENT, never), MetadataResponse, 9)
        assert found.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(seen) == 2


@pytest.mark.parametrize(
    "other", [{"principal": "User:ann"}, {"listener": "SSL"}, {"local_host": "10.0.0.1"}, {"local_port": 9093}], ids=str
)
def test_another_viewpoint_has_its_own_answer(node: HandlerBroker, other: dict[str, object]) -> None:
    node.services.metadata.create_topic("t", 1)
    dispatcher, seen = counted(node)
    for client in (CLIENT, replace(CLIENT, **other), CLIENT):  # type: ignore[arg-type]
        dispatcher.dispatch(frame(request("t"), 9), client, never)
    assert len(seen) == 2


def test_another_client_behind_the_same_viewpoint_shares_it(node: HandlerBroker) -> None:
    node.services.metadata.create_topic("t", 1)
    dispatcher, seen = counted(node)
    for number in range(3):
        client = replace(CLIENT, remote_port=50_000 + number)
        dispatcher.dispatch(frame(request("t"), 9, client_id=f"client {number}"), client, never)
        assert client.client_id == f"client {number}"
    assert len(seen) == 1


def of(body: bytes) -> Key:
    found = ResponseCache().key(IMAGE, memoryview(b"\0\3\0\1" + body), 4, CLIENT)
    assert found is not None
    return found


def test_what_is_kept_is_bounded() -> None:
    answers = ResponseCache()
    for number in range(3 * MAX_CACHED_BYTES // MAX_ANSWER_BYTES):
        answers.keep(IMAGE, of(b"%d" % number), bytes(MAX_ANSWER_BYTES))
        assert answers.find_large(IMAGE, of(b"%d" % number)) is not None
    assert answers.cached_bytes <= MAX_CACHED_BYTES
    answers.keep(IMAGE, of(b"long"), bytes(MAX_ANSWER_BYTES + 1))
    assert answers.find_large(IMAGE, of(b"long")) is None
    assert answers.key(IMAGE, memoryview(bytes(4 + MAX_REQUEST_BYTES + 1)), 4, CLIENT) is None


@pytest.mark.slow
def test_a_large_answer_is_not_copied_for_each_client(node: HandlerBroker) -> None:
    """A hundred clients that do not read must not hold a hundred copies."""
    node.services.metadata.create_topic("t", 400)
    dispatcher = node.parts.dispatcher
    dispatcher.dispatch(frame(request("t"), 9), CLIENT, never)
    first, second = (dispatcher.dispatch(frame(request("t"), 9), CLIENT, never) for _ in range(2))
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert len(first) == 2
    assert first[1] is second[1]
    assert answer(first, MetadataResponse, 9) == answer(second, MetadataResponse, 9)


def test_nothing_is_found_under_another_image() -> None:
    answers = ResponseCache()
    answers.keep(IMAGE, of(b""), b"kept")
    assert answers.find(IMAGE, of(b"")) == b"kept"
    assert answers.find(Image.empty(), of(b"")) is None
    answers.keep(IMAGE, of(b"large"), bytes(LARGE_BYTES + 1))
    assert answers.find_large(IMAGE, of(b"large")) == bytes(LARGE_BYTES + 1)
    assert answers.find(IMAGE, of(b"large")) is None
    assert answers.find_large(Image.empty(), of(b"large")) is None


def acl(name: str, host: str = "*") -> AclBinding:
    return AclBinding(
        AclResource.TOPIC, name, PatternType.LITERAL, "User:ANONYMOUS", host, AclOperation.DESCRIBE, AclPermission.ALLOW
    )


def test_answers_are_cached_with_an_authorizer_until_an_acl_changes(node: HandlerBroker) -> None:
    metadata_store = node.services.metadata
    metadata_store.create_topic("t", 1)
    authorizer = ClusterMetadataAuthorizer(lambda: metadata_store.image.acls, AclPolicy())
    dispatcher, seen = counted(node, authorizer)

    def error_code(client: Client = CLIENT) -> int:
        response = answer(dispatcher.dispatch(frame(request("t"), 9), client, never), MetadataResponse, 9)
        return int(response.topics[0].error_code)

    def asked(client: Client = CLIENT) -> tuple[int, int]:
        """The error code, and the number of times that the handler was called."""
        before = len(seen)
        return error_code(client), len(seen) - before

    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert error_code() == error_code() == refused
    metadata_store.create_acls([acl("t", "127.0.0.0/8")])
    assert asked() == (ErrorCode.NONE, 1)
    assert asked(replace(CLIENT, remote_host="127.9.9.9")) == (ErrorCode.NONE, 0), "the same ACLs mean this client"
    assert error_code(replace(CLIENT, remote_host="10.0.0.1")) == refused
    assert error_code(replace(CLIENT, principal="User:other")) == refused
    assert asked() == (ErrorCode.NONE, 0)
    metadata_store.delete_acls([acl("t", "127.0.0.0/8")])
    assert error_code() == refused
