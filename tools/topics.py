"""`headgate topics`: list, create, describe and delete topics, of Headgate or of any Kafka broker.

Output: a table on a terminal, JSON lines otherwise. Exit codes: 0 success, 1 failure for a topic, 2 wrong usage.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headgate.protocol.client.failure import Failure
from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from headgate.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from headgate.storage.disk.layout import format_id
from headgate.tools.client.client import Client
from headgate.tools.output import CommandResult, Row, common_options, format_table, run_and_print

_TOPIC_RESOURCE = 2
_DYNAMIC_TOPIC_CONFIG = 1  # the source of a config in DescribeConfigs

_MESSAGES: dict[int, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic; `headgate topics list` shows all"
}


def main(arguments: Sequence[str]) -> int:
    """Run `headgate topics <arguments>`; return the exit code."""
    options = _parser().parse_args(arguments)
    return run_and_print("topics", _run, options, _table)


def _run(options: argparse.Namespace) -> CommandResult:
    with Client(options.bootstrap_server, timeout_s=options.timeout, security=options.security) as client:
        return CommandResult(*options.run(client, options))


def _parser() -> argparse.ArgumentParser:
    common = common_options()
    parser = argparse.ArgumentParser(prog="headgate topics", description="List, create, describe and delete topics.")
    commands = parser.add_subparsers(required=True, metavar="list|create|describe|delete")
    list_command = commands.add_parser("list", parents=[common], help="all topics")
    list_command.set_defaults(run=list_topics)
    create = commands.add_parser("create", parents=[common], help="new topics")
    create.add_argument("topics", nargs="+", metavar="topic")
    create.add_argument("--partitions", type=int, default=-1, help="default: the broker's num.partitions")
    create.add_argument("--replication-factor", type=int, default=-1, help="default: the broker's")
    create.add_argument(
        "--config", action="append", default=[], type=_pair, metavar="name=value", help="may be repeated"
    )
    create.add_argument("--if-not-exists", action="store_true", help="accept a topic that already exists")
    create.set_defaults(run=create_topics)
    describe = commands.add_parser("describe", parents=[common], help="partitions and configs")
    describe.add_argument("topics", nargs="*", metavar="topic", help="default: all")
    describe.set_defaults(run=describe_topics)
    delete = commands.add_parser("delete", parents=[common], help="delete topics with all their records")
    delete.add_argument("topics", nargs="+", metavar="topic")
    delete.add_argument("--if-exists", action="store_true", help="accept a topic that does not exist")
    delete.set_defaults(run=delete_topics)
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} has no '='; write --config name=value")
    return name, value


# ------------------------------------------------------------------------------------------------------------ commands


def list_topics(client: Client, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Rows of all topics, sorted by name."""
    topics = _metadata(client, None)
    return [summarize_topic(topic) for topic in sorted(topics, key=lambda topic: topic.name or "")], []


def summarize_topic(topic: MetadataResponseTopic) -> Row:
    """A topic as one row."""
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(row.replica_nodes) for row in topic.partitions), default=0),
        "internal": topic.is_internal,
    }


