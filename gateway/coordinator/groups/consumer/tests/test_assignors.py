"""The assignors by their properties, and by examples whose result a person can see at once."""

import random
import time
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.coordinator.groups.consumer.assignors import ASSIGNORS, Assignment, Subscriber, ranges, uniform

A, B, C, D = (letter.encode() * 16 for letter in "ABCD")
TOPICS = (A, B, C, D)


def member(*topics: bytes, target: Assignment | None = None, instance_id: str | None = None) -> Subscriber:
    return Subscriber(frozenset(topics), target or {}, instance_id)


def kept(members: Mapping[str, Subscriber], targets: Mapping[str, Assignment]) -> Mapping[str, Subscriber]:
    return {
        name: Subscriber(subscriber.topics, targets[name], subscriber.instance_id)
        for name, subscriber in members.items()
    }


def partitions(target: Assignment) -> set[tuple[bytes, int]]:
    return {(topic, partition) for topic, numbers in target.items() for partition in numbers}


def sizes(targets: Mapping[str, Assignment]) -> list[int]:
    return sorted(len(partitions(target)) for target in targets.values())


@st.composite
def groups(draw: st.DrawFn, same_topics: bool = False) -> tuple[dict[str, Subscriber], dict[bytes, int]]:
    """Members with targets as an assignor left them, and as it never would: too high, twice, not subscribed."""
    counts = {topic: draw(st.integers(0, 9)) for topic in TOPICS}
    some_topics = st.frozensets(st.sampled_from(TOPICS))
    all_alike = draw(some_topics) if same_topics else None
    target = st.dictionaries(st.sampled_from(TOPICS), st.frozensets(st.integers(0, 10), min_size=1))
    names = draw(st.lists(st.text("mnop", min_size=1, max_size=3), unique=True, min_size=1, max_size=7))
    return {
        name: Subscriber(
            draw(some_topics) if all_alike is None else all_alike,
            draw(target),
            draw(st.sampled_from((None, "i" + name))),
        )
        for name in names
    }, counts


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.slow
@given(group=groups())
def test_every_wanted_partition_goes_once_to_one_who_wants_it(
    name: str, group: tuple[dict[str, Subscriber], dict[bytes, int]]
) -> None:
    members, counts = group
    targets = ASSIGNORS[name](members, counts)
    assert targets.keys() == members.keys()
    given_out = [partition for target in targets.values() for partition in partitions(target)]
    wanted = {topic for subscriber in members.values() for topic in subscriber.topics}
    assert sorted(given_out) == sorted((topic, number) for topic in wanted for number in range(counts[topic]))
    for member_id, target in targets.items():
        assert target.keys() <= members[member_id].topics
        assert all(target.values()), "no empty sets: they would make equal assignments unequal"


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.slow
@given(group=groups(), shuffle=st.randoms(use_true_random=False))
def test_order_changes_nothing_and_a_second_time_changes_nothing(
    name: str, group: tuple[dict[str, Subscriber], dict[bytes, int]], shuffle: random.Random
) -> None:
    members, counts = group
    targets = ASSIGNORS[name](members, counts)
    order = list(members)
    shuffle.shuffle(order)
    assert ASSIGNORS[name]({member_id: members[member_id] for member_id in order}, counts) == targets
    again = ASSIGNORS[name](kept(members, targets), counts)
    assert all(again[member_id] is targets[member_id] for member_id in members)


