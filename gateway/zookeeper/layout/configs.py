"""`/config`: dynamic configs of topics, brokers, clients, users and addresses, and the notifications of changes.

Names of clients and users are percent-encoded; `<default>` stands for all entities without own configs.
`groups` is Headgate's own: Kafka in ZooKeeper mode has no configs of groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, unquote

from headgate.gateway.zookeeper.layout.node import (
    NO_FIELDS,
    InvalidNode,
    NodeFields,
    child_number,
    child_path,
    decode_fields,
    decode_json,
    encode_object,
    shown,
    topic_child_path,
    with_unknown,
)

CONFIG_PATH: Final = "/config"
CONFIG_CHANGES_PATH: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "config_change_"
TOPICS, BROKERS, CLIENTS, USERS, IPS, GROUPS = "topics", "brokers", "clients", "users", "ips", "groups"
DEFAULT: Final = "<default>"
_ENCODED: Final = (CLIENTS, USERS, GROUPS)
_TYPES: Final = (TOPICS, BROKERS, CLIENTS, USERS, IPS, GROUPS)


class ConfigEntity(NamedTuple):
    """The owner of configs. `name` is not encoded; it is None for the default. `client_id` names a client of a user.

    `has_client` distinguishes the default client of a user (`client_id` None) from the user.
    """

    entity_type: str
    name: str | None
    has_client: bool = False
    client_id: str | None = None

    @property
    def entity_path(self) -> str:
        """The path below `/config`, as notifications have it. Raises InvalidNode for a name that cannot be there."""
        path = f"{self.entity_type}/{_encode_name(self.entity_type, self.name)}"
        return f"{path}/{CLIENTS}/{_encode_name(CLIENTS, self.client_id)}" if self.has_client else path

    @classmethod
    def of(cls, entity_path: str) -> Self:
        """The entity of a path below `/config`. Raises InvalidNode."""
        entity_type, *names = entity_path.split("/")
        has_client = entity_type == USERS and len(names) == 3 and names[1] == CLIENTS
        if entity_type not in _TYPES or not (len(names) == 1 or has_client):
            raise InvalidNode(CONFIG_PATH, f"{shown(entity_path)} names no topic, broker, client, user, ip or group")
        name = _decode_name(entity_type, names[0])
        entity = cls(entity_type, name, has_client, _decode_name(CLIENTS, names[2]) if has_client else None)
        if entity.entity_path != entity_path:
            raise InvalidNode(CONFIG_PATH, f"{shown(entity_path)} is not encoded as Kafka encodes it")
        return entity


class EntityConfigs(NamedTuple):
    """The configs of one entity by Kafka's names. A writer writes the node, then a notification."""

    configs: Mapping[str, str]
    unknown: Mapping[str, Any] = NO_FIELDS

    @staticmethod
    def path(entity: ConfigEntity) -> str:
        """Raises InvalidNode for a name that cannot be in ZooKeeper."""
        return f"{CONFIG_PATH}/{entity.entity_path}"

    def encode(self) -> bytes:
        return with_unknown({"version": 1, "config": dict(self.configs)}, self.unknown)

    @classmethod
    def decode(cls, entity: ConfigEntity, data: bytes | None) -> Self:
        """A node without data has no configs, for example a user with configs of clients only. Raises InvalidNode."""
        if not data:
            return cls({})
        fields = decode_fields(cls.path(entity), data)
        fields.integer("version", 1, low=1, high=1)
        return cls(fields.mapping_of_text("config"), fields.unknown())


class ConfigChange(NamedTuple):
    """A notification of changed configs of this entity. The node is sequential; brokers delete it later."""

    entity: ConfigEntity

    @staticmethod
    def path() -> str:
        """ZooKeeper appends the number."""
        return f"{CONFIG_CHANGES_PATH}/{CONFIG_CHANGE_PREFIX}"

    def encode(self) -> bytes:
        """Version 2."""
        return encode_object({"version": 2, "entity_path": self.entity.entity_path})

    @classmethod
    def decode(cls, name: str, data: bytes | None) -> Self:
        """Version 2 (0.10.1 and newer), version 1 (0.9), or a JSON string, a topic (0.8). Raises InvalidNode."""
        path = f"{CONFIG_CHANGES_PATH}/{name}"
        value = decode_json(path, data)
        try:
            return cls(_changed(NodeFields(path, value)) if isinstance(value, dict) else _changed_topic(path, value))
        except InvalidNode as error:
            raise InvalidNode(path, error.reason) from None


def _changed_topic(path: str, value: object) -> ConfigEntity:
    if not isinstance(value, str):
        raise InvalidNode(path, f"{shown(value)} is not a notification of changed configs")
    topic_child_path(path, value)
    return ConfigEntity(TOPICS, value)


def _changed(fields: NodeFields) -> ConfigEntity:
    if fields.integer("version", low=1, high=2) == 2:
        return ConfigEntity.of(fields.text("entity_path"))
    entity_type = fields.text("entity_type")
    if entity_type not in {TOPICS, CLIENTS}:
        fields.fail(f"`entity_type` {shown(entity_type)} of version 1 is not topics or clients")
    return ConfigEntity.of(f"{entity_type}/{fields.text('entity_name')}")


def _encode_name(entity_type: str, name: str | None) -> str:
    parent = f"{CONFIG_PATH}/{entity_type}"
    if name is None:
        return DEFAULT
    if entity_type == TOPICS:
        topic_child_path(parent, name)
    elif entity_type == BROKERS:
        child_number(parent, name)
    elif entity_type in _ENCODED:
        try:
            # As Java's URLEncoder, whose blanks and asterisks Kafka encodes too
            name = quote(name, safe="").replace("~", "%7E")
        except UnicodeEncodeError:
            raise InvalidNode(parent, f"{shown(name)} has half a character") from None
    child_path(parent, name)
    return name


def _decode_name(entity_type: str, name: str) -> str | None:
    if name == DEFAULT and entity_type != TOPICS:
        return None
    if entity_type not in _ENCODED:
        return name
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError:
        raise InvalidNode(f"{CONFIG_PATH}/{entity_type}", f"{shown(name)} is not UTF-8") from None