def create_topics(client: Client, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Create as many topics as possible. Returns rows of the created topics and sentences about the others."""
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in options.config]
    topics = [
        CreatableTopic(
            name=name, num_partitions=options.partitions, replication_factor=options.replication_factor, configs=configs
        )
        for name in options.topics
    ]
    results, exists = request_creation(client, topics, options.timeout), ErrorCode.TOPIC_ALREADY_EXISTS
    return _outcomes(results, "created", exists, "--if-not-exists", accepts=options.if_not_exists)


def request_creation(
    client: Client, topics: list[CreatableTopic], timeout_s: float, *, validate_only: bool = False
) -> list[CreatableTopicResult]:
    """Create topics, or only ask whether the broker would; a result for each. Raises ClientError.

    A broker before Kafka 0.10.2 cannot validate only, and is not asked.
    """
    request = CreateTopicsRequest(topics=topics, timeout_ms=int(timeout_s * 1000), validate_only=validate_only)
    if validate_only:
        client.version(CreateTopicsRequest, newest=7, oldest=1)
    found: list[CreatableTopicResult] = client.ask(request).topics
    return found


def describe_topics(client: Client, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Rows with the partitions of topics and the configs set for the topic itself, and failures."""
    topics = _metadata(client, options.topics or None)
    found = sorted(
        (topic for topic in topics if topic.error_code == ErrorCode.NONE), key=lambda topic: topic.name or ""
    )
    configs = own_configs(client, [topic.name or "" for topic in found])
    rows = [_description(topic, configs.get(topic.name or "", {})) for topic in found]
    failures = [
        f"{topic.name} cannot be described: {Failure.of(topic.error_code, _MESSAGES.get(topic.error_code)).text}"
        for topic in topics
        if topic.error_code != ErrorCode.NONE
    ]
    return rows, failures


def _description(topic: MetadataResponseTopic, configs: Mapping[str, str]) -> Row:
    return {
        "topic": topic.name,
        "topic_id": format_id(topic.topic_id),
        "configs": dict(configs),
        "partitions": describe_partitions(topic),
    }


def describe_partitions(topic: MetadataResponseTopic) -> list[Row]:
    """The partitions of a topic with their replicas, by number."""
    return [
        {
            "partition": row.partition_index,
            "leader": row.leader_id,
            "leader_epoch": row.leader_epoch,
            "replicas": list(row.replica_nodes),
            "isr": list(row.isr_nodes),
        }
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
    ]


def own_configs(client: Client, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    return {
        name: {entry.name: entry.value for entry in entries if entry.config_source == _DYNAMIC_TOPIC_CONFIG}
        for name, entries in describe_configs(client, names).items()
    }


def describe_configs(client: Client, names: Iterable[str], keys: list[str] | None = None) -> dict[str, list[Any]]:
    """The configs of topics, all or those with these keys. Raises ClientError."""
    resources = [DescribeConfigsResource(_TOPIC_RESOURCE, name, keys) for name in names]
    answer = client.ask(DescribeConfigsRequest(resources=resources))
    return {result.resource_name: result.configs for result in answer.results}


def delete_topics(client: Client, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Delete as many topics as possible. Returns rows of the deleted topics and sentences about the others."""
    results = request_deletion(client, options.topics, options.timeout)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _outcomes(results, "deleted", unknown, "--if-exists", accepts=options.if_exists)


def request_deletion(client: Client, names: Iterable[str], timeout_s: float) -> list[DeletableTopicResult]:
    """Delete topics; a result for each. Raises ClientError."""
    wanted = list(names)
    topics = [DeleteTopicState(name=name) for name in wanted]
    request = DeleteTopicsRequest(topics=topics, topic_names=wanted, timeout_ms=int(timeout_s * 1000))
    found: list[DeletableTopicResult] = client.ask(request).responses
    return found


def _outcomes(
    results: Iterable[Any], done: str, harmless: ErrorCode, option: str, *, accepts: bool
) -> tuple[list[Row], list[str]]:
    """Rows of the successes, and sentences about the failures. `accepts`: the `harmless` error is a success."""
    rows: list[Row] = []
    failures = []
    for result in results:
        is_harmless = result.error_code == harmless
        if result.error_code == ErrorCode.NONE or (is_harmless and accepts):
            rows.append({"topic": result.name, done: not is_harmless})
        else:
            advice = f"; {option} accepts that" if is_harmless else ""
            why = Failure.of(result.error_code, result.error_message).text
            failures.append(f"{result.name} was not {done}: {why}{advice}")
    return rows, failures


def _metadata(client: Client, names: Sequence[str] | None) -> list[MetadataResponseTopic]:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    answer = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    found: list[MetadataResponseTopic] = answer.topics
    return found


# -------------------------------------------------------------------------------------------------------------- output


def _table(rows: Sequence[Row]) -> list[str]:
    return format_table([line for row in rows for line in _flatten(row)])


def _flatten(row: Row) -> list[Row]:
    """A described topic becomes one row for each partition; any other row stays as it is."""
    if "partitions" not in row or isinstance(row["partitions"], int):
        return [row]
    configs = " ".join(f"{name}={value}" for name, value in row["configs"].items())
    return [{"topic": row["topic"], **partition, "configs": configs} for partition in row["partitions"]]
