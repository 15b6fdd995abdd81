"""Readings of brokers' metrics, and which families have moved between them.

A family has moved if a series of a broker had two values; of a partition or a topic also at two brokers, as its leader
alone shows it. A broker that is started again is the same one.

    readings = Readings()
    reading = readings.read("one", broker)          # one reading; `reading.sum("headgate_connections")`
    readings.until("one", broker, "headgate_requests_parked", above=0)
    readings.still()                                # the families that have not moved
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from compat_tests.harness.broker import Broker, HeadgateBroker
from compat_tests.harness.waiting import Late, until

TYPE: Final = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)
SAMPLE: Final = re.compile(r"^(\w+)(\{.*\})? (\S+)$", re.MULTILINE)
COUNTS: Final = frozenset(("counter", "histogram"))
LIMIT_S: Final = 60
STEP_S: Final = 0.02
ABOUT_LABELS: Final = frozenset(("headgate_group_verdict", "kafka_broker_info"))
"""These are always 1: their labels change."""


class Sample(NamedTuple):
    """`family`: as in `# TYPE`. `labels`: their text. `counts`: a counter or a histogram, 0 while it is not shown."""

    family: str
    labels: str
    value: float
    counts: bool


class Reading(NamedTuple):
    """The samples of one broker at one time."""

    samples: list[Sample]
    families: frozenset[str]

    def values(self, family: str, **labels: str) -> list[float]:
        """The values of the series that have these labels."""
        wanted = [f'{name}="{value}"' for name, value in labels.items()]
        return [
            one.value for one in self.samples if one.family == family and all(text in one.labels for text in wanted)
        ]

    def sum(self, family: str, **labels: str) -> float:
        return sum(self.values(family, **labels))


def read(broker: Broker) -> Reading:
    """The metrics of a broker, now. Raises OSError if it does not answer."""
    assert isinstance(broker, HeadgateBroker)
    with urllib.request.urlopen(f"{broker.http()}/metrics", timeout=LIMIT_S) as answer:  # noqa: S310  of the broker
        return parse(answer.read().decode())


def parse(text: str) -> Reading:
    """The samples of a text in Prometheus' format; of a histogram the counts."""
    types = dict(TYPE.findall(text))
    counted = {f"{family}_count": family for family, kind in types.items() if kind == "histogram"}
    samples = [
        Sample(family, labels, float(value), types[family] in COUNTS)
        for name, labels, value in SAMPLE.findall(text)
        if (family := counted.get(name, name)) in types
    ]
    return Reading(samples, frozenset(types))


class Readings:
    """What all readings have shown."""

    def __init__(self) -> None:
        self.families: set[str] = set()
        self._values: dict[str, dict[tuple[str, str], set[float]]] = {}
        self._read: set[str] = set()
        self._labels: dict[tuple[str, str], set[frozenset[str]]] = {}

    def read(self, name: str, broker: Broker) -> Reading:
        """Read a broker, and note what it shows."""
        reading = read(broker)
        self.note(name, reading)
        return reading

    def note(self, name: str, reading: Reading) -> None:
        """Note a reading of the broker of this name."""
        self.families |= reading.families
        for family, labels, value, counts in reading.samples:
            of_leader = 'topic="' in labels
            series = "" if of_leader else name, labels
            values = self._values.setdefault(family, {})
            if series not in values:
                values[series] = {0.0} if counts and name in self._read else set()
            values[series].add(value)
        self._read.add(name)
        for family in ABOUT_LABELS:
            shown = frozenset(one.labels for one in reading.samples if one.family == family)
            self._labels.setdefault((family, name), set()).add(shown)

    def until(
        self, name: str, broker: Broker, family: str, above: float = 0, *, below: float | None = None, **labels: str
    ) -> Reading:
        """Read a broker again and again until the sum of a family is above a value, or below one."""
        last: list[Reading] = []

        def is_there() -> bool:
            last[:] = [self.read(name, broker)]
            found = last[0].sum(family, **labels)
            return found > above if below is None else found < below

        wanted = f"above {above}" if below is None else f"below {below}"
        try:
            until(is_there, f"{family} {wanted} at {name}", LIMIT_S, STEP_S)
        except Late as late:
            raise Late(f"{late}; now {last[0].sum(family, **labels)}") from None
        return last[0]

    def add(self, others: Readings) -> None:
        """Take over what other readings have shown."""
        self.families |= others.families
        for family, series in others._values.items():
            for key, values in series.items():
                self._values.setdefault(family, {}).setdefault(key, set()).update(values)
        for where, shown in others._labels.items():
            self._labels.setdefault(where, set()).update(shown)

    def moved(self) -> Iterator[str]:
        """The families that have moved."""
        for family in self.families:
            if family in ABOUT_LABELS:
                is_moved = any(len(shown) > 1 for (name, _), shown in self._labels.items() if name == family)
            else:
                is_moved = any(len(values) > 1 for values in self._values.get(family, {}).values())
            if is_moved:
                yield family

    def still(self, known: Iterable[str] = ()) -> list[str]:
        """The families that have not moved, of those that were shown, and of those that are known."""
        return sorted({*self.families, *known} - {*self.moved()})
