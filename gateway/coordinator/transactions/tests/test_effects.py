"""The effect that the coordinator and the marker writer share."""

from headgate.gateway.coordinator.transactions.tests.transaction_desk import NEW, Desk


def test_an_effect_is_known_again_by_its_values() -> None:
    """A load performs the same effect; a later end of the same partitions is another one, but in the old protocol."""
    desk = Desk()
    producer = desk.init()
    desk.add("a", producer, {"t": [1], "s": [0]})
    desk.end("a", producer, version=NEW)
    (first,) = desk.effects
    desk.restart()
    desk.pass_time(0)
    assert desk.effects == [first]
    desk.write_markers()
    desk.add("a", desk.state().holder, {"s": [0], "t": [1]})
    desk.end("a", desk.state().holder, version=NEW)
    (second,) = desk.effects
    assert second != first
    assert second.partitions == first.partitions
