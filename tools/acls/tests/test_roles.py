"""The rules of a producer, a consumer, and of Spark."""

from __future__ import annotations

from headgate.tools.tests.command_output import Run

ALICE = ("--principal", "User:alice")


def rules(run: Run, *arguments: str) -> list[str]:
    rows = run("add", *ALICE, *arguments).rows
    return [f"{row['operation']} {row['resource_type']} {row['pattern_type']} {row['resource_name']}" for row in rows]


def test_a_producer_writes_and_creates_topics(run: Run) -> None:
    arguments = ("--producer", "--topic", "t", "--transactional-id", "x", "--idempotent")
    assert rules(run, *arguments) == [
        "WRITE TOPIC LITERAL t",
        "DESCRIBE TOPIC LITERAL t",
        "CREATE TOPIC LITERAL t",
        "WRITE TRANSACTIONAL_ID LITERAL x",
        "DESCRIBE TRANSACTIONAL_ID LITERAL x",
        "IDEMPOTENT_WRITE CLUSTER LITERAL kafka-cluster",
    ]


def test_a_consumer_reads_topics_in_a_group(run: Run) -> None:
    arguments = ("--consumer", "--topic", "t", "--group", "g", "--resource-pattern-type", "prefixed")
    assert rules(run, *arguments) == ["READ TOPIC PREFIXED t", "DESCRIBE TOPIC PREFIXED t", "READ GROUP PREFIXED g"]


def test_spark_fetches_offsets_in_both_ways(run: Run) -> None:
    assert rules(run, "--spark", "--topic", "t") == [
        "READ TOPIC LITERAL t",
        "DESCRIBE TOPIC LITERAL t",
        "READ GROUP PREFIXED spark-kafka-source",
        "READ GROUP PREFIXED spark-kafka-relation",
    ]


def test_groups_of_a_spark_job_are_named(run: Run) -> None:
    assert rules(run, "--spark", "--topic", "t", "--group", "mine")[2:] == ["READ GROUP LITERAL mine"]


def test_roles_share_their_rules(run: Run) -> None:
    assert len(rules(run, "--producer", "--spark", "--topic", "t")) == 6
