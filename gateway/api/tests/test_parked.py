"""Large requests are read, handled and answered in steps: others come in between, and nobody is forgotten."""

from __future__ import annotations

import gc
from itertools import pairwise
from typing import Any

import pytest

from headgate.gateway.api.context import CloseConnection
from headgate.gateway.api.dispatch import Dispatcher, Parked
from headgate.gateway.api.handler_registration import Range, Registration, load
from headgate.gateway.api.parked import ParkedRequest
from headgate.gateway.api.tests.large import LOOK_MS, Loop, frame
from headgate.gateway.runtime.tasks import PAUSE, SLICE_MS, Changes, Running, Task, WaitList
from headgate.gateway.tests.builders import HandlerBroker
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headgate.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from headgate.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from headgate.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headgate.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headgate.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headgate.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headgate.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headgate.protocol.schema import Message
from headgate.protocol.steps import Steps

TOPIC = 2
MANY = 200
NAME = "a-topic-of-a-name-that-is-rather-long-as-many-a-name-is-"


def configs(count: int = MANY) -> DescribeConfigsRequest:
    """Settings of topics that do not exist: a row each."""
    return DescribeConfigsRequest([DescribeConfigsResource(TOPIC, f"no-{NAME}{i}", None) for i in range(count)])


def metadata(count: int = MANY) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=f"{NAME}{i}") for i in range(count)], False)


def handled_by(loop: Loop, handler: Any) -> None:
    """FindCoordinator is handled by `handler`."""
    key = FindCoordinatorRequest.api_key
    table = {**load(), key: Registration(FindCoordinatorRequest, (Range(0, 6, handler),))}
    loop.dispatcher = Dispatcher(loop.node.services, table)


FIND = FindCoordinatorRequest(key="g")


@pytest.mark.slow
def test_others_are_answered_before_a_large_request(node: HandlerBroker) -> None:
    loop = Loop(node)
    asked = loop.ask(configs(), 4)
    assert isinstance(asked.parked, Parked)
    turns = 0
    while not asked.replies:
        loop.ask_a_bystander()
        loop.turn()
        turns += 1
    assert (
        turns > MANY // 32
    )  # elements a step; there are two steps a slice, and each row is read, looked at and written
    assert [row.error_code for row in asked.response.results] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * MANY


@pytest.mark.slow
def test_large_requests_take_turns(node: HandlerBroker) -> None:
    loop = Loop(node)
    long, short = loop.ask(configs(4 * MANY), 4), loop.ask(configs(MANY), 4)
    short.finish()
    assert not long.replies
    long.finish()
    assert len(long.response.results) == 4 * MANY


def test_all_share_one_millisecond_of_a_turn(node: HandlerBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(node)
    for _ in range(10):
        loop.ask(configs(), 4)
    advance, advanced = Running.advance, []

    def note(running: Running[Any], answer: object, *, at_once: bool = True) -> None:
        advanced.append(running)
        advance(running, answer, at_once=at_once)

    monkeypatch.setattr(Running, "advance", note)
    loop.turn()
    loop.turn()
    assert len(advanced) == len(set(advanced)) == 2 * SLICE_MS / LOOK_MS  # each step is another request's


def test_a_large_request_that_is_quick_is_answered_at_once(node: HandlerBroker) -> None:
    assert len(frame(configs(), 4)) > 1 << 13
    loop = Loop(node)
    del node.time.clock.monotonic_ms  # time stands still
    assert loop.ask(configs(), 4).parked is None


@pytest.mark.slow
def test_a_client_that_is_gone_leaves_nothing(node: HandlerBroker) -> None:
    loop = Loop(node)
    asked = loop.ask(configs(), 4)
    for _ in range(3):
        loop.turn()
    assert len(node.services.tasks.sliced) == 1
    assert asked.parked is not None
    asked.parked.abandon()
    asked.parked = None
    for _ in range(3):
        loop.turn()
    assert not node.services.tasks.sliced
    assert not asked.replies
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, ParkedRequest)]


