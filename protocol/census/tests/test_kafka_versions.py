"""The table of the versions that releases of Kafka serve."""

from __future__ import annotations

import pytest

from headgate.protocol.census import kafka_versions
from headgate.protocol.census.kafka_versions import UnknownRelease
from headgate.protocol.schema import Versions


@pytest.mark.parametrize(
    "text, release", [("4.1", "4.1"), ("4.1.2", "4.1"), ("v3.9", "3.9"), (" 4.0.0 ", "4.0.0"), ("4.0.1", "4.0")]
)
def test_a_release_is_found_by_its_number(text: str, release: str) -> None:
    assert kafka_versions.find(text) == release


@pytest.mark.parametrize("text", ["", "5.0", "4", "newest", "0.10.2"])
def test_an_unknown_release_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(UnknownRelease, match=r"is no known release of Kafka; these are known: 2.3, .*, 4.4"):
        kafka_versions.find(text)


def test_the_newest_release_is_the_last_one() -> None:
    assert kafka_versions.newest() == kafka_versions.RELEASES[-1]


def test_a_change_counts_until_the_next_one() -> None:
    fetch = [kafka_versions.release(name)[1] for name in ("2.3", "2.6", "2.7", "3.9", "4.0.0", "4.0", "4.1")]
    assert fetch == [Versions(*pair) for pair in ((0, 11), (0, 11), (0, 12), (0, 17), (4, 17), (4, 17), (4, 18))]


def test_an_api_is_left_out_before_and_after_its_time() -> None:
    leader_and_isr, share_fetch = 4, 78
    assert leader_and_isr in kafka_versions.release("3.9")
    assert leader_and_isr not in kafka_versions.release("4.0")
    assert share_fetch not in kafka_versions.release("4.0")
    assert share_fetch in kafka_versions.release("4.1")
