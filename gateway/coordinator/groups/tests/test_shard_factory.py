"""Each type of record has a protocol that replays it."""

import pytest

from headgate.gateway.coordinator.groups.shard_factory import REPLAYS
from headgate.gateway.coordinator.groups.tests.groups import Desk
from headgate.protocol.internal.offsets import (
    RECORDS,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from headgate.protocol.schema import Message

COMMITTED = OffsetCommitValue(7, -1, "", 1)


@pytest.mark.parametrize(
    "key, value, kind",
    [
        (OffsetCommitKey("g", "t", 0), COMMITTED, "classic"),
        (GroupMetadataKey("g"), GroupMetadataValue("consumer", 1), "classic"),
        (ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(1), "consumer"),
    ],
)
def test_each_record_has_its_machine(key: Message, value: Message, kind: str) -> None:
    shard = Desk().shard
    shard.replay(key, value, 1)
    assert shard.groups["g"].kind == kind


def test_no_type_of_record_is_forgotten() -> None:
    assert {key for key, _ in RECORDS.values()} == {OffsetCommitKey, *REPLAYS}