def test_malformed_bytes_end_the_connection_also_in_a_later_slice(node: HandlerBroker) -> None:
    loop = Loop(node)
    replies: list[Any] = []
    cut = bytearray(frame(configs(), 4))[:-40]
    loop.dispatcher.dispatch(memoryview(cut), node.client, replies.append)
    while not replies:
        loop.turn()
    (fault,) = replies
    assert isinstance(fault, CloseConnection)
    assert "DescribeConfigsRequest v4, at byte" in str(fault)


def test_steps_of_a_handler_may_fail(node: HandlerBroker) -> None:
    def steps(request: object, context: object) -> Steps[FindCoordinatorResponse]:
        for _ in range(20):
            yield
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    loop = Loop(node)
    handled_by(loop, steps)
    asked = loop.ask(FIND, 1)
    assert asked.finish() > 1
    assert asked.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_steps_of_a_handler_may_end_in_a_wait(node: HandlerBroker) -> None:
    wait_list = WaitList()
    found = FindCoordinatorResponse(node_id=9)

    def steps(request: object, context: object) -> Task[FindCoordinatorResponse]:
        yield PAUSE
        yield Changes([wait_list])
        return found

    loop = Loop(node)
    handled_by(loop, steps)
    asked, gone = loop.ask(FIND, 1), loop.ask(FIND, 1)
    for _ in range(5):
        loop.turn()
    assert gone.parked is not None
    gone.parked.abandon()
    node.services.tasks.touch(wait_list)
    asked.finish()
    assert asked.response.node_id == 9
    assert not gone.replies
    assert len(node.services.tasks) == 0


def test_a_stop_answers_what_waits_and_drops_no_steps(node: HandlerBroker) -> None:
    loop = Loop(node)
    asked = loop.ask(configs(), 4)
    loop.turn()
    node.services.tasks.expire_all()
    asked.finish()  # while the connections have their time to drain
    assert len(asked.response.results) == MANY


@pytest.fixture
def topics(node: HandlerBroker) -> HandlerBroker:
    for number in range(MANY):
        node.services.metadata.create_topic(f"{NAME}{number}", 1)
    return node


@pytest.mark.slow
def test_clients_that_ask_the_same_share_one_making(topics: HandlerBroker) -> None:
    loop = Loop(topics)
    for request in (metadata(), MetadataRequest(None, False)):
        asked = [loop.ask(request, 9) for _ in range(20)]
        assert len(topics.services.tasks.sliced) == 1
        asked[0].finish()
        for one in asked:
            assert [topic.error_code for topic in one.response.topics] == [0] * MANY
        kept = loop.ask(request, 9)
        assert kept.parked is None
        assert kept.response == asked[0].response


@pytest.mark.slow
def test_who_shares_goes_on_when_the_first_is_gone(topics: HandlerBroker) -> None:
    loop = Loop(topics)
    first, second, third = (loop.ask(metadata(), 9) for _ in range(3))
    for gone in (first, third):
        assert gone.parked is not None
        gone.parked.abandon()
    second.finish()
    assert len(second.response.topics) == MANY
    assert not first.replies
    assert not third.replies
    alone = loop.ask(MetadataRequest(None, False), 9)
    shared = loop.ask(MetadataRequest(None, False), 9)
    for gone in (alone, shared):
        assert gone.parked is not None
        gone.parked.abandon()
    loop.turn()
    assert not topics.services.tasks.sliced


@pytest.mark.slow
def test_an_answer_is_of_one_image(topics: HandlerBroker) -> None:
    """Topics that change while it is written are told as they were, and who asks then is told the new ones."""
    loop = Loop(topics)
    asked = loop.ask(MetadataRequest(None, False), 9)
    loop.turn()
    topics.services.metadata.create_partitions(f"{NAME}{MANY - 1}", 3)
    topics.services.metadata.delete_topic(f"{NAME}{MANY - 2}")
    later = loop.ask(MetadataRequest(None, False), 9)
    assert not asked.replies
    asked.finish()
    later.finish()
    assert [len(topic.partitions) for topic in asked.response.topics] == [1] * MANY
    assert [len(topic.partitions) for topic in later.response.topics] == [1] * (MANY - 2) + [3]
    assert len(loop.ask(MetadataRequest(None, False), 9).response.topics) == MANY - 1


