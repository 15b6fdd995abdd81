"""OffsetCommit 0 and OffsetFetch 0 of groups with separate stores."""

from headgate.gateway.tests.requests import commit_request
from headgate.gateway.zookeeper.offsets.tests.two_stores import TwoStores
from headgate.gateway.zookeeper.tests.model import Fault
from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headgate.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_each_partition_has_a_result() -> None:
    stores = TwoStores()
    rows = [
        OffsetCommitRequestPartition(0, 41, committed_metadata="a note"),
        OffsetCommitRequestPartition(1, 42, committed_metadata="m" * 5_000),
        OffsetCommitRequestPartition(9, 43, committed_metadata=None),
    ]
    topics = [
        OffsetCommitRequestTopic("t", partitions=rows),
        OffsetCommitRequestTopic("u", partitions=[OffsetCommitRequestPartition(0, 1)]),
    ]
    heard = stores.put(lambda: stores.broker.stores.commit_zero(OffsetCommitRequest("g", topics=topics)))
    stores.run()
    codes = [[row.error_code for row in topic.partitions] for topic in heard[0].topics]
    assert codes == [[ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, UNKNOWN], [UNKNOWN]]
    assert (stores.in_zookeeper(0), stores.in_zookeeper(1)) == (41, None)


def test_a_fetch_has_what_is_there() -> None:
    stores = TwoStores()
    stores.write(41)
    stores.write(b"forty-one", 1)
    request = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", [0, 1, 2, 9]), OffsetFetchRequestTopic("u", [0])])
    heard = stores.put(lambda: stores.broker.stores.fetch_zero(request))
    stores.run()
    rows = [[(row.committed_offset, row.error_code) for row in topic.partitions] for topic in heard[0].topics]
    assert rows == [[(41, 0), (-1, ErrorCode.UNKNOWN_SERVER_ERROR), (-1, UNKNOWN), (-1, UNKNOWN)], [(-1, UNKNOWN)]]


def test_a_commit_goes_over_what_others_wrote() -> None:
    stores = TwoStores()
    for offset in (41, 7):
        stores.write(100)
        assert stores.committed(offset, version=0) == ErrorCode.NONE
        assert stores.in_zookeeper() == offset


def test_a_group_that_cannot_be_in_zookeeper() -> None:
    stores = TwoStores()
    heard = stores.put(lambda: stores.broker.stores.commit_zero(commit_request("a/b", {0: 41})))
    stores.run()
    (response,) = heard
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID
    fetch = OffsetFetchRequest("a/b", [OffsetFetchRequestTopic("t", [0])])
    heard = stores.put(lambda: stores.broker.stores.fetch_zero(fetch))
    stores.run()
    (response,) = heard
    row = response.topics[0].partitions[0]
    assert (row.committed_offset, row.error_code) == (-1, ErrorCode.UNKNOWN_SERVER_ERROR)


def test_the_connection_is_lost() -> None:
    stores = TwoStores()
    stores.broker.session.faults.extend([None, None, None, None, Fault.BEFORE])
    assert stores.committed(41, version=0) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    (answer,) = stores.fetch(version=0)
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_without_topics_a_fetch_has_all_nodes() -> None:
    stores = TwoStores()
    stores.write(41)
    stores.write(42, 2)
    heard = stores.put(lambda: stores.broker.stores.fetch_zero(OffsetFetchRequest("g", [])))
    stores.run()
    (topic,) = heard[0].topics
    assert [(row.partition_index, row.committed_offset) for row in topic.partitions] == [(0, 41), (2, 42)]
