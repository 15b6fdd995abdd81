"""The text of ExportZkOffsets: as Kafka 0.8.2.2 writes it, a round trip, and every wrong line."""

import pytest

from headgate.protocol.topic_partition import TopicPartition
from headgate.tools.groups.offsets import OffsetAndMetadata
from headgate.tools.groups.zookeeper_text import build_text, is_zookeeper_text, parse_text
from headgate.tools.output import UsageError

ORDERS_0 = TopicPartition("orders", 0)
TEXT = """/consumers/billing/offsets/orders/0:1000
/consumers/billing/offsets/orders/10:7
/consumers/re:ports/offsets/orders/0:0"""
OFFSETS = {
    "billing": {
        TopicPartition("orders", 0): OffsetAndMetadata(1000),
        TopicPartition("orders", 10): OffsetAndMetadata(7),
    },
    "re:ports": {TopicPartition("orders", 0): OffsetAndMetadata(0)},
}


def test_the_text_is_that_of_kafka() -> None:
    assert build_text(OFFSETS) == TEXT
    assert parse_text(TEXT, []) == OFFSETS


def test_blank_lines_and_line_ends_of_windows_are_read() -> None:
    assert parse_text("\n" + TEXT.replace("\n", "\r\n\r\n") + "\r\n", []) == OFFSETS


def test_only_the_wanted_groups_are_read() -> None:
    assert parse_text(TEXT, ["billing"]) == {"billing": OFFSETS["billing"]}
    with pytest.raises(UsageError, match="the file has no group 'x'; it has billing, re:ports"):
        parse_text(TEXT, ["x", "billing"])


@pytest.mark.parametrize(
    "line, reason",
    [
        ("/consumers/g/offsets/t/0", "is not /consumers/<group>/offsets/<topic>/<partition>:<offset>"),
        ("/consumers/g/owners/t/0:1", "is not /consumers/"),
        ("/consumers//offsets/t/0:1", "is not /consumers/"),
        ("/consumers/g/offsets/t?/0:1", "is not /consumers/"),
        ("g,t,0,1", "is not /consumers/"),
        ("/consumers/g/offsets/t/0:-1", "'-1' is no offset"),
        ("/consumers/g/offsets/t/0:", "'' is no offset"),
        ("/consumers/g/offsets/t/0:9223372036854775808", "is no offset"),
        ("/consumers/g/offsets/t/0-3:12", "'0-3' is a broker and a partition of Kafka 0.7"),
        ("/consumers/g/offsets/t/03:12", "'03' is no partition"),
        ("/consumers/g/offsets/t/2147483648:12", "'2147483648' is no partition"),
        ("/consumers/g/offsets/t/:12", "'' is no partition"),
        ("/consumers/billing/offsets/orders/0:12", "orders-0 of group billing stands in the file twice"),
    ],
)
def test_a_wrong_line_is_named(line: str, reason: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_text(f"{TEXT}\n\n{line}", [])
    assert str(raised.value).startswith("line 5: ")
    assert reason in str(raised.value)


def test_a_group_with_a_slash_is_refused() -> None:
    with pytest.raises(UsageError, match="group 'a/b' cannot be in ZooKeeper"):
        build_text({"a/b": {}, **OFFSETS})


def test_the_text_is_told_from_json() -> None:
    assert is_zookeeper_text("\n" + TEXT)
    assert not is_zookeeper_text('{"format": 1}')
    assert not is_zookeeper_text("")