@pytest.mark.slow
def test_settings_are_of_one_image(topics: HandlerBroker) -> None:
    names = [f"{NAME}{number}" for number in range(MANY)]
    loop = Loop(topics)
    request = DescribeConfigsRequest([DescribeConfigsResource(TOPIC, name, ["retention.ms"]) for name in names])
    asked = loop.ask(request, 4)
    for _ in range(12):  # it was read, and is being written
        loop.turn()
    assert not asked.replies
    metadata = topics.services.metadata
    metadata.change_topic_configs(names[-1], {"retention.ms": "5"})
    metadata.change_broker_configs(None, {"log.retention.ms": "7"})
    asked.finish()
    values = {row.configs[0].value for row in asked.response.results}
    assert values == {"604800000"}
    again = loop.ask(request, 4)
    again.finish()
    assert [row.configs[0].value for row in again.response.results] == ["7"] * (MANY - 1) + ["5"]


@pytest.mark.slow
def test_topics_are_made_and_told_in_steps(node: HandlerBroker) -> None:
    """Checked, made one by one, and their settings told: others come in between all the way."""
    loop = Loop(node)
    topics = [CreatableTopic(f"{NAME}{number}", 1, 1) for number in range(MANY)]
    asked = loop.ask(CreateTopicsRequest(topics, 60_000), 7)
    seen = [0]
    while not asked.replies:
        loop.ask_a_bystander()
        loop.turn()
        seen.append(len(node.services.metadata.image.topics))
    assert max(after - before for before, after in pairwise(seen)) <= 2
    assert seen.count(MANY) > MANY * len(asked.response.topics[0].configs) // 32 // 2
    assert [topic.error_code for topic in asked.response.topics] == [0] * MANY


@pytest.mark.slow
def test_settings_are_changed_in_steps(topics: HandlerBroker) -> None:
    loop = Loop(topics)
    resources = [
        AlterConfigsResource(TOPIC, f"{NAME}{number}", [AlterableConfig("retention.ms", 0, "5")])
        for number in range(MANY)
    ]
    asked = loop.ask(IncrementalAlterConfigsRequest(resources), 1)
    assert asked.finish() > MANY // 2
    assert [row.error_code for row in asked.response.responses] == [0] * MANY


@pytest.mark.slow
@pytest.mark.parametrize(
    "request_, version, turns",
    [
        (ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)] * 600)]), 5, 30),
        (DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 0)] * 800)], 1_000), 1, 30),
        (ElectLeadersRequest(0, [TopicPartitions("t", [0] * 2_100)], 1_000), 1, 30),
        (DescribeProducersRequest([TopicRequest("t", list(range(2_100)))]), 0, 30),
        (FindCoordinatorRequest(key_type=1, coordinator_keys=["a-transaction"] * 600), 4, 15),
        (DescribeLogDirsRequest(None), 1, 3),
        (DescribeTopicPartitionsRequest([]), 0, 3),
        (MetadataRequest(None, False), 9, 3),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Message) else "",
)
def test_many_rows_are_made_in_steps(node: HandlerBroker, request_: Message, version: int, turns: int) -> None:
    metadata = node.services.metadata
    metadata.create_topic("t", 100)
    told = {f"{NAME}{number}": metadata.image.topics["t"] for number in range(100)}  # the image alone knows of them
    metadata.image = metadata.image._replace(topics={**metadata.image.topics, **told})
    loop = Loop(node)
    asked = loop.ask(request_, version)
    loop.ask_a_bystander()
    assert asked.finish() > turns
    assert asked.response is not None
