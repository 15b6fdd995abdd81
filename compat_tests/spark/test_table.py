"""`headgate spark table` and `replay table:OUT`: a history by seed in Delta and Iceberg; kills in `make soak`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from compat_tests.harness import toolchain
from compat_tests.harness.broker import Broker
from compat_tests.harness.soak import SOAK
from compat_tests.harness.topics import create_topics
from compat_tests.spark import loads
from compat_tests.spark.table_history import History, Session, positions

SEED = int(os.environ.get("HEADGATE_SEED", str(random.randrange(1 << 30) if SOAK else 1)))
ROUNDS = 12 if SOAK else 2
KILLS = 6
PARTITIONS = 3


def committed(broker: Broker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of all committed records."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, ended, deadline_s = [], set[int](), time.monotonic() + loads.LIMIT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline_s
        for one in consumer.consume(1_000, 0.5):
            if one.error() is None:
                found.append((one.key(), one.value()))
            else:
                ended.add(one.partition() or 0)
    consumer.close()
    return found


def test_a_history_in_tables_and_back(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    """Each merge leaves the last committed values; their replay is written once, though it runs twice."""
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    name = topic(PARTITIONS, **{"cleanup.policy": "compact"})
    history = History(broker.bootstrap, name, SEED)
    delta, iceberg, state = tmp_path / "delta", "iceberg.db.last", tmp_path / "state"
    origin = ["--bootstrap-server", broker.bootstrap, "--once"]
    with Session(tmp_path / "warehouse", tmp_path / "errors") as session:
        for number in range(ROUNDS):
            for _ in range(history.random.randint(3, 9)):
                history.step()
            if number == ROUNDS - 1:
                history.end()
            session.run("table", name, str(delta), *origin)
            assert session.values(str(delta)) == history.last_values(positions(delta)), f"seed {SEED}"
            if number % 3 != 1 or number == ROUNDS - 1:  # else Iceberg takes two rounds at once
                words = ("--table-format", "iceberg", "--state", str(state), *origin)
                session.run("table", name, iceberg, *words)
                assert session.values(iceberg) == history.last_values(positions(state)), f"seed {SEED}"
        session.run("table", name, str(delta), *origin)
        session.run("verify", str(delta))
        last = history.last_values(positions(delta))
        assert len(last) > 5
        for source, kind in ((str(delta), "delta"), (iceberg, "iceberg"))[: 2 if SOAK else 1]:
            target = f"{name}-{kind}"
            create_topics(broker.bootstrap, {target: {}}, PARTITIONS)
            words = (f"table:{source}", target, "--name", target, "--bootstrap-server", broker.bootstrap)
            for _ in range(2):
                session.run("replay", *words, "--batch", "15", "--partitions", "key")
            found = committed(broker, target)
            assert len(found) == len(last)
            assert dict(found) == last
    rows = loads.run("lag", f"table:{delta}", "--bootstrap-server", broker.bootstrap, "--json")
    assert sum(row["lag"] or 0 for row in rows) == 0


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_killed_table_is_completed(broker: Broker, topic: Callable[..., str], tmp_path: Path, kind: str) -> None:
    """The driver is killed at random moments; the next run completes its merge."""
    toolchain.module("pyspark", "pip install pyspark==4.1.1")
    name, chance = topic(PARTITIONS), random.Random(SEED)
    history = History(broker.bootstrap, name, SEED)
    out, state, errors = tmp_path / "out", tmp_path / "state", tmp_path / "errors"
    where = [str(out)] if kind == "delta" else ["iceberg.db.last", "--state", str(state)]
    conf = f"spark.sql.catalog.iceberg.warehouse={out}"
    words = ["table", name, *where, "--table-format", kind, "--bootstrap-server", broker.bootstrap, "--once"]
    words += ["--master", "local[2]", "--conf", conf, "--conf", "spark.driver.memory=1g"]
    began = time.monotonic()
    history.step()
    loads.run(*words)
    usual_s = time.monotonic() - began
    for _ in range(KILLS):
        for _ in range(5):
            history.step()
        with loads.started(*words, errors=errors) as process:
            time.sleep(chance.uniform(0.4, 1.05) * usual_s)
            process.kill()
    history.end()
    loads.run(*words)
    place = out if kind == "delta" else state
    target = f"{name}-replayed"
    create_topics(broker.bootstrap, {target: {}}, PARTITIONS)
    replay = ("replay", f"table:{place}", target, "--name", target, "--partitions", "key", "--conf", conf)
    loads.run(*replay, "--bootstrap-server", broker.bootstrap)
    found = committed(broker, target)
    assert dict(found) == history.last_values(positions(place)), f"seed {SEED}"
    assert len(found) == len(dict(found))
