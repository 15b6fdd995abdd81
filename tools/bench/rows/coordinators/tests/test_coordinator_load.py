"""What is asked of a broker that loads its committed offsets."""

from headgate.tools.bench.rows.coordinators.coordinator_load import one_of_each


def test_one_group_of_each_partition_is_asked_for() -> None:
    """Java's hash is 2112 of both "Aa" and "BB", 99162322 of "hello"; that of "load-0" is negative."""
    assert one_of_each(["Aa", "BB", "hello"]) == ["Aa", "hello"]
    assert len(one_of_each([f"load-{number}" for number in range(1000)])) == 50
