"""What each client of the matrix does for the census: it writes, reads, and reads in a group.

`on_kafka41.json` has for each client whether it can do so on Apache Kafka 4.1; a soak test says that again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from compat_tests.harness.records import Sent
from compat_tests.harness.topics import new_topic
from compat_tests.matrix.carried import partitions_of, records_of
from compat_tests.matrix.client import Client

FILE: Final = Path(__file__).with_name("on_kafka41.json")
COUNT: Final = 20


def works_on_kafka41() -> dict[str, bool]:
    """By the name of a client, whether it works on Apache Kafka 4.1."""
    found: dict[str, bool] = json.loads(FILE.read_text())
    return found


def exercise(client: Client, bootstrap: str) -> None:
    """Write, read, and read in a group, unless the client needs ZooKeeper for that. Raises what the client raises."""
    topic = new_topic(bootstrap, partitions_of(client.abilities))
    sent: list[Sent] = records_of(client.abilities, COUNT)
    client.produce_each(bootstrap, topic, {"none": sent})
    found = client.read(bootstrap, topic, COUNT)
    assert len(found) == COUNT
    if client.abilities.groups and not client.needs_zookeeper:
        found = client.read_in_group(bootstrap, topic, f"{topic}-group", COUNT)
        assert len(found) == COUNT
