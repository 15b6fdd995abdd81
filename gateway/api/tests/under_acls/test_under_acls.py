"""Clients with any ACLs are answered as by Kafka 4.1 and 3.9, field by field; see `scenario`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.gateway.api.tests.under_acls.dispatching_broker import DispatchingBroker
from headgate.gateway.api.tests.under_acls.scenario import (
    MEMBERS,
    Answers,
    Scenario,
    parse,
    question_name,
    questions,
    text,
)
from headgate.protocol.tests.examples import first_in_unit

pytestmark = pytest.mark.slow

KAFKAS = ("41", "39", "39_zookeeper")
HERE = Path(__file__).parent


class Difference(NamedTuple):
    """Answers that differ on purpose: of a question, in some versions, by some Kafkas.

    `text`, `ours`: what differs alone, Kafka's part of an answer as a pattern, and ours; by default anything may.
    """

    question: str
    reason: str
    first: int = 0
    last: int = 99
    kafkas: tuple[str, ...] = KAFKAS
    text: str = ""
    ours: str = ""

    def has(self, kafka: str, name: str, version: int) -> bool:
        return name.startswith(self.question) and self.first <= version <= self.last and kafka in self.kafkas

    def left(self, pairs: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
        """The pairs of answers, Kafka's and ours, that differ otherwise too."""
        if not self.text:
            return {}
        return {client: pair for client, pair in pairs.items() if re.sub(self.text, self.ours, pair[0]) != pair[1]}


OLDER = KAFKAS[1:]
ZOOKEEPER = KAFKAS[2:]
DIFFERENCES = [
    Difference(
        "Produce: in no transaction",
        "Kafka has no sentence for a batch without a transactional id",
        8,
        text=r"TRANSACTIONAL_ID_AUTHORIZATION_FAILED\)",
        ours="TRANSACTIONAL_ID_AUTHORIZATION_FAILED error_message='the batch of a transaction needs a request with a"
        " transactional id')",
    ),
    Difference("Fetch: of a consumer", "3.9 fills converted sets up to the size of the batches", 0, 3, OLDER),
    Difference(
        "Fetch: of a follower",
        "a follower that sends no leader epoch is a broker of before KIP-320",
        0,
        8,
        text="NOT_LEADER_OR_FOLLOWER",
        ours="UNKNOWN_LEADER_EPOCH",
    ),
    Difference(
        "Fetch: of a follower",
        "an id of no topic is unknown to everybody, also to a denied follower",
        13,
        text=r"topic_id=unknown partitions=\[\(error_code=TOPIC_AUTHORIZATION_FAILED",
        ours="topic_id=unknown partitions=[(error_code=UNKNOWN_TOPIC_ID",
    ),
    Difference("ConsumerGroupHeartbeat", "3.9 has the protocol switched off", kafkas=OLDER),
    Difference("ConsumerGroupDescribe", "3.9 has the protocol switched off", kafkas=OLDER),
    Difference("OffsetFetch: g", "3.9 answers a denied request without a word", 1, 1, OLDER),
    Difference("OffsetFetch: h", "3.9 answers a denied request without a word", 1, 1, OLDER),
    Difference("DescribeGroups: with operations", "3.9 knows no operations on configs of groups", kafkas=OLDER),
    Difference(
        "CreateTopics: checked",
        "KRaft makes an id up for a topic that it does not create",
        7,
        kafkas=KAFKAS[:2],
        text=" topic_id=unknown",
    ),
    Difference("DescribeConfigs: groups too", "3.9 knows no configs of groups", kafkas=OLDER),
    Difference("IncrementalAlterConfigs: groups, checked", "3.9 knows no configs of groups", kafkas=OLDER),
    Difference("CreateTopics: created", "with ZooKeeper denied topics have denied configs too", 7, 7, ZOOKEEPER),
    Difference("CreateTopics: checked", "with ZooKeeper denied topics have denied configs too", 5, 7, ZOOKEEPER),
    Difference(
        "DeleteTopics", "with ZooKeeper Delete of the cluster is none of its topics, and hides more", kafkas=ZOOKEEPER
    ),
    Difference("CreatePartitions", "with ZooKeeper denials have a sentence that KRaft has not", kafkas=ZOOKEEPER),
    Difference("AlterPartitionReassignments", "with ZooKeeper no topic is as good as any", kafkas=ZOOKEEPER),
    Difference(
        "DescribeUserScramCredentials",
        "Kafka adds a row of no user to a denial",
        text=r" results=\[\(error_code=CLUSTER_AUTHORIZATION_FAILED\)\]",
    ),
    Difference("UpdateFeatures", "3.9 has the error in rows, 4.1 has one for all", 0, 1, OLDER),
]


def newest_versions() -> set[tuple[str, int]]:
    return {(question_name(question, {}), [*question.versions][-1]) for question in questions()}


def changing_versions() -> set[tuple[str, int]]:
    """The first versions of the lines of files: before each, some Kafka answered otherwise."""
    lines = [line.split("\t") for kafka in KAFKAS for line in lines_of(kafka)]
    return {(name, int(versions.partition("-")[0])) for name, versions, *_ in lines} - newest_versions()


ASKED: Mapping[str, Callable[[], set[tuple[str, int]] | None]] = {
    "newest versions": newest_versions,
    "changing versions": changing_versions,
    "all versions": lambda: None,
}


@pytest.fixture(scope="module", params=first_in_unit(ASKED, some=2))
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Answers]:
    broker = DispatchingBroker(tmp_path_factory.mktemp("data"))
    scenario = Scenario(broker)
    scenario.play(ASKED[request.param]())
    yield scenario.answers
    broker.node.close()


def lines_of(kafka: str) -> list[str]:
    return (HERE / f"answers_of_kafka{kafka}.txt").read_text().splitlines()


@cache
def recorded_answers(kafka: str) -> Answers:
    return parse(lines_of(kafka))


@pytest.mark.parametrize("kafka", KAFKAS)
def test_the_answers_are_those_of_kafka(answers: Answers, kafka: str) -> None:
    recorded = recorded_answers(kafka)
    compared = recorded.keys() & answers.keys()
    assert len(compared) > 60
    different = {key: pairs for key in compared if (pairs := pairs_of(recorded[key], answers[key]))}
    expected = {key: each for key in compared for each in DIFFERENCES if each.has(kafka, *key)}
    assert expected.keys() <= different.keys(), "an answer that differed on purpose is Kafka's by now"
    unexpected = {key: expected[key].left(pairs) if key in expected else pairs for key, pairs in different.items()}
    assert {key: pairs for key, pairs in unexpected.items() if pairs} == {}


def pairs_of(recorded: dict[str, str], answers: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Kafka's answer and ours, where they differ, by client."""
    return {client: (line, answers[client]) for client, line in recorded.items() if answers[client] != line}


def test_every_recorded_question_is_asked() -> None:
    asked = {name: {1} for name in MEMBERS}
    for question in questions():
        asked.setdefault(question_name(question, {}), set()).update(question.versions)
    for kafka in KAFKAS:
        for name, version in recorded_answers(kafka):
            assert version in asked[name]


@pytest.mark.parametrize("kafka", KAFKAS)
def test_a_file_says_what_each_client_was_answered(kafka: str) -> None:
    assert [*text(recorded_answers(kafka))] == lines_of(kafka)
