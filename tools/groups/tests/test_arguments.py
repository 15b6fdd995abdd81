"""Where offsets are to go: what is understood, and what is said of the rest."""

import pytest

from headgate.protocol.messages.list_offsets import EARLIEST, LATEST
from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.arguments import Offset, Time, parse_csv, parse_target
from headgate.tools.output import UsageError

NOW_MS = 1_800_000_000_000  # 2027-01-15T08:00:00Z
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    "text, expected",
    [
        ("earliest", Time(EARLIEST)),
        ("latest", Time(LATEST)),
        ("0", Offset(0)),
        ("4711", Offset(4711)),
        ("9223372036854775807", Offset((1 << 63) - 1)),
        ("2027-01-15T07:00:00Z", Time(NOW_MS - HOUR_MS)),
        ("2027-01-15T07:00", Time(NOW_MS - HOUR_MS)),  # UTC
        ("2027-01-15T07:00:00.250", Time(NOW_MS - HOUR_MS + 250)),
        ("2027-01-15T08:00+01:00", Time(NOW_MS - HOUR_MS)),
        ("2027-01-15T08:00:00", Time(NOW_MS)),
        ("2027-01-14", Time(NOW_MS - 32 * HOUR_MS)),
        ("90s", Time(NOW_MS - 90_000)),
        ("250ms", Time(NOW_MS - 250)),
        ("15m", Time(NOW_MS - 15 * 60_000)),
        ("1.5h", Time(NOW_MS - 3 * HOUR_MS // 2)),
        ("7d", Time(NOW_MS - 7 * 24 * HOUR_MS)),
        ("2w", Time(NOW_MS - 14 * 24 * HOUR_MS)),
        ("PT1H30M", Time(NOW_MS - 3 * HOUR_MS // 2)),
        ("P1DT2H", Time(NOW_MS - 26 * HOUR_MS)),
        ("P1W", Time(NOW_MS - 7 * 24 * HOUR_MS)),
        ("PT0.5S", Time(NOW_MS - 500)),
    ],
)
def test_a_target_is_parsed(text: str, expected: Offset | Time) -> None:
    assert parse_target(text, NOW_MS) == expected


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "is no target of a reset; write earliest, latest, an offset"),
        ("erliest", "is no target of a reset"),
        ("-5", "is no target of a reset"),
        ("P", "is no target of a reset"),
        ("PT", "is no target of a reset"),
        ("5 h", "is no target of a reset"),
        ("\u0665", "is no target of a reset"),  # a digit elsewhere
        ("2027-13-01", "is no target of a reset"),
        ("9223372036854775808", "is no offset; write a whole number from 0 on"),
        ("9" * 5000, "is no offset"),
        ("2027-01-15T08:00:01", "is in the future; write latest for the end of the partitions"),
        ("1960-01-01", "is before 1970"),
        ("99999d", "is before 1970"),
    ],
)
def test_a_wrong_target_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_target(text, NOW_MS)


def test_a_csv_file_of_kafkas_tool_is_read() -> None:
    expected = {TopicPartition("a", 0): Offset(5), TopicPartition("b", 12): Offset(0)}
    assert parse_csv(["a,0,5", "", 'b, 12,"0"'], "g") == expected
    assert parse_csv(["g,a,0,5", '"g","b","12","0"'], "g") == expected


@pytest.mark.parametrize(
    "lines, sentence",
    [
        ([], "the file has no line with topic,partition,offset"),
        (["a,0"], "line 1: there are 2 fields; write topic,partition,offset"),
        (["a,0,1", "a,x,1"], "line 2: 'x': 'x' is no partition"),
        (["a,0,-1"], "line 1: '-1' is no offset"),
        (["a,0,1", "a,0,1"], "line 2: a-0 stands in the file twice"),
        (["h,a,0,1"], "line 1: this is for group 'h', not for 'g'; nothing is taken from the file"),
    ],
)
def test_a_wrong_csv_file_is_refused(lines: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        parse_csv(lines, "g")
