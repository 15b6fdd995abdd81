"""Every API and version, asked by clients with different ACLs; `test_under_acls` compares with Kafka's answers.

    python -m headgate.gateway.api.tests.under_acls.scenario properties PORT DIRECTORY > server.properties
    python -m headgate.gateway.api.tests.under_acls.scenario record PORT > answers_of_kafka41.txt

The first line writes the settings of an Apache Kafka in KRaft, with `zookeeper` in the end those of one with a
ZooKeeper on port 2181. It is formatted and started with this file; the second line records its answers.

`acl_sets` has the clients, `data_questions` and the modules beside it the questions. A line of a file has a question
with its versions, then clients, then the answer that all of these get. The answer of `none` is also that of each client
without a line, the answer of `all` that of each `but-...`.
"""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Protocol, TypeAlias

from headgate.gateway.api.authorization import DENIALS
from headgate.gateway.api.tests.under_acls import members
from headgate.gateway.api.tests.under_acls.acl_sets import ADMIN, ALL, NONE, acl_sets
from headgate.gateway.api.tests.under_acls.admin_questions import ZED, admin_questions
from headgate.gateway.api.tests.under_acls.data_questions import RECORDS, data_questions
from headgate.gateway.api.tests.under_acls.group_questions import commit, group_questions
from headgate.gateway.api.tests.under_acls.order_questions import order_questions
from headgate.gateway.api.tests.under_acls.questions import Ids, Question
from headgate.gateway.api.tests.under_acls.token_questions import set_up as set_up_tokens
from headgate.gateway.api.tests.under_acls.token_questions import token_questions
from headgate.gateway.api.tests.under_acls.transaction_questions import transaction_questions
from headgate.gateway.coordinator.groups.tests.response_lines import HIDDEN, ResponseLines
from headgate.protocol.acls import AclBinding
from headgate.protocol.client.connection import ClientConnection
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.api_versions import ApiVersionsRequest
from headgate.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest
from headgate.protocol.messages.init_producer_id import InitProducerIdRequest
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headgate.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headgate.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from headgate.protocol.messages.sasl_handshake import SaslHandshakeRequest
from headgate.protocol.records import batch
from headgate.protocol.schema import Message, Struct

EXISTING = ("t", "u", "doomed", "stays")
SETTINGS = {
    "num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.ms": "-1",
    "delegation.token.secret.key": "secret",
}
END = "the end of the connection"
MEMBERS = "ConsumerGroupHeartbeat: by an expression", "ConsumerGroupDescribe: members"
"""What is asked about members, in version 1."""
OF_OBJECTS = r"Request Request\(.*\) (needs \w+ permission|is not authorized)\."
"""Kafka's message where a whole request needs an operation on the cluster: it has addresses of objects."""
SECONDS = 20
PATIENCE_S = 0.02


Answers: TypeAlias = dict[tuple[str, int], dict[str, str]]
"""By question and version: the answers by client."""


class Broker(Protocol):
    """The broker of the scenario: a recorded Kafka, or this broker."""

    def ask(self, client: str, request: Message, version: int) -> Any:
        """The response to a client of this name; None for a version that is not served."""

    def wait(self) -> None:
        """Let the broker learn what was changed."""


class AnswerLines(ResponseLines):
    """Answers without what counts up.

    Of messages, those of denials that say more than the name of the error: `like_kafka` compares the others. Kafka has
    null in place of some.
    """

    hidden: ClassVar[frozenset[str]] = HIDDEN | {
        *("base_offset", "producer_id", "producer_epoch", "aborted_transactions"),
        *("group_epoch", "assignment_epoch", "member_epoch"),
        *("token_id", "hmac", "issue_timestamp", "expiry_timestamp", "max_timestamp"),
        *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
    }

    def _struct(self, value: Struct, version: int, ordered: bool) -> str:
        shown, code = super()._struct(value, version, ordered), getattr(value, "error_code", 0)
        message = getattr(value, "error_message", None) if code in DENIALS.values() else None
        if not message or message == ErrorCode(code).message or re.fullmatch(OF_OBJECTS, message, flags=re.DOTALL):
            return shown
        return f"{shown[:-1]} error_message={message!r})"

    def _field(self, name: str, value: Any, version: int, ordered: bool) -> str:
        if name == "records":
            return f"{len(value or b'')} bytes"
        return super()._field(name, value, version, ordered)


