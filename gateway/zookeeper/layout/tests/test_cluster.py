from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.cluster import ClusterId, Controller, ControllerEpoch, ProducerIdBlock
from headgate.gateway.zookeeper.layout.node import MAX_INT32, MAX_INT64, InvalidNode
from headgate.gateway.zookeeper.layout.tests.unread_nodes import Features

ints = st.integers(0, MAX_INT32)
longs = st.integers(0, MAX_INT64 - 1)
_unknown = st.dictionaries(st.from_regex(r"ours_[a-z]{1,3}", fullmatch=True), st.integers() | st.text(), max_size=2)


@given(st.builds(Controller, ints, longs, st.integers(-1, MAX_INT32)))
def test_controllers_round_trip(value: Controller) -> None:
    assert Controller.decode(value.encode()) == value


@given(st.builds(ControllerEpoch, ints))
def test_controller_epochs_round_trip(value: ControllerEpoch) -> None:
    assert ControllerEpoch.decode(value.encode()) == value


@given(st.builds(ClusterId, st.text()))
def test_cluster_ids_round_trip(value: ClusterId) -> None:
    assert ClusterId.decode(value.encode()) == value


@given(st.builds(lambda broker, ids: ProducerIdBlock(broker, min(ids), max(ids)), ints, st.tuples(longs, longs)))
def test_blocks_of_producer_ids_round_trip(value: ProducerIdBlock) -> None:
    assert ProducerIdBlock.decode(value.encode()) == value


@pytest.mark.slow
@given(
    st.builds(
        Features,
        st.dictionaries(st.text(max_size=9), st.integers(1, 32767)),
        st.booleans(),
        st.sampled_from([1, 2]),
        _unknown,
    )
)
def test_features_round_trip(value: Features) -> None:
    assert Features.decode(value.encode()) == value


def test_features_of_version_1_have_a_lowest_level() -> None:
    data = b'{"features":{"a":{"max_version_level":3,"min_version_level":3}},"version":1,"status":1}'
    assert Features({"a": 3}, version=1).encode() == data
    assert Features({"a": 3}).encode() == b'{"features":{"a":{"max_version_level":3}},"version":2,"status":1}'


@pytest.mark.parametrize(
    "data",
    [
        b'{"features":{},"version":3,"status":1}',
        b'{"features":{},"version":2}',
        b'{"features":{},"version":2,"status":2}',
        b'{"features":{"a":{}},"version":2,"status":1}',
        b'{"features":{"a":{"max_version_level":0}},"version":2,"status":1}',
        b'{"features":{"a":{"max_version_level":1}},"version":1,"status":1}',
        b'{"features":{"a":{"max_version_level":1,"min_version_level":2}},"version":1,"status":1}',
    ],
)
def test_other_features_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /feature: "):
        Features.decode(data)


def test_controllers_of_every_age_are_read() -> None:
    """Kafka 0.8.0, 0.8.2 to 3.3, 3.4 and newer, and a KRaft controller in a migration."""
    assert Controller.decode(b"3") == Controller(3, -1)
    assert Controller.decode(b'{"version":1,"brokerid":3,"timestamp":"5"}') == Controller(3, 5)
    migrating = b'{"version":2,"brokerid":3000,"timestamp":"5","kraftControllerEpoch":7}'
    assert Controller.decode(migrating) == Controller(3000, 5, 7)
    for data in (b"-1", b"[3]", b'"3"', b'{"version":1}'):
        with pytest.raises(InvalidNode):
            Controller.decode(data)


def test_no_block_of_producer_ids_is_no_data() -> None:
    assert ProducerIdBlock.decode(None) is None
    assert ProducerIdBlock.decode(b"") is None


@pytest.mark.parametrize("first, last", [("1000", "999"), ("0", str(MAX_INT64)), ("-1", "5"), ("0", "1e3")])
def test_a_block_of_producer_ids_that_is_none_is_refused(first: str, last: str) -> None:
    data = f'{{"version":1,"broker":0,"block_start":"{first}","block_end":"{last}"}}'
    with pytest.raises(InvalidNode):
        ProducerIdBlock.decode(data.encode())
