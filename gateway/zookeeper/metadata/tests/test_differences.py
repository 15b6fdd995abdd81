"""From what the image has to what was read, as records."""

from __future__ import annotations

import pytest

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.metadata.records import quota_records, scram_records
from headgate.gateway.zookeeper.layout.users import USER_RESOURCE
from headgate.gateway.zookeeper.metadata.differences import (
    Touched,
    changed_configs,
    changed_quotas,
    credential_records,
    overlay,
    topic_records,
    touched,
)
from headgate.protocol.internal.metadata import (
    GROUP_RESOURCE,
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from headgate.protocol.security.quotas import QuotaEntity
from headgate.protocol.security.sasl.scram_keys import ScramCredential

ANN = QuotaEntity.of({"user": "ann"})
LED = PartitionState(0, 0, (0,), (0,), 0)
OLD = Topic("t", b"1" * 16, (LED,), {"a": "1", "b": "2"})
IMAGE = Image.empty()._replace(topics={"t": OLD}, topic_names={OLD.topic_id: "t"})


@pytest.mark.parametrize(
    "new",
    [
        OLD,
        OLD._replace(configs={"b": "3", "c": "4"}),
        OLD._replace(partitions=(LED._replace(leader_epoch=1, partition_epoch=1), LED)),
        OLD._replace(topic_id=b"2" * 16, configs={}),
    ],
)
def test_the_records_make_the_other_topic(new: Topic) -> None:
    image = IMAGE.apply_all(topic_records(OLD, new))
    assert image.topics == {"t": new}
    assert image.topic_names == {new.topic_id: "t"}


def test_a_topic_comes_and_goes() -> None:
    assert Image.empty().apply_all(topic_records(None, OLD)).topics == {"t": OLD}
    assert IMAGE.apply_all(topic_records(OLD, None)).topics == {}
    assert topic_records(None, None) == topic_records(OLD, OLD) == []


def test_configs_that_changed() -> None:
    assert changed_configs({"a": "1", "b": "2"}, {"b": "3"}) == {"a": None, "b": "3"}


def test_what_is_there_already_is_not_done_again() -> None:
    created = topic_records(None, OLD)
    assert overlay(IMAGE, created) == IMAGE
    assert overlay(Image.empty(), [RemoveTopicRecord(topic_id=OLD.topic_id)]) == Image.empty()
    with pytest.raises(ValueError, match="exists already"):
        overlay(IMAGE, [TopicRecord(name="t", topic_id=b"2" * 16)])


def test_quotas_that_changed() -> None:
    assert changed_quotas({"a": 1.0, "b": 2.0}, {"b": 3.0}) == {"a": None, "b": 3.0}


def test_what_records_touch() -> None:
    records: list[MetadataRecord] = [
        *topic_records(OLD, OLD._replace(configs={})),
        RemoveTopicRecord(topic_id=OLD.topic_id),
        ConfigRecord(resource_type=GROUP_RESOURCE, resource_name="g", name="n", value="v"),
        *quota_records(ANN, {"producer_byte_rate": 5.0}),
    ]
    assert touched(records, IMAGE) == ({"t"}, {(GROUP_RESOURCE, "g")}, set(), False, {ANN}, set())
    assert touched([ProducerIdsRecord(broker_id=0, next_producer_id=5)], IMAGE).has_others


def test_tokens_are_among_the_subjects_of_records() -> None:
    token = DelegationTokenRecord("User:a", "User:a", [], 1, 2, 2, "made")
    assert touched([token, RemoveDelegationTokenRecord("gone")]).tokens == {"made", "gone"}
    once = overlay(Image.empty(), [token])
    assert overlay(once, [token, RemoveDelegationTokenRecord("gone")]) == once


def test_a_credential_that_is_gone_already_may_be_removed() -> None:
    credential = ScramCredential(b"", b"", b"", 4096)
    image = Image.empty().apply_all(scram_records("ann", {1: credential, 2: credential}))
    removal = scram_records("ann", {1: None})
    once = overlay(image, removal)
    assert overlay(once, removal).scram_credentials == once.scram_credentials == {"ann": {2: credential}}


def test_differences_of_credentials_turn_one_into_the_other() -> None:
    first, second = (ScramCredential(b"", b"", b"", iterations) for iterations in (4096, 5000))
    for old, new in (({1: first}, {1: second, 2: first}), ({1: first, 2: first}, {2: first}), ({1: first}, {})):
        image = Image.empty().apply_all(scram_records("ann", old))
        changed = image.apply_all(credential_records("ann", old, new))
        assert changed.scram_credentials.get("ann", {}) == new
    assert credential_records("ann", {1: first}, {1: first}) == []


def test_users_are_among_the_subjects_of_records() -> None:
    records = scram_records("ann", {1: ScramCredential(b"", b"", b"", 4096), 2: None})
    assert touched(records) == Touched(
        set(), {(USER_RESOURCE, "ann")}, set(), has_others=False, quotas=set(), tokens=set()
    )
