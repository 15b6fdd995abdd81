"""Records that raise leader epochs."""

from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.planning.leader_epochs import raise_leader_epochs, register_broker
from headgate.protocol.internal.metadata import PartitionRecord, TopicRecord

TOPIC_ID = b"t" * 16


def _image() -> Image:
    partitions = [
        PartitionRecord(partition_id=index, topic_id=TOPIC_ID, replicas=[4, 5], isr=[4], leader=4) for index in range(2)
    ]
    for partition in partitions:
        partition.leader_epoch, partition.partition_epoch = 3, 8
    return Image.empty().apply(TopicRecord(name="t", topic_id=TOPIC_ID), *partitions)


def test_records_that_raise_single_partitions() -> None:
    image = _image()
    after = image.apply_all(raise_leader_epochs(image, {("t", 1): 6, ("t", 2): 6, ("gone", 0): 0}))
    unchanged, state = after.topics["t"].partitions
    assert unchanged == image.topics["t"].partitions[0]
    assert state == unchanged._replace(leader_epoch=7, partition_epoch=9), "above what its log knows"
    (record,) = raise_leader_epochs(image, {("t", 0): -1})
    assert isinstance(record, PartitionRecord)
    assert (record.replicas, record.isr, record.leader, record.leader_epoch) == ([4, 5], [4], 4, 4)


def test_a_registration_raises_what_the_broker_leads() -> None:
    image = _image()
    record = register_broker(4, "rack", b"i" * 16, 17)
    assert (record.broker_id, record.rack, record.broker_epoch, record.fenced) == (4, "rack", 17, False)
    states = image.apply(record).topics["t"].partitions
    assert [(state.leader_epoch, state.partition_epoch) for state in states] == [(4, 9)] * 2
    other = register_broker(5, None, b"i" * 16, 18)
    assert image.apply(other).topics["t"].partitions == image.topics["t"].partitions
