"""CreateAcls, DeleteAcls and DescribeAcls answer as Kafka 4.1 does, and in version 0 as 3.9; see `acls_scenario`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.gateway.api.tests.like_kafka.acls_scenario import ANY, MATCH, REFUSED, SETTINGS, VERSIONS, play
from headgate.gateway.tests.builders import HandlerBroker

pytestmark = pytest.mark.slow


def recorded(version: str) -> dict[str, str]:
    lines = (Path(__file__).parent / f"acls_of_kafka{version}.txt").read_text().splitlines()
    return dict(line.split("\t") for line in lines)


KAFKAS = {**recorded("39"), **recorded("41")}

# What differs on purpose: the question, and the reason
DIFFERENT = {
    f"v{version} create, refused {number}": "Kafka fails at ANY and MATCH, with UNKNOWN_SERVER_ERROR and no sentence"
    for version in VERSIONS
    for number, creation in enumerate(REFUSED)
    if ANY in (creation.resource_type, creation.operation, creation.permission_type)
    or (version and creation.resource_pattern_type in (ANY, MATCH))
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    node = HandlerBroker(tmp_path_factory.mktemp("data"), **settings)
    yield play(node)
    node.close()


def test_every_question_was_answered_by_kafka(answers: dict[str, str]) -> None:
    assert answers.keys() == KAFKAS.keys()


def test_the_answers_are_those_of_kafka(answers: dict[str, str]) -> None:
    different = {label: (answers[label], line) for label, line in KAFKAS.items() if answers[label] != line}
    assert {label: both for label, both in different.items() if label not in DIFFERENT} == {}
    assert different.keys() >= DIFFERENT.keys()
