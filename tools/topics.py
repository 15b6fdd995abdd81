"""`headgate topics`: list, create, describe and delete topics, of Headgate or of any Kafka broker.

A table on a terminal, JSON lines otherwise. Exit codes: 0 done, 1 it failed for at least one topic, 2 called wrongly.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headgate.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headgate.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headgate.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from headgate.tools.client import Client, ClientError
from headgate.tools.output import Row, common_options, format_table, printable, reason

FAILED = 1
_TOPIC_RESOURCE = 2
_SET_FOR_THE_TOPIC = 1  # the source of a config in DescribeConfigs

_WHY_NOT: dict[int, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic; `headgate topics list` shows all"
}


def main(arguments: Sequence[str]) -> int:
    """Run `headgate topics <arguments>`; returns the exit code."""
    options = _parser().parse_args(arguments)
    is_table = options.table or (not options.json and sys.stdout.isatty())
    try:
        with Client(options.bootstrap_server, timeout_s=options.timeout) as client:
            rows, failures = options.run(client, options)
    except ClientError as error:
        rows, failures = [], [str(error)]
    _print(rows, is_table)
    for failure in failures:
        print(f"headgate topics: {printable(failure)}", file=sys.stderr)
    return FAILED if failures else 0


def _parser() -> argparse.ArgumentParser:
    common = common_options()
    parser = argparse.ArgumentParser(prog="headgate topics", description="List, create, describe and delete topics.")
    commands = parser.add_subparsers(required=True, metavar="list|create|describe|delete")
    listing = commands.add_parser("list", parents=[common], help="all topics")
    listing.set_defaults(run=list_topics)
    creating = commands.add_parser("create", parents=[common], help="new topics")
    creating.add_argument("topics", nargs="+", metavar="topic")
    creating.add_argument("--partitions", type=int, default=-1, help="default: the broker's num.partitions")
    creating.add_argument("--replication-factor", type=int, default=-1, help="default: the broker's")
    creating.add_argument(
        "--config", action="append", default=[], type=_pair, metavar="name=value", help="may be repeated"
    )
    creating.add_argument("--if-not-exists", action="store_true", help="a topic that exists already is no failure")
    creating.set_defaults(run=create_topics)
    describing = commands.add_parser("describe", parents=[common], help="partitions and configs")
    describing.add_argument("topics", nargs="*", metavar="topic", help="default: all")
    describing.set_defaults(run=describe_topics)
    deleting = commands.add_parser("delete", parents=[common], help="delete topics with everything in them")
    deleting.add_argument("topics", nargs="+", metavar="topic")
    deleting.add_argument("--if-exists", action="store_true", help="a topic that does not exist is no failure")
    deleting.set_defaults(run=delete_topics)
    return parser


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} has no '='; write --config name=value")
    return name, value


# ------------------------------------------------------------------------------------------------------------ commands


def list_topics(client: Client, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """All topics by name."""
    topics = _metadata(client, None)
    return [_summary(topic) for topic in sorted(topics, key=lambda topic: topic.name or "")], []


def _summary(topic: MetadataResponseTopic) -> Row:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replication_factor": max((len(row.replica_nodes) for row in topic.partitions), default=0),
        "internal": topic.is_internal,
    }


def create_topics(client: Client, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Every topic that can be made is; what is said of the others are failures."""
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in options.config]
    topics = [
        CreatableTopic(
            name=name, num_partitions=options.partitions, replication_factor=options.replication_factor, configs=configs
        )
        for name in options.topics
    ]
    answer = client.ask(CreateTopicsRequest(topics=topics, timeout_ms=int(options.timeout * 1000)))
    rows: list[Row] = []
    failures = []
    for result in answer.topics:
        exists = result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        if result.error_code == ErrorCode.NONE or (exists and options.if_not_exists):
            rows.append({"topic": result.name, "created": not exists})
        else:
            advice = "; --if-not-exists accepts that" if exists else ""
            failures.append(f"{result.name} was not created: {reason(result.error_code, result.error_message)}{advice}")
    return rows, failures


def describe_topics(client: Client, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Partitions, and the configs that were set for the topic itself."""
    topics = _metadata(client, options.topics or None)
    found = sorted(
        (topic for topic in topics if topic.error_code == ErrorCode.NONE), key=lambda topic: topic.name or ""
    )
    configs = _own_configs(client, [topic.name or "" for topic in found])
    rows = [_description(topic, configs.get(topic.name or "", {})) for topic in found]
    failures = [
        f"{topic.name} cannot be described: {reason(topic.error_code, _WHY_NOT.get(topic.error_code))}"
        for topic in topics
        if topic.error_code != ErrorCode.NONE
    ]
    return rows, failures


def _description(topic: MetadataResponseTopic, configs: Mapping[str, str]) -> Row:
    partitions = [
        {
            "partition": row.partition_index,
            "leader": row.leader_id,
            "leader_epoch": row.leader_epoch,
            "replicas": list(row.replica_nodes),
            "isr": list(row.isr_nodes),
        }
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
    ]
    return {
        "topic": topic.name,
        "topic_id": _id_text(topic.topic_id),
        "configs": dict(configs),
        "partitions": partitions,
    }


def _own_configs(client: Client, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    resources = [
        DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
        for name in names
    ]
    answer = client.ask(DescribeConfigsRequest(resources=resources))
    return {
        result.resource_name: {
            entry.name: entry.value for entry in result.configs if entry.config_source == _SET_FOR_THE_TOPIC
        }
        for result in answer.results
    }


def delete_topics(client: Client, options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """Every topic that can be deleted is; what is said of the others are failures."""
    names = list(options.topics)
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=names,
        timeout_ms=int(options.timeout * 1000),
    )
    rows: list[Row] = []
    failures = []
    for result in client.ask(request).responses:
        unknown = result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if result.error_code == ErrorCode.NONE or (unknown and options.if_exists):
            rows.append({"topic": result.name, "deleted": not unknown})
        else:
            advice = "; --if-exists accepts that" if unknown else ""
            failures.append(f"{result.name} was not deleted: {reason(result.error_code, result.error_message)}{advice}")
    return rows, failures


def _metadata(client: Client, names: Sequence[str] | None) -> list[MetadataResponseTopic]:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    answer = client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False))
    found: list[MetadataResponseTopic] = answer.topics
    return found


def _id_text(topic_id: bytes) -> str:
    """A topic's id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


# -------------------------------------------------------------------------------------------------------------- output


def _print(rows: Iterable[Row], is_table: bool) -> None:
    if not is_table:
        for row in rows:
            print(json.dumps(row))
        return
    flat = [line for row in rows for line in _flatten(row)]
    for line in format_table(flat):
        print(line)


def _flatten(row: Row) -> list[Row]:
    """A described topic as a line for each partition; anything else as it is."""
    if "partitions" not in row or isinstance(row["partitions"], int):
        return [row]
    configs = " ".join(f"{name}={value}" for name, value in row["configs"].items())
    return [{"topic": row["topic"], **partition, "configs": configs} for partition in row["partitions"]]
