"""Records of an image make that image again, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.gateway.metadata.image import Image, PartitionState, Topic
from headgate.gateway.metadata.records import config_records, image_records, partition_records
from headgate.gateway.security.acls.acls_image import NO_ACLS, AclsDraft, AclsImage
from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.protocol.acls import AclBinding, AclOperation, AclPermission, AclResource, PatternType
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RemoveTopicRecord,
    decode,
    encode,
)
from headgate.protocol.security.quotas import CLIENT_ID, IP, USER, QuotaEntity
from headgate.protocol.security.sasl.scram_keys import ScramCredential
from headgate.protocol.tests.examples import share

NODE = 7
epochs = st.integers(0, (1 << 31) - 1)
names = st.text("abcXYZ019._-", min_size=1, max_size=12)
nodes = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).map(tuple)
configs = st.dictionaries(names, st.text(max_size=5), max_size=3)
moves = st.just(()) | nodes
states = st.builds(PartitionState, st.integers(-1, 9), epochs, nodes, nodes, epochs, moves, moves)

entities = st.dictionaries(st.sampled_from([USER, CLIENT_ID, IP]), st.none() | names, min_size=1).map(QuotaEntity.of)
quotas = st.dictionaries(names, st.floats(0.1, 1e18), min_size=1, max_size=3)


blobs = st.binary(max_size=4)
credentials = st.dictionaries(
    st.sampled_from([1, 2]), st.builds(ScramCredential, blobs, blobs, blobs, st.integers(4096, 16384)), min_size=1
)
bindings = st.builds(
    AclBinding,
    *(st.sampled_from(AclResource), st.text(min_size=1, max_size=3), st.sampled_from(PatternType)),
    *(st.sampled_from(["User:a", "User:*"]), st.sampled_from(["*", "::1", "10.0.0.0/8"])),
    *(st.sampled_from(AclOperation), st.sampled_from(AclPermission)),
)

principals = st.sampled_from(["User:a", "User:b:c", "Group:"])
times = st.integers(0, 1 << 62)
tokens = st.builds(
    *(DelegationToken, st.text(max_size=3), principals, principals),
    *(st.lists(principals, max_size=3).map(tuple), times, times, times),
)


@st.composite
def images(draw: st.DrawFn) -> Image:
    """An image as a broker may have it; what is not recorded is as in an empty one."""
    topics: dict[str, Topic] = {}
    for name in draw(st.sets(names, max_size=5)):
        topic_id = len(topics).to_bytes(1, "big") + draw(st.binary(min_size=15, max_size=15))
        partitions = tuple(draw(st.lists(states, min_size=1, max_size=4)))
        topics[name] = Topic(name, topic_id, partitions, draw(configs))
    kinds = st.sampled_from([BROKER_RESOURCE, GROUP_RESOURCE])
    return Image.empty()._replace(
        topics=topics,
        topic_names=ids_of(topics),
        features=draw(st.dictionaries(names, st.integers(0, 30), max_size=3)),
        configs=draw(st.dictionaries(st.tuples(kinds, st.text(max_size=3)), configs.filter(bool), max_size=3)),
        next_producer_id=draw(st.integers(0, 1 << 62)),
        scram_credentials=draw(st.dictionaries(st.text(max_size=3), credentials, max_size=3)),
        quotas=draw(st.dictionaries(entities, quotas, max_size=3)),
        acls=acls_of(draw(st.sets(bindings, max_size=4))),
        tokens={token.token_id: token for token in draw(st.lists(tokens, max_size=3))},
    )


def acls_of(made: set[AclBinding]) -> AclsImage:
    draft = AclsDraft(NO_ACLS)
    for number, binding in enumerate(sorted(made)):
        draft.add(number.to_bytes(16, "big"), binding)
    return draft.finish()


def ids_of(topics: dict[str, Topic]) -> dict[bytes, str]:
    return {topic.topic_id: name for name, topic in topics.items()}


@pytest.mark.slow
@settings(max_examples=share(40, soak=5_000))
@given(images())
def test_an_image_comes_back_from_its_records(image: Image) -> None:
    records = [decode(encode(record)) for record in image_records(image._replace(controller_id=NODE), ())]
    assert Image.empty().apply_all(records) == image


@pytest.mark.slow
@given(images(), st.sets(st.binary(min_size=16, max_size=16), max_size=4))
def test_deleted_topics_come_first(image: Image, removed: set[bytes]) -> None:
    records = list(image_records(image, removed))
    deletions = [record.topic_id for record in records if isinstance(record, RemoveTopicRecord)]
    assert deletions == sorted(removed)
    assert records[len(removed) :] == list(image_records(image, ()))


def test_all_that_an_image_has_is_recorded_or_of_this_start() -> None:
    """Whoever gives an image something more decides here whether a snapshot has it."""
    of_this_start = {"cluster_id", "controller_id", "brokers"}
    recorded = {"topics", "topic_names", "features", "configs", "next_producer_id", "scram_credentials"}
    recorded |= {"acls", "quotas", "tokens"}
    assert set(Image._fields) == of_this_start | recorded
    assert set(Topic._fields) == {"name", "topic_id", "partitions", "configs"}
    in_log = {"leader", "leader_epoch", "replicas", "isr", "partition_epoch", "adding_replicas", "removing_replicas"}
    assert set(PartitionState._fields) == in_log


def test_partitions_are_numbered_from_the_first_on() -> None:
    state = PartitionState(leader=1, leader_epoch=2, replicas=(1, 3), isr=(1,), partition_epoch=4)
    made: list[MetadataRecord] = partition_records(b"i" * 16, 5, [state, state])
    assert [record.partition_id for record in made if isinstance(record, PartitionRecord)] == [5, 6]
    assert made[0] == PartitionRecord(
        partition_id=5, topic_id=b"i" * 16, replicas=[1, 3], isr=[1], leader=1, leader_epoch=2, partition_epoch=4
    )


def test_configs_are_set_and_taken_away() -> None:
    assert config_records("t", {"a": "1", "b": None}) == [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="a", value="1"),
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="b", value=None),
    ]
