"""`headgate topics`: what is asked of the broker, what is shown, and what is said of failures."""

import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pytest

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from headgate.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headgate.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headgate.protocol.schema import Message
from headgate.tools import topics
from headgate.tools.client.client import ClientError

TOPIC_ID = bytes(range(16))
PARTITION = MetadataResponsePartition(partition_index=0, leader_id=0, leader_epoch=2, replica_nodes=[0], isr_nodes=[0])


class FakeClient:
    """Answers from a table: request class -> response."""

    def __init__(self, answers: dict[type[Message], Message]) -> None:
        self.answers = answers
        self.asked: list[Any] = []
        self.bootstrap = ""

    def __call__(self, bootstrap: str, timeout_s: float, security: object) -> Self:
        self.bootstrap = bootstrap
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def ask(self, request: Message) -> Message:
        self.asked.append(request)
        return self.answers[type(request)]


Answering = Callable[[dict[type[Message], Message]], FakeClient]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Answering:
    def answer(answers: dict[type[Message], Message]) -> FakeClient:
        client = FakeClient(answers)
        monkeypatch.setattr(topics, "Client", client)
        return client

    return answer


def metadata(*found: MetadataResponseTopic) -> dict[type[Message], Message]:
    return {MetadataRequest: MetadataResponse(topics=list(found)), DescribeConfigsRequest: DescribeConfigsResponse()}


def topic(name: str, error: ErrorCode = ErrorCode.NONE, partitions: int = 1) -> MetadataResponseTopic:
    rows = [PARTITION] * partitions
    return MetadataResponseTopic(error_code=error, name=name, topic_id=TOPIC_ID, partitions=rows)


def test_list_as_json_lines(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    client = answering(metadata(topic("b", partitions=2), topic("a")))
    assert topics.main(["list"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"topic": "a", "partitions": 1, "replication_factor": 1, "internal": False},
        {"topic": "b", "partitions": 2, "replication_factor": 1, "internal": False},
    ]
    assert client.bootstrap == "127.0.0.1:9092"
    assert client.asked == [MetadataRequest(topics=None, allow_auto_topic_creation=False)]


def test_list_as_a_table(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    answering(metadata(topic("orders", partitions=12), topic("a")))
    assert topics.main(["list", "--table", "--bootstrap-server", "b:1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC   PARTITIONS  REPLICATION FACTOR  INTERNAL",
        "a                1                   1  no",
        "orders          12                   1  no",
    ]


def test_create(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    client = answering({CreateTopicsRequest: CreateTopicsResponse(topics=[CreatableTopicResult(name="a")])})
    options = ["--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=5", "--config", "x=a=b"]
    assert topics.main(["create", "a", *options]) == 0
    (wanted,) = client.asked[0].topics
    assert (wanted.name, wanted.num_partitions, wanted.replication_factor) == ("a", 3, 1)
    assert [(config.name, config.value) for config in wanted.configs] == [("retention.ms", "5"), ("x", "a=b")]
    assert json.loads(capsys.readouterr().out) == {"topic": "a", "created": True}


def test_create_reports_failures_and_does_the_rest(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    refused = CreatableTopicResult(name="a", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="it is there")
    answering({CreateTopicsRequest: CreateTopicsResponse(topics=[refused, CreatableTopicResult(name="b")])})
    assert topics.main(["create", "a", "b"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"topic": "b", "created": True}
    assert shown.err == (
        "headgate topics: a was not created: it is there (TOPIC_ALREADY_EXISTS); --if-not-exists accepts that\n"
    )
    assert topics.main(["create", "a", "b", "--if-not-exists"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0]) == {"topic": "a", "created": False}


def test_describe(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    configs = [
        DescribeConfigsResourceResult(name="retention.ms", value="5", config_source=1),
        DescribeConfigsResourceResult(name="segment.ms", value="9", config_source=5),
    ]
    answers = metadata(topic("a"))
    answers[DescribeConfigsRequest] = DescribeConfigsResponse(
        results=[DescribeConfigsResult(resource_type=2, resource_name="a", configs=configs)]
    )
    client = answering(answers)
    assert topics.main(["describe", "a"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "topic": "a",
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "configs": {"retention.ms": "5"},
        "partitions": [{"partition": 0, "leader": 0, "leader_epoch": 2, "replicas": [0], "isr": [0]}],
    }
    assert not client.asked[0].allow_auto_topic_creation
    assert topics.main(["describe", "--table"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC  PARTITION  LEADER  LEADER EPOCH  REPLICAS  ISR  CONFIGS",
        "a              0       0             2  0         0    retention.ms=5",
    ]


def test_describe_an_unknown_topic(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    answering(metadata(topic("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)))
    assert topics.main(["describe", "x"]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("headgate topics: x cannot be described: there is no such topic; ")
    assert "(UNKNOWN_TOPIC_OR_PARTITION)" in shown.err


def test_delete(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = DeletableTopicResult(name="b", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message="none such")
    answers: dict[type[Message], Message] = {
        DeleteTopicsRequest: DeleteTopicsResponse(responses=[DeletableTopicResult(name="a"), unknown])
    }
    client = answering(answers)
    assert topics.main(["delete", "a", "b"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"topic": "a", "deleted": True}
    assert "b was not deleted: none such (UNKNOWN_TOPIC_OR_PARTITION); --if-exists accepts that" in shown.err
    assert [state.name for state in client.asked[0].topics] == client.asked[0].topic_names == ["a", "b"]
    assert topics.main(["delete", "a", "b", "--if-exists"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[1]) == {"topic": "b", "deleted": False}


def test_an_unknown_error_code_is_shown_by_its_number(answering: Answering, capsys: pytest.CaptureFixture[str]) -> None:
    answering({CreateTopicsRequest: CreateTopicsResponse(topics=[CreatableTopicResult(name="a", error_code=9999)])})
    assert topics.main(["create", "a"]) == 1
    assert capsys.readouterr().err == "headgate topics: a was not created: error 9999\n"


def test_a_command_without_a_broker_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(bootstrap: str, timeout_s: float, security: object) -> None:
        raise ClientError("no broker answers")

    monkeypatch.setattr(topics, "Client", refuse)
    assert topics.main(["list"]) == 1
    assert capsys.readouterr().err == "headgate topics: no broker answers\n"


@pytest.mark.parametrize(
    "arguments", [[], ["create"], ["lst"], ["create", "a", "--config", "x"], ["list", "--json", "--table"]]
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        topics.main(arguments)
    assert caught.value.code == 2
    assert "usage: headgate topics" in capsys.readouterr().err
