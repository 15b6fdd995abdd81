"""The faults of a simulated cluster, chosen by its seed: what fails, when, and for how long."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from headgate.gateway.tests.simulation.cluster import Broker, Cluster
from headgate.gateway.tests.simulation.keeper import KEEPER, SESSION_MS
from headgate.gateway.zookeeper.layout.topics import LeaderAndIsr

MOST_BURSTS: Final = 3
MOST: Final = 5
"""Faults of a burst: one alone is seldom a danger."""
LEAVING: Final = 0.25
"""The share of histories with `Faults.leave_before_followers`."""


class Faults:
    """A plan of faults. Each one heals by itself after a while."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = random
        self._is_over = False
        self._for_leaders = Random(self._world.seed + 1)
        """For `leave_before_followers`: the other faults of a seed are the same with and without it."""

    def begin(self, within_ms: float) -> None:
        """Have faults happen within this time."""
        if self._for_leaders.random() < LEAVING:
            at_ms = self._for_leaders.random() * within_ms * 0.7
            self._world.after(at_ms, partial(self._happen, Faults.leave_before_followers))
        for _ in range(self._random.randint(1, MOST_BURSTS)):
            at_ms = self._random.random() * within_ms * 0.8
            spread_ms = self._random.choice((20.0, 300.0, SESSION_MS))
            for _ in range(self._random.randint(1, MOST)):
                fault = self._random.choices(list(self.KINDS), list(self.KINDS.values()))[0]
                self._world.after(at_ms + self._random.random() * spread_ms, partial(self._happen, fault))

    def _happen(self, fault: Callable[[Faults], None]) -> None:
        if not self._is_over:
            fault(self)

    def heal(self) -> None:
        """No more faults: all that is broken becomes whole, and all brokers start."""
        self._is_over = True
        self._world.note("all faults end")
        self._speed_up()
        cluster = self._cluster
        for sender, receiver in sorted(cluster.network.cut_ways):
            cluster.network.heal(sender, receiver)
        for broker in list(cluster.brokers.values()):
            cluster.resume(broker.node_id)
            broker.files.heal()
            broker.files.cut_after = None
        for node_id in cluster.node_ids:
            cluster.files[node_id].heal()
            cluster.start(node_id)
        cluster.keeper.look()

    # Choices

    def _some_ms(self) -> float:
        """A short time, or one beyond sessions."""
        return self._random.choice((30.0, 300.0, SESSION_MS, 2 * SESSION_MS)) * (0.5 + self._random.random())

    def _broker(self) -> Broker | None:
        """A broker that runs; often the controller, or the leader of partition 0."""
        able = [broker for broker in self._cluster.brokers.values() if broker.is_serving and not broker.is_paused]
        if not able:
            return None
        choice = self._random.random()
        if choice < 0.25:
            wanted = self._cluster.keeper.fields("/controller").get("brokerid")
        elif choice < 0.5:
            wanted = self._cluster.state(0).leader
        else:
            wanted = None
        return next((broker for broker in able if broker.node_id == wanted), None) or self._random.choice(able)

    # Faults

    def kill(self) -> None:
        """SIGKILL, and a start later; with synced commits the power goes too."""
        broker = self._broker()
        if broker is not None:
            self._cluster.kill(broker.node_id, power=self._cluster.has_power_cuts and self._random.random() < 0.7)
            self._world.after(self._some_ms(), partial(self._cluster.start, broker.node_id))

    def stop(self) -> None:
        """SIGTERM, and a start after the end."""
        broker = self._broker()
        if broker is not None:
            self._cluster.stop(broker.node_id, self._some_ms())

    def cut_soon(self) -> None:
        """A kill in the middle of one of the next writes."""
        broker = self._broker()
        if broker is not None:
            broker.files.cut_after = self._random.randint(0, 12)
            self._world.after(self._some_ms() + 500.0, partial(self._cluster.start, broker.node_id))

    def pause(self) -> None:
        """SIGSTOP and SIGCONT."""
        broker = self._broker()
        if broker is not None:
            self._cluster.pause(broker.node_id)
            self._world.after(self._some_ms(), partial(self._go_on, broker))

    def _go_on(self, broker: Broker) -> None:
        if self._cluster.brokers.get(broker.node_id) is broker:
            self._cluster.resume(broker.node_id)

    def cut_brokers(self) -> None:
        """Two brokers do not reach each other, or one does not reach the other."""
        one, other = self._random.sample(self._cluster.node_ids, 2)
        self._cut(f"broker {one}", f"broker {other}")

    def cut_off(self) -> None:
        """A broker reaches no other broker."""
        broker = self._random.choice(self._cluster.node_ids)
        for other in self._cluster.node_ids:
            if other != broker:
                self._cut(f"broker {broker}", f"broker {other}", is_whole=True)

    def cut_keeper(self) -> None:
        """A broker does not reach ZooKeeper."""
        broker = self._broker()
        if broker is not None:
            self._cut(broker.name, KEEPER)

    def lose_keeper(self) -> None:
        """A connection to ZooKeeper is lost, with what is under way."""
        broker = self._broker()
        if broker is not None:
            self._world.note(f"{broker} loses its connection to ZooKeeper")
            self._cluster.keeper.lose_connection(broker.session)

    def cut_client(self) -> None:
        """A client does not reach a broker."""
        client = self._random.choice([host.name for host in self._world.hosts if not isinstance(host, Broker)])
        self._cut(client, f"broker {self._random.choice(self._cluster.node_ids)}")

    def _cut(self, one: str, other: str, *, is_whole: bool = False) -> None:
        network = self._cluster.network
        ways = [(one, other), (other, one)]
        if not is_whole and self._random.random() < 0.3:
            ways.pop(self._random.randrange(2))
        self._cut_ways(ways)
        if self._random.random() < 0.5:
            network.break_connections(one, other)
        self._cluster.keeper.look()
        self._world.after(self._some_ms(), partial(self._mend, ways))

    def _cut_ways(self, ways: list[tuple[str, str]]) -> None:
        self._world.note(f"cut: {', '.join(f'{sender} to {receiver}' for sender, receiver in ways)}")
        for way in ways:
            self._cluster.network.cut(*way)

    def _mend(self, ways: list[tuple[str, str]]) -> None:
        for way in ways:
            self._cluster.network.heal(*way)
        self._cluster.keeper.look()
        if not self._is_over:
            self._world.note(f"whole again: {', '.join(f'{sender} to {receiver}' for sender, receiver in ways)}")

    def slow_network(self) -> None:
        """Everything takes longer for a while."""
        self._cluster.network.delay_ms = self._random.choice((5.0, 50.0, 300.0))
        self._world.note(f"the network takes {self._cluster.network.delay_ms} ms")
        self._world.after(self._some_ms(), self._speed_up)

    def slow_keeper(self) -> None:
        """ZooKeeper takes longer for a while."""
        self._cluster.network.keeper_delay_ms = self._random.choice((20.0, 100.0, 400.0))
        self._world.note(f"ZooKeeper takes {self._cluster.network.keeper_delay_ms} ms")
        self._world.after(self._some_ms(), self._speed_up)

    def _speed_up(self) -> None:
        self._cluster.network.delay_ms, self._cluster.network.keeper_delay_ms = 0.5, 0.0

    def jump_clock(self) -> None:
        """The wall clock of a broker jumps; never so far that timestamps of clients are in an hour's future."""
        broker = self._broker()
        if broker is not None:
            broker.clock.jumped_ms = self._random.choice((-3_600_000, -5_000, 5_000, 3_600_000))
            self._cluster.has_jumped = True
            self._world.note(f"the clock of {broker} jumps")

    def fill_disk(self) -> None:
        """A disk is full for a while."""
        broker = self._broker()
        if broker is not None:
            self._world.note(f"the disk of {broker} is full")
            broker.files.room = self._random.randint(0, 2_000)
            self._world.after(self._some_ms(), partial(self._empty, broker))

    def fail_sync(self) -> None:
        """Some syncs of a disk fail; each has lost what it should have written."""
        broker = self._broker()
        if broker is not None:
            self._world.note(f"the disk of {broker} fails")
            if self._random.random() < 0.5:
                broker.files.may_drop = partial(self._has_another, broker)
            broker.files.fail(errno.EIO, "sync", path=".log", times=self._random.randint(1, 3))
            self._world.after(self._some_ms(), partial(self._empty, broker))

    def _has_another(self, broker: Broker, path: str) -> bool:
        """Whether another in-sync replica has the records of a file: what its disk loses is not lost then."""
        topic, _, index = path.split("/")[-2].rpartition("-")
        in_sync = self._cluster.keeper.fields(LeaderAndIsr.path(topic, int(index))).get("isr", ())
        others = [self._cluster.brokers.get(node_id) for node_id in in_sync if node_id != broker.node_id]
        has_another = any(each is not None and each.is_serving and not each.is_paused for each in others)
        self._cluster.has_dropped |= has_another
        return has_another

    def _empty(self, broker: Broker) -> None:
        broker.files.heal()
        self._cluster.files[broker.node_id].heal()

    def leave_before_followers(self) -> None:
        """A leader stops while one of its in-sync followers lacks records that the next leader has."""
        index = self._for_leaders.choice((0, 1))
        state, running = self._cluster.state(index), self._cluster.brokers
        followers = [node_id for node_id in state.isr if node_id != state.leader]
        if state.leader in running and followers:
            late = followers[-1]  # the first one will lead
            ways = [(f"broker {one}", f"broker {late}") for one in self._cluster.node_ids if one != late]
            ways += [(receiver, sender) for sender, receiver in ways]
            self._cut_ways(ways)
            self._cluster.keeper.look()
            self._world.after(2_000.0, partial(self._mend, ways))
            stop = partial(self._stop, running[state.leader])
            self._world.after(300.0 + 600.0 * self._for_leaders.random(), stop)

    def _stop(self, broker: Broker) -> None:
        if self._cluster.brokers.get(broker.node_id) is broker and broker.is_serving:
            self._cluster.stop(broker.node_id, SESSION_MS)

    KINDS: Final = {
        kill: 4.0,
        stop: 2.0,
        cut_soon: 2.0,
        pause: 4.0,
        cut_brokers: 3.0,
        cut_off: 1.0,
        cut_keeper: 3.0,
        lose_keeper: 2.0,
        cut_client: 1.0,
        slow_network: 2.0,
        slow_keeper: 2.0,
        jump_clock: 1.0,
        fill_disk: 1.0,
        fail_sync: 2.0,
    }
