from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.configs import (
    BROKERS,
    CLIENTS,
    GROUPS,
    IPS,
    TOPICS,
    USERS,
    ConfigChange,
    ConfigEntity,
    EntityConfigs,
)
from headgate.gateway.zookeeper.layout.node import InvalidNode

T = ConfigEntity(TOPICS, "t")
_names = st.none() | st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda name: name not in {".", ".."})
_entities = (
    st.builds(ConfigEntity, st.sampled_from([CLIENTS, USERS, GROUPS]), _names, st.just(False), st.none())
    | st.builds(ConfigEntity, st.just(USERS), _names, st.just(True), _names)
    | st.builds(ConfigEntity, st.just(BROKERS), st.none() | st.integers(0, 99).map(str), st.just(False), st.none())
    | st.just(T)
)
_configs = st.dictionaries(st.text(), st.text(), max_size=3)
_unknown = st.dictionaries(st.from_regex(r"ours_[a-z]{1,3}", fullmatch=True), st.integers() | st.text(), max_size=2)


@pytest.mark.slow
@given(_entities)
def test_entities_round_trip(entity: ConfigEntity) -> None:
    assert ConfigEntity.of(entity.entity_path) == entity


@pytest.mark.slow
@given(_entities, st.builds(EntityConfigs, _configs, _unknown))
def test_configs_round_trip(entity: ConfigEntity, value: EntityConfigs) -> None:
    assert EntityConfigs.decode(entity, value.encode()) == value


@pytest.mark.slow
@given(st.builds(ConfigChange, _entities))
def test_notifications_round_trip(value: ConfigChange) -> None:
    assert ConfigChange.decode("config_change_0000000000", value.encode()) == value


@pytest.mark.parametrize(
    "entity, path",
    [
        (T, "topics/t"),
        (ConfigEntity(BROKERS, "1"), "brokers/1"),
        (ConfigEntity(BROKERS, None), "brokers/<default>"),
        (ConfigEntity(CLIENTS, "an app/1"), "clients/an%20app%2F1"),
        (ConfigEntity(USERS, "<default>"), "users/%3Cdefault%3E"),
        (ConfigEntity(USERS, "CN=ä,O=*~+"), "users/CN%3D%C3%A4%2CO%3D%2A%7E%2B"),
        (ConfigEntity(USERS, "u", has_client=True), "users/u/clients/<default>"),
        (ConfigEntity(USERS, None, has_client=True, client_id="c"), "users/<default>/clients/c"),
        (ConfigEntity(IPS, "::1"), "ips/::1"),
        (ConfigEntity(GROUPS, "a/b"), "groups/a%2Fb"),
    ],
)
def test_names_are_encoded_as_kafka_does(entity: ConfigEntity, path: str) -> None:
    assert entity.entity_path == path
    assert ConfigEntity.of(path) == entity
    assert EntityConfigs.path(entity) == f"/config/{path}"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "topics",
        "topics/",
        "topics/a b",
        "topics/<default>",
        "brokers/one",
        "brokers/01",
        "users/%2f",
        "users/a b",
        "users/%FF",
        "users/a/groups/b",
        "users/a/clients",
        "clients/a/clients/b",
        "changes/config_change_0000000000",
        "client-metrics/a",
    ],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(InvalidNode):
        ConfigEntity.of(path)


@pytest.mark.parametrize(
    "data, entity",
    [
        (b'"t"', T),
        (b'{"version":1,"entity_type":"topics","entity_name":"t"}', T),
        (b'{"version":1,"entity_type":"clients","entity_name":"app"}', ConfigEntity(CLIENTS, "app")),
        (b'{"version":2,"entity_path":"topics/t"}', T),
        (b'{"version":2,"entity_path":"users/u/clients/c"}', ConfigEntity(USERS, "u", True, "c")),
    ],
)
def test_all_three_forms_of_notifications_are_read(data: bytes, entity: ConfigEntity) -> None:
    assert ConfigChange.decode("config_change_0000000000", data) == ConfigChange(entity)


@pytest.mark.parametrize(
    "data",
    [
        b"t",
        b"1",
        b'""',
        b'"a b"',
        b"[]",
        b"{}",
        b'{"version":3,"entity_path":"topics/t"}',
        b'{"version":2,"entity_path":"t"}',
        b'{"version":2}',
        b'{"version":1,"entity_type":"brokers","entity_name":"1"}',
        b'{"version":1,"entity_type":"topics"}',
    ],
)
def test_other_notifications_are_refused_with_their_path(data: bytes) -> None:
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /config/changes/config_change_0000000007: "):
        ConfigChange.decode("config_change_0000000007", data)


def test_notifications_are_written_in_version_2() -> None:
    assert ConfigChange(T).encode() == b'{"version":2,"entity_path":"topics/t"}'
    assert ConfigChange.path() == "/config/changes/config_change_"


def test_no_data_are_no_configs() -> None:
    assert EntityConfigs.decode(T, None) == EntityConfigs.decode(T, b"") == EntityConfigs({})
    assert EntityConfigs.decode(T, b'{"version":1}') == EntityConfigs({})


@pytest.mark.parametrize(
    "data", [b'{"version":2,"config":{}}', b'{"version":1,"config":{"a":1}}', b'{"version":1,"config":[]}', b"x"]
)
def test_other_configs_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidNode, match=r"^ZooKeeper's /config/topics/t: "):
        EntityConfigs.decode(T, data)