def questions() -> Iterator[Question]:
    yield from data_questions()
    yield from group_questions()
    yield from transaction_questions()
    yield from admin_questions()
    yield from token_questions()
    yield from order_questions()


def question_name(question: Question, ids: Ids) -> str:
    """The API and the label."""
    request = question.make(ids, next(iter(question.versions)))
    return f"{type(request).__name__.removesuffix('Request')}: {question.label}"


class Scenario:
    """One run over a new broker. The clients of `acls` ask, unless a question names its own."""

    def __init__(self, broker: Broker, acls: Mapping[str, Sequence[AclBinding]] | None = None) -> None:
        self.broker = broker
        self.acls = acl_sets() if acls is None else acls
        self.lines = AnswerLines()
        self.answers: Answers = {}

    def play(self, asked: Iterable[tuple[str, int]] | None = None) -> None:
        """Ask everything, or these questions in these versions."""
        wanted = None if asked is None else {*asked}
        self.set_up()
        for question in questions():
            name = question_name(question, {})
            for version in question.versions:
                if wanted is None or (name, version) in wanted:
                    self.ask(question, version)
        self._ask_members()

    def _ask_members(self) -> None:
        ask, wait, names = self.broker.ask, self.broker.wait, self.lines.ids
        topics = members.topics_of_expressions(ask, wait, names)
        if topics is not None:
            self.answers[MEMBERS[0], 1] = topics
        described = members.described_members(ask, wait, names)
        if described is not None:
            answers = {client: self.lines.line(response, 1) for client, response in described.items()}
            self.answers[MEMBERS[1], 1] = answers

    def set_up(self) -> None:
        self._create(EXISTING)
        for name in EXISTING:
            self._until(lambda name=name: self._produce(name))
        self._until(lambda: not self._failed(FindCoordinatorRequest("g"), 3))
        self._until(lambda: not self._failed(FindCoordinatorRequest("x", 1), 3))
        for key in ("x", "y"):
            self._until(lambda key=key: not self._failed(InitProducerIdRequest(key, 60_000), 3))
        for group in ("g", "h"):
            self._commit(group)
        creations = [creation_of(acl) for acls in self.acls.values() for acl in acls]
        set_up_tokens(self.admin)
        results = self.admin(CreateAclsRequest([*creations, ZED]), 2).results
        assert not any(row.error_code for row in results), results

    def admin(self, request: Message, version: int) -> Any:
        return self.broker.ask(ADMIN, request, version)

    def _produce(self, name: str) -> bool:
        data = [PartitionProduceData(0, bytes(batch.build(RECORDS)))]
        response = self.admin(ProduceRequest(None, -1, 10_000, [TopicProduceData(name, partition_data=data)]), 9)
        return not response.responses[0].partition_responses[0].error_code

    def _failed(self, request: Message, version: int) -> bool:
        return bool(self.admin(request, version).error_code)

    def _until(self, is_so: Any) -> None:
        deadline_s = time.monotonic() + SECONDS
        while not is_so():
            assert time.monotonic() < deadline_s, "the broker does not come to rest"
            self.broker.wait()

    def _topics(self) -> dict[str, MetadataRequestTopic]:
        response = self.admin(MetadataRequest(None, False), 12)
        return {
            topic.name: topic
            for topic in response.topics
            if topic.partitions and not any(row.error_code for row in topic.partitions)
        }

    def _create(self, names: Iterable[str]) -> None:
        names = [*names]
        response = self.admin(CreateTopicsRequest([CreatableTopic(name, 2, 1) for name in names], 10_000), 7)
        assert not any(row.error_code for row in response.topics), response
        self._until(lambda: {*names} <= self._topics().keys())
        self.lines.ids = {topic.topic_id: name for name, topic in self._topics().items()}

    def _delete(self, name: str) -> None:
        self.admin(DeleteTopicsRequest([DeleteTopicState(name)], timeout_ms=10_000), 6)
        self._until(lambda: name not in self._topics())
        # With ZooKeeper a topic is gone from Metadata before its name is free
        free = CreateTopicsRequest([CreatableTopic(name, 1, 1)], 10_000, True)
        self._until(lambda: not self.admin(free, 4).topics[0].error_code)

    def _commit(self, group: str) -> None:
        def is_stored() -> bool:
            response = self.admin(commit(group, {}, 8), 8)
            return not any(
                row.error_code for topic in response.topics if topic.name != "new" for row in topic.partitions
            )

        self._until(is_stored)

    def ask(self, question: Question, version: int) -> None:
        answers: dict[str, str] = {}
        for client in question.clients or self.acls:
            ids = {name: topic_id for topic_id, name in self.lines.ids.items()}
            request = question.make(ids, version)
            response = self.broker.ask(client, request, version)
            if response is None:
                return
            answer = self._answer(response, version)
            answers[client] = answer.replace(f"principal_name='{client}'", "principal_name='the client'")
            self._restore(question.restore, response)
        if {*answers.values()} == {END}:  # Kafka 4.1 says that it serves Produce 0 to 2
            return
        name = question_name(question, ids)
        assert (name, version) not in self.answers, name
        self.answers[name, version] = answers

    def _answer(self, response: Any, version: int) -> str:
        if isinstance(response, str):
            return response
        if isinstance(response, MetadataResponse):
            for topic in response.topics:
                if topic.name in ("new", "other") and topic.error_code in _CREATING:
                    topic.error_code, topic.partitions, topic.topic_id = ErrorCode.LEADER_NOT_AVAILABLE, [], bytes(16)
        return self.lines.line(response, version)

    def _restore(self, names: Iterable[str], response: Any) -> None:
        """Make topics and groups as they were before an allowed request."""
        changed = {*names} & {*_changed(response)}
        for name in changed:
            if name in ("g", "h"):
                self._commit(name)
            elif name in EXISTING:
                self._delete(name)
                self._create([name])
            else:
                self._until(lambda name=name: name in self._topics())
                self._delete(name)


