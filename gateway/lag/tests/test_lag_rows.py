"""The rows of a survey: what is known of each partition, and of a group as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from headgate.gateway.lag.commit_windows import CommitWindows
from headgate.gateway.lag.lag_rows import SurveyFacts, find_ends, measure_groups, note_windows, unread_positions
from headgate.gateway.lag.partition_ends import Ends, SurveyedEnds
from headgate.gateway.lag.readers import NO_SUCH_PARTITION, UNKNOWN, Committed, GroupLag, GroupReading, OwningMember
from headgate.gateway.lag.unread_times import UnreadPosition, UnreadTimes
from headgate.protocol.lag.verdicts import Verdict
from headgate.protocol.steps import finish

NOW_MS = 100_000
OWNER = OwningMember("m-1", "m", "/192.0.2.1")


class KnownEnds(SurveyedEnds):
    """Ends by topic and partition; None: the partition exists, and its leader has not answered."""

    def __init__(self, known: dict[tuple[str, int], Ends | None]) -> None:
        self.known = known

    def exists(self, topic: str, index: int) -> bool:
        return (topic, index) in self.known

    def find(self, topic: str, index: int) -> Ends | None:
        return self.known.get((topic, index))


class KnownTimes(UnreadTimes):
    def __init__(self, known: dict[UnreadPosition, int]) -> None:
        self.known = known

    def find(self, position: UnreadPosition) -> int | None:
        return self.known.get(position)


def measured(*readings: GroupReading, stable_end: int = 20) -> list[GroupLag]:
    """The groups over t-0 from 10 to 20, and t-1 whose leader is silent; the time of offset 15 is known."""
    ends = KnownEnds({("t", 0): Ends(10, 20, stable_end, 3), ("t", 1): None})
    windows = CommitWindows()
    finish(find_ends(readings, ends))
    finish(note_windows(readings, ends, windows, NOW_MS))
    known = KnownTimes({UnreadPosition("t", 0, 15): NOW_MS - 2_500})
    facts = SurveyFacts(ends, known, windows, {UnreadPosition("t", 0, 19): None}, NOW_MS, 10_000)
    return finish(measure_groups(readings, facts))


def reading(*offsets: tuple[str, int, int], **options: Any) -> GroupReading:
    made = GroupReading("g", "classic", "Stable", **options)
    for topic, index, offset in offsets:
        made.offsets.setdefault(topic, {})[index] = Committed(offset, NOW_MS)
    return made


def test_lag_in_one_partition() -> None:
    (group,) = measured(reading(("t", 0, 15), owners={("t", 0): OWNER}))
    assert group.partitions[0] == (
        "t", 0, Committed(15, NOW_MS), 10, 20, 5, 2.5, "ok", Verdict.OK, 3, OWNER, 20,
    )  # fmt: skip
    assert group[3:] == (None, 5, 2.5, Verdict.OK, None, group.partitions)


def test_a_silent_leader_hides_lag_and_no_other() -> None:
    """What is not known is None, and no part of a sum."""
    (group,) = measured(reading(("t", 1, 5), ("t", 0, 15)))
    assert [row[5:9] for row in group.partitions] == [(5, 2.5, "ok", Verdict.OK), (None, None, UNKNOWN, None)]
    assert (group.records, group.seconds) == (5, 2.5)


def test_a_partition_that_is_gone_has_no_lag() -> None:
    (group,) = measured(reading(("gone", 0, 5)))
    assert group.partitions[0][2:9] == (Committed(5, NOW_MS), None, None, None, None, NO_SUCH_PARTITION, None)
    assert (group.records, group.seconds, group.verdict) == (None, None, None)


def test_an_owner_without_an_offset_has_a_row() -> None:
    (group,) = measured(reading(owners={("t", 0): OWNER}))
    assert group.partitions[0][2:9] == (None, 10, 20, None, None, "no offset", None)
    assert group.partitions[0].owner == OWNER


@pytest.mark.parametrize(
    "stable_end, verdict", [(20, Verdict.STOP), (16, Verdict.STOP), (15, Verdict.OK), (12, Verdict.OK)]
)
def test_a_group_at_the_stable_end_has_not_stopped(stable_end: int, verdict: Verdict) -> None:
    """Under read_committed a group cannot pass an open transaction; its lag counts to the end all the same."""
    made = GroupReading("g", "classic", "Stable", offsets={"t": {0: Committed(15, NOW_MS - 60_000)}})
    (group,) = measured(made, stable_end=stable_end)
    assert (group.records, group.seconds, group.verdict) == (5, 2.5, verdict)


def test_an_unknown_time_is_no_age() -> None:
    (group,) = measured(reading(("t", 0, 16)))
    assert (group.records, group.seconds) == (4, None)


def test_markers_alone_have_no_age() -> None:
    (group,) = measured(reading(("t", 0, 19)))
    assert (group.records, group.seconds) == (1, 0.0)


def test_a_reading_that_failed_is_named() -> None:
    (group,) = measured(GroupReading("spark:a", "spark", error="it is gone"))
    assert group == ("spark:a", "spark", "", None, None, None, None, "it is gone", [])


def test_groups_and_partitions_are_sorted() -> None:
    groups = measured(GroupReading("b", "classic"), reading(("t", 1, 1), ("t", 0, 1)), GroupReading("a", "spark"))
    assert [group.name for group in groups] == ["a", "b", "g"]
    assert [row.partition for row in groups[2].partitions] == [0, 1]


def test_only_unread_partitions_are_looked_up() -> None:
    readings = [reading(("t", 0, 20), ("t", 1, 5), ("gone", 0, 1)), reading(("t", 0, 3))]
    ends = KnownEnds({("t", 0): Ends(10, 20, 20, 3), ("t", 1): None})
    assert finish(unread_positions(readings, ends)) == {UnreadPosition("t", 0, 10): 20}