@pytest.mark.slow
@given(group=groups(same_topics=True))
def test_uniform_with_one_subscription_balances_with_the_fewest_moves(
    group: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, counts = group
    # Start from disjoint claims, as the targets of a group are
    before = uniform(members, counts)
    leaver = min(members)
    rest = {name: member for name, member in kept(members, before).items() if name != leaver}
    targets = uniform(rest, counts)
    if rest:
        assert sizes(targets)[-1] - sizes(targets)[0] <= 1
    for name in rest:
        assert partitions(before[name]) <= partitions(targets[name]), "nobody loses when another leaves"
    grown = {**kept(rest, targets), "zz": Subscriber(members[leaver].topics, {})}
    after = uniform(grown, counts)
    moved = sum(len(partitions(targets[name]) - partitions(after[name])) for name in rest)
    assert moved == len(partitions(after["zz"])) or not rest, "only what the new member got has moved"
    assert sizes(after)[-1] - sizes(after)[0] <= 1


@pytest.mark.slow
@given(group=groups())
def test_uniform_with_different_subscriptions_leaves_no_useful_move(
    group: tuple[dict[str, Subscriber], dict[bytes, int]],
) -> None:
    members, counts = group
    targets = uniform(members, counts)
    loads = {name: len(partitions(target)) for name, target in targets.items()}
    for owner, target in targets.items():
        for topic in target:
            for other, subscriber in members.items():
                if topic in subscriber.topics:
                    assert loads[owner] - loads[other] <= 1, f"{topic!r} could move from {owner} to {other}"


def test_uniform_spreads_topics_and_gives_the_rest_to_who_has_most() -> None:
    targets = uniform({"m": member(A, B), "n": member(A, B)}, {A: 2, B: 2})
    assert targets == {"m": {A: frozenset({0}), B: frozenset({0})}, "n": {A: frozenset({1}), B: frozenset({1})}}
    # Three partitions for two: the larger share stays where it is, whoever sorts first
    members = {"m": member(A, target={A: frozenset({0})}), "n": member(A, target={A: frozenset({1, 2})})}
    assert uniform(members, {A: 3}) == {"m": {A: frozenset({0})}, "n": {A: frozenset({1, 2})}}


def test_uniform_takes_from_who_has_most_where_subscriptions_overlap() -> None:
    before = {"m": member(A), "n": member(A, B, target={A: frozenset({0, 1, 2}), B: frozenset({0, 1, 2})})}
    targets = uniform(before, {A: 3, B: 3})
    assert targets == {"m": {A: frozenset({0, 1, 2})}, "n": {B: frozenset({0, 1, 2})}}


def test_range_gives_neighbours_and_the_same_of_topics_of_one_size() -> None:
    targets = ranges({"m": member(A, B), "n": member(A, B)}, {A: 3, B: 3})
    assert targets == {
        "m": {A: frozenset({0, 1}), B: frozenset({0, 1})},
        "n": {A: frozenset({2}), B: frozenset({2})},
    }


def test_range_follows_static_members_through_new_member_ids() -> None:
    before = ranges({"m": member(A, instance_id="1"), "n": member(A, instance_id="2"), "a": member(A)}, {A: 3})
    after = ranges({"z": member(A, instance_id="1"), "y": member(A, instance_id="2"), "a": member(A)}, {A: 3})
    assert (after["z"], after["y"], after["a"]) == (before["m"], before["n"], before["a"])


def test_range_divides_a_topic_among_its_own_subscribers() -> None:
    targets = ranges({"m": member(A), "n": member(A, B), "o": member(B)}, {A: 2, B: 3})
    assert targets == {
        "m": {A: frozenset({0})},
        "n": {A: frozenset({1}), B: frozenset({0, 1})},
        "o": {B: frozenset({2})},
    }


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_nobody_and_nothing(name: str) -> None:
    assert ASSIGNORS[name]({}, {}) == {}
    assert ASSIGNORS[name]({"m": member()}, {}) == {"m": {}}
    assert ASSIGNORS[name]({"m": member(A)}, {A: 0}) == {"m": {}}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@pytest.mark.parametrize("different", [False, True])
def test_cost_grows_with_members_plus_partitions_not_their_product(name: str, different: bool) -> None:
    def cost(scale: int) -> float:
        names = [f"m{number:04}" for number in range(50 * scale)]
        members = {name: member(A, B) if different and index % 2 else member(A) for index, name in enumerate(names)}
        counts = {A: 100 * scale, B: 100 * scale} if different else {A: 100 * scale}
        best = float("inf")
        for _ in range(3):
            started = time.process_time()
            targets = ASSIGNORS[name](members, counts)
            ASSIGNORS[name](kept(members, targets), counts)
            best = min(best, time.process_time() - started)
        return best

    assert cost(8) < 8 * 4 * cost(1) + 0.001  # quadratic would be 64 times


@settings(deadline=None)
@given(seed=st.integers(0, 1000))
def test_a_group_that_goes_on_stays_balanced(seed: int) -> None:
    """Members come and go, subscriptions and topics change, each time from the targets of before."""
    chance = random.Random(seed)
    counts = dict.fromkeys(TOPICS, 3)
    members: dict[str, Subscriber] = {}
    for step in range(12):
        if members and chance.random() < 0.4:
            del members[chance.choice(sorted(members))]
        members[f"m{step}"] = member(*chance.sample(TOPICS, chance.randint(1, 4)))
        counts[chance.choice(TOPICS)] += chance.randint(0, 3)
        targets = uniform(members, counts)
        members = dict(kept(members, targets))
    assert sum(sizes(targets)) == sum(
        counts[topic] for topic in {topic for subscriber in members.values() for topic in subscriber.topics}
    )