_CREATING = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
"""The answers for a topic that is created: Kafka creates it after the answer."""


def _changed(response: Any) -> Iterator[str]:
    """The names in rows without an error, and of topics that are created after the answer."""
    if isinstance(response, str):
        return
    is_metadata = isinstance(response, MetadataResponse)
    for field in ("topics", "responses", "results"):
        for row in getattr(response, field, ()):
            if getattr(row, "error_code", 0) in (_CREATING if is_metadata else (ErrorCode.NONE,)):
                yield getattr(row, "name", None) or getattr(row, "group_id", None) or ""
    if type(response).__name__ == "OffsetDeleteResponse" and not response.error_code:
        yield from ("g", "h")


def creation_of(acl: AclBinding) -> AclCreation:
    return AclCreation(
        int(acl.resource_type),
        acl.resource_name,
        int(acl.pattern_type),
        acl.principal,
        acl.host,
        int(acl.operation),
        int(acl.permission),
    )


# The files


def text(answers: Answers) -> Iterator[str]:
    """The lines of a file: consecutive versions with equal answers have one."""
    for name, group in groupby(answers.items(), key=lambda item: item[0][0]):
        for versions, by_client in _spans([(version, by_client) for (_, version), by_client in group]):
            yield from (f"{name}\t{versions}\t{clients}\t{answer}" for clients, answer in _by_answer(by_client))


