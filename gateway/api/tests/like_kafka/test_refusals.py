"""Refusals have Kafka's codes and sentences, as scripts look for them; `refusals_scenario` has the questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.api.tests.like_kafka.refusals_scenario import SETTINGS, play
from headgate.gateway.tests.builders import HandlerBroker

VERSIONS = ("41", "39")

# What differs on purpose: label -> a part of our answer, which stands for Kafka's, and the reason
DIFFERENT = {
    "CreateTopics: small segments": ("Value must be at least 14", "small segments stay legal, as in 3.9"),
    "CreateTopics: too long": ("is longer than the max allowed length 249", "the name is shortened"),
    "Metadata: created when asked for": ("INVALID_TOPIC_EXCEPTION | NONE | NONE", "the client fails at once, not late"),
    "CreatePartitions: too many": ("POLICY_VIOLATION Excessively large number", "Kafka fails"),
    "IncrementalAlterConfigs: a resource twice": ("Each resource must appear at most once.", "one row for both"),
    "IncrementalAlterConfigs: no such policy": (
        "Invalid value shred for configuration cleanup.policy: String",
        "the same",
    ),
    "IncrementalAlterConfigs: no such operation": ("INVALID_REQUEST operation 9 on retention.ms", "Kafka fails"),
    "IncrementalAlterConfigs: a thread too many": ("NONE", "no thread is started for it, so any number is harmless"),
    "IncrementalAlterConfigs: a setting of each listener": (
        "using the listener prefix: Set(ssl.keystore.location)",
        "Kafka names the class of a Scala set",
    ),
    "AlterConfigs: a setting of each listener": ("using the listener prefix: Set(ssl.keystore.location)", "as above"),
    "IncrementalAlterConfigs: no broker": ("Broker id must be an integer, but it is: x", "as DescribeConfigs in Kafka"),
    "IncrementalAlterConfigs: logger of another": ("Unexpected broker id, expected 1, but received 2", "one sentence"),
    "IncrementalAlterConfigs: logger of nobody": ("Broker id must not be empty", "as DescribeConfigs in Kafka"),
    "DescribeConfigs: another broker": ("Unexpected broker id, expected 1, but received 2", "one sentence"),
    "DescribeConfigs: logger of another": ("Unexpected broker id, expected 1, but received 2", "one sentence"),
    "DescribeConfigs: no type": ("Unknown resource type 0", "Kafka says that the request is malformed"),
    "DescribeConfigs: unknown type": ("Unknown resource type 3", "Kafka says that the request is malformed"),
    **{
        f"IncrementalAlterConfigs: metrics{label}": ("no client metrics are collected here", "there are none")
        for label in ("", ", unknown config", ", too small")
    },
}
# Kafka 3.9 has no settings of groups
NOT_IN_39 = ("IncrementalAlterConfigs: empty group", "IncrementalAlterConfigs: group,", "DescribeConfigs: empty group")


def recorded(version: str) -> dict[str, str]:
    text = (Path(__file__).parent / f"refusals_of_kafka{version}.txt").read_text()
    return dict(line.split("\t") for line in text.splitlines())


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    node = HandlerBroker(tmp_path_factory.mktemp("data"), **settings)
    yield play(node)
    node.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_our_refusals_have_kafkas_phrases(ours: dict[str, str], version: str) -> None:
    kafkas = recorded(version)
    missing = {}
    for label, answer in kafkas.items():
        if label in DIFFERENT or (version == "39" and label.startswith(NOT_IN_39)):
            continue
        theirs, mine = answer.split(" | "), ours[label].split(" | ")
        if len(theirs) != len(mine) or not all(map(_contains, mine, theirs)):
            missing[label] = (ours[label], answer)
    assert missing == {}


def _contains(mine: str, theirs: str) -> bool:
    code, _, message = theirs.partition(" ")
    return mine.split(" ", maxsplit=1)[0] == code and message.rstrip(".") in mine


def test_what_differs_differs_as_listed(ours: dict[str, str]) -> None:
    assert {label: ours[label] for label, (part, _) in DIFFERENT.items() if part not in ours[label]} == {}
