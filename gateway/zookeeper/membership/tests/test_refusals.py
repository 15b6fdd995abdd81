"""Each sentence says what is wrong, where, and what to do."""

import pytest

from headgate.gateway.zookeeper.membership import refusals
from headgate.gateway.zookeeper.membership.tests.member import ADDRESS, OWNER
from headgate.gateway.zookeeper.requests import Failed, Lost
from headgate.gateway.zookeeper.session import KeeperError

AT = "zk:2181/kafka"
REFUSALS = [
    refusals.no_answer(AT, 1_500),
    refusals.no_end(AT, 18_000, "the id"),
    refusals.other_cluster(AT, "A", "/data", "B"),
    refusals.no_cluster(AT, "/data", "B", 7),
    refusals.embedded_log(AT, "/data"),
    refusals.kraft_directory(AT, "/data"),
    refusals.id_in_use(AT, 0, ADDRESS, OWNER, 5),
    refusals.migrated(AT, 3),
    refusals.unwritable(AT, "the node /x", "NO_AUTH"),
    refusals.not_registered(AT, 0, 5_000, "no connection"),
    refusals.lives_on(AT, 0, OWNER),
    refusals.lost_cluster(AT, "A"),
    refusals.changed_cluster(AT, "A", "B"),
    refusals.outdated(AT),
    refusals.unresolved(AT, 18_000, ["zk"]),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: str(one)[:20])
def test_a_refusal_is_one_sentence_with_the_place(refusal: refusals.ZooKeeperRefusal) -> None:
    text = str(refusal)
    assert AT in text
    assert "\n" not in text
    assert ". " not in text
    assert 80 < len(text) < 380


def test_the_phrase_of_kafka() -> None:
    assert "doesn't match stored clusterId B" in str(REFUSALS[2])


def test_a_lost_connection_is_no_refusal() -> None:
    lost = Lost("/x", KeeperError.CONNECTION_LOSS)
    assert refusals.of_failure(AT, "a write", lost) is lost
    assert "refused a write with NO_AUTH" in str(refusals.of_failure(AT, "a write", Failed("/x", KeeperError.NO_AUTH)))


def test_a_time_is_in_utc() -> None:
    assert "since 1970-01-01 00:00:00 UTC" in str(refusals.id_in_use(AT, 1, None, None, 5))