def _spans(rows: list[tuple[int, dict[str, str]]]) -> Iterator[tuple[str, dict[str, str]]]:
    first = 0
    for number, (version, answers) in enumerate(rows):
        if number + 1 == len(rows) or rows[number + 1] != (version + 1, answers):
            start = rows[first][0]
            yield str(version) if start == version else f"{start}-{version}", answers
            first = number + 1


def _by_answer(by_client: dict[str, str]) -> Iterator[tuple[str, str]]:
    clients: dict[str, list[str]] = {}
    for client, answer in by_client.items():
        usual = by_client.get(_like(client))
        if answer != usual or client in (NONE, ALL):
            clients.setdefault(answer, []).append(client)
    for answer, names in clients.items():
        yield " ".join(names), answer


def _like(client: str) -> str:
    """The client whose answer stands for those of clients that a file does not name."""
    return ALL if client.startswith("but-") else NONE


def parse(lines: Iterable[str]) -> Answers:
    """The answers of a file."""
    answers: Answers = {}
    for line in lines:
        name, versions, clients, answer = line.split("\t")
        first, _, last = versions.partition("-")
        for version in range(int(first), int(last or first) + 1):
            answers.setdefault((name, version), {}).update(dict.fromkeys(clients.split(), answer))
    return {
        key: {**{client: row[_like(client)] for client in acl_sets() if ALL in row}, **row}
        for key, row in answers.items()
    }


# A recorded Kafka


class Remote:
    """An Apache Kafka on this machine: each client has a connection, and logs in by its name."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: dict[str, tuple[socket.socket, ClientConnection]] = {}

    def wait(self) -> None:
        time.sleep(PATIENCE_S)

    def ask(self, client: str, request: Message, version: int) -> Any:
        connection, peer = self._clients.get(client) or self._log_in(client)
        served = peer.served_versions.get(request.api_key)
        if served is None or version not in served:
            return None
        try:
            return self._exchange(connection, peer, request, version)
        except EOFError:
            del self._clients[client]
            return END

    def _log_in(self, client: str) -> tuple[socket.socket, ClientConnection]:
        connection, peer = socket.create_connection(("127.0.0.1", self._port), 30.0), ClientConnection(client)
        self._exchange(connection, peer, SaslHandshakeRequest("PLAIN"), 1)
        answer = self._exchange(connection, peer, SaslAuthenticateRequest(f"\0{client}\0{client}".encode()), 1)
        assert not answer.error_code, answer
        self._exchange(connection, peer, ApiVersionsRequest("headgate", "1"), 3)
        self._clients[client] = connection, peer
        return connection, peer

    @staticmethod
    def _exchange(connection: socket.socket, peer: ClientConnection, request: Message, version: int) -> Any:
        connection.sendall(peer.request(request, version))
        answered: list[tuple[Message, Any]] = []
        while not answered:
            received = connection.recv(1 << 20)
            if not received:
                raise EOFError
            answered = peer.receive(received)
        return answered[0][1]


def properties(port: int, directory: str, mode: str, clients: Iterable[str] | None = None) -> Iterator[str]:
    """The settings of the Kafka to record."""
    users = "".join(f' user_{name}="{name}"' for name in (ADMIN, *(acl_sets() if clients is None else clients)))
    lines = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port + 1},CLIENTS://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required{users};"
        ),
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
        "log.dirs": directory,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        **SETTINGS,
    }
    if mode == "zookeeper":
        lines |= {
            "broker.id": "1",
            "zookeeper.connect": "127.0.0.1:2181",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        }
    else:
        lines |= {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"{lines['listeners']},CONTROLLER://127.0.0.1:{port + 2}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{port + 2}",
        }
    return (f"{name}={value}\n" for name, value in lines.items())


def main(what: str, port: str, *more: str) -> None:
    if what == "properties":
        sys.stdout.writelines(properties(int(port), more[0], more[1] if len(more) > 1 else "kraft"))
    else:
        scenario = Scenario(Remote(int(port)))
        scenario.play()
        sys.stdout.writelines(f"{line}\n" for line in text(scenario.answers))


if __name__ == "__main__":
    main(*sys.argv[1:])
