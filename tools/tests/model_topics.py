"""Changes of topics and configs by a modelled cluster: new topics and partitions, deleted records, altered configs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from headgate.protocol.errors import ErrorCode
from headgate.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from headgate.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from headgate.protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headgate.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from headgate.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headgate.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headgate.protocol.schema import Message
from headgate.tools.tests.model_cluster import Log, ModelCluster

DEFAULTS: Final = {"cleanup.policy": "delete", "min.insync.replicas": "1", "retention.ms": "604800000"}
"""Of topics; `retention.ms` is `log.retention.ms` of the broker's properties."""
SECRET, READ_ONLY = "ssl.key.password", "log.dirs"
_PARTITIONS, _REPLICAS = 4, 3
_TOPIC, _BROKER = 2, 4
_OWN, _BROKER_OWN, _ALL_BROKERS, _STATIC, _DEFAULT = 1, 2, 3, 4, 5  # sources


class ModelChanges:
    """The configs that are set, by type and name of the resource."""

    def __init__(self, model: ModelCluster) -> None:
        self.set: defaultdict[tuple[int, str], dict[str, str]] = defaultdict(dict)
        self.is_silent = False
        """True: topics' defaults are not named as synonyms, as in Kafka for some configs."""
        self._of_groups = model.answers[DescribeConfigsRequest], model.answers[IncrementalAlterConfigsRequest]
        model.answers |= {
            CreateTopicsRequest: self._create_topics,
            CreatePartitionsRequest: self._create_partitions,
            DeleteRecordsRequest: self._delete_records,
            DescribeConfigsRequest: self._describe_configs,
            IncrementalAlterConfigsRequest: self._alter_some,
            AlterConfigsRequest: self._alter_all,
        }

    # --------------------------------------------------------------------------------------------------------- topics

    def _create_topics(self, model: ModelCluster, node: int, request: CreateTopicsRequest, version: int) -> Message:
        [wanted] = request.topics
        result = CreatableTopicResult(wanted.name)
        if node != model.controller:
            result.error_code = ErrorCode.NOT_CONTROLLER
        elif wanted.name in model.topics:
            result.error_code = ErrorCode.TOPIC_ALREADY_EXISTS
            result.error_message = f"Topic '{wanted.name}' already exists."
        else:
            result.num_partitions = wanted.num_partitions if wanted.num_partitions > 0 else _PARTITIONS
            result.replication_factor = wanted.replication_factor if wanted.replication_factor > 0 else _REPLICAS
            own = {config.name: config.value for config in wanted.configs}
            result.configs = [
                CreatableTopicConfigs(name, own.get(name, value), False, _OWN if name in own else _source(name))
                for name, value in DEFAULTS.items()
            ]
            if not request.validate_only:
                model.topics[wanted.name] = [Log() for _ in range(result.num_partitions)]
        return CreateTopicsResponse(topics=[result])

    def _create_partitions(
        self, model: ModelCluster, node: int, request: CreatePartitionsRequest, version: int
    ) -> Message:
        [wanted] = request.topics
        result = CreatePartitionsTopicResult(wanted.name)
        if node != model.controller:
            result.error_code = ErrorCode.NOT_CONTROLLER
        elif wanted.count > 100:
            result.error_code, result.error_message = ErrorCode.INVALID_PARTITIONS, "no more than 100 partitions"
        elif not request.validate_only:
            model.topics[wanted.name] += [Log() for _ in range(wanted.count - len(model.topics[wanted.name]))]
        return CreatePartitionsResponse(results=[result])

    def _delete_records(self, model: ModelCluster, node: int, request: DeleteRecordsRequest, version: int) -> Message:
        topics = []
        for topic in request.topics:
            rows = []
            for wanted in topic.partitions:
                log = model.topics[topic.name][wanted.partition_index]
                if log.leader != node:
                    rows.append(DeleteRecordsPartitionResult(wanted.partition_index, -1, 6))
                    continue
                log.start = log.end if wanted.offset < 0 else wanted.offset
                rows.append(DeleteRecordsPartitionResult(wanted.partition_index, log.start, 0))
            topics.append(DeleteRecordsTopicResult(topic.name, rows))
        return DeleteRecordsResponse(topics=topics)

    # -------------------------------------------------------------------------------------------------------- configs

    def _describe_configs(
        self, model: ModelCluster, node: int, request: DescribeConfigsRequest, version: int
    ) -> Message:
        [resource] = request.resources
        kind, name = resource.resource_type, resource.resource_name
        if kind == _TOPIC and name in model.topics:
            rows = [self._topic_config(name, key, value) for key, value in DEFAULTS.items()]
        elif kind == _BROKER:
            assert name == str(node), "a broker tells its own configs"
            rows = self._broker_configs(name)
        else:
            return self._of_groups[0](model, node, request, version)
        return DescribeConfigsResponse(results=[DescribeConfigsResult(0, None, kind, name, rows)])

    def _topic_config(self, topic: str, name: str, default: str) -> DescribeConfigsResourceResult:
        own = self.set[_TOPIC, topic].get(name)
        rows = [] if own is None else [DescribeConfigsSynonym(name, own, _OWN)]
        if self.is_silent:
            config = _config(name, rows)
            config.value = own or default
            return config
        return _config(name, [*rows, DescribeConfigsSynonym(f"log.{name}", default, _source(name))])

    def _broker_configs(self, broker: str) -> list[DescribeConfigsResourceResult]:
        rows = []
        for name, default in (("log.retention.ms", "7"), (SECRET, None), (READ_ONLY, "/data")):
            layers = ((_BROKER_OWN, self.set[_BROKER, broker]), (_ALL_BROKERS, self.set[_BROKER, ""]))
            synonyms = [
                DescribeConfigsSynonym(name, None if name == SECRET else own[name], source)
                for source, own in layers
                if name in own
            ]
            if default is not None:
                synonyms.append(DescribeConfigsSynonym(name, default, _STATIC))
            rows.append(_config(name, synonyms, is_sensitive=name == SECRET, read_only=name == READ_ONLY))
        return rows

    def _alter_some(
        self, model: ModelCluster, node: int, request: IncrementalAlterConfigsRequest, version: int
    ) -> Message:
        [resource] = request.resources
        kind, name = resource.resource_type, resource.resource_name
        if kind not in (_TOPIC, _BROKER):
            return self._of_groups[1](model, node, request, version)
        values = dict(self.set[kind, name])
        for config in resource.configs:
            values.pop(config.name, None)
            if config.config_operation == SET:
                values[config.name] = config.value or ""
        row = self._alter(kind, name, values, validate_only=request.validate_only)
        return IncrementalAlterConfigsResponse(responses=[row])

    def _alter_all(self, model: ModelCluster, node: int, request: AlterConfigsRequest, version: int) -> Message:
        [resource] = request.resources
        values = {config.name: config.value or "" for config in resource.configs}
        row = self._alter(resource.resource_type, resource.resource_name, values, validate_only=request.validate_only)
        return AlterConfigsResponse(responses=[row])

    def _alter(
        self, kind: int, name: str, values: Mapping[str, str], *, validate_only: bool
    ) -> AlterConfigsResourceResponse:
        for config, value in values.items():
            if value.startswith("bad"):
                text = f"Invalid value {value.strip()} for configuration {config}"
                return AlterConfigsResourceResponse(ErrorCode.INVALID_CONFIG, text, kind, name)
        if not validate_only:
            self.set[kind, name] = dict(values)
        return AlterConfigsResourceResponse(0, None, kind, name)


def _source(name: str) -> int:
    return _STATIC if name == "retention.ms" else _DEFAULT


def _config(name: str, synonyms: list[DescribeConfigsSynonym], **flags: Any) -> DescribeConfigsResourceResult:
    first = synonyms[0] if synonyms else DescribeConfigsSynonym(name, None, _DEFAULT)
    return DescribeConfigsResourceResult(
        name=name,
        value=first.value,
        config_source=first.source,
        is_default=first.source == _DEFAULT,
        synonyms=synonyms,
        **flags,
    )
