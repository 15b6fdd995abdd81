"""The offsets of a group are carried over to the other store."""

import pytest

from headgate.gateway.zookeeper.offsets.tests.two_stores import TwoStores


@pytest.mark.parametrize("source,expected", [("zookeeper", (1, 2, 30)), ("kafka", (10, 2, 30))])
def test_the_offsets_of_the_leading_side_are_carried_over(source: str, expected: tuple[int, int, int]) -> None:
    stores = TwoStores()
    stores.write(1, 0)
    stores.write(2, 1)
    stores.committed(10, 0)
    stores.committed(30, 2)
    stores.enter(source)
    assert tuple(stores.in_zookeeper(index) for index in range(3)) == expected
    assert tuple(stores.in_log(index) for index in range(3)) == expected


@pytest.mark.parametrize("source", ["zookeeper", "kafka"])
@pytest.mark.parametrize("data", [b"", b"forty-one", None])
def test_data_that_are_no_number_are_replaced_by_the_offset_of_the_log(source: str, data: bytes | None) -> None:
    stores = TwoStores()
    stores.committed(10)
    stores.write(1)
    stores.keeper.tree.nodes["/consumers/g/offsets/t/0"].data = data
    stores.enter(source)
    assert (stores.in_zookeeper(), stores.in_log()) == (10, 10)
