"""Adoption of Kafka's directories: what the metadata log says then, what is told, and that it is all or nothing."""

from __future__ import annotations

import logging
from random import Random

import pytest

from headgate.gateway.app import adoption
from headgate.gateway.app.adoption import KafkaMetadata
from headgate.gateway.config import BrokerConfig
from headgate.gateway.metadata.image import Image
from headgate.gateway.metadata.metadata_log import replay
from headgate.gateway.metadata.records import quota_records
from headgate.gateway.security.acls.acls_image import binding_of
from headgate.gateway.security.tokens.delegation_token import DelegationToken
from headgate.protocol.internal.metadata import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    AccessControlEntryRecord,
    ConfigRecord,
    DelegationTokenRecord,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UserScramCredentialRecord,
    encode,
)
from headgate.protocol.records.batch import Record, build, read_header
from headgate.protocol.security.quotas import QuotaEntity
from headgate.protocol.security.sasl.scram_keys import ScramCredential
from headgate.storage.directory import kafka_directory
from headgate.storage.directory.kafka_directory import OWN_METADATA
from headgate.storage.disk import layout
from headgate.storage.errors import DirectoryLocked, StorageError
from headgate.storage.log.producers import Producers
from headgate.storage.tests.builders import numbered, open_directory
from headgate.storage.tests.crashing_files import CrashingFiles, PowerCut

NOW_MS = 1_700_000_000_000
IDS = [bytes([number]) * 16 for number in range(1, 6)]
SETTINGS = {"log.dirs": "/data", "node.id": "3"}
METADATA = "/data/__cluster_metadata-0"


def kafkas(*partitions: str, ids: dict[str, bytes] | None = None) -> CrashingFiles:
    files = CrashingFiles()
    files.make_directories("/data")
    files.write("/data/meta.properties", b"version=0\nbroker.id=3\ncluster.id=abcdefghijklmnopqrstuv\n", sync=True)
    files.write("/data/.kafka_cleanshutdown", b"", sync=True)
    for name in partitions:
        files.make_directories(f"/data/{name}")
        files.write(f"/data/{name}/{0:020d}.log", b"")
        topic_id = (ids or {}).get(name)
        if topic_id is not None:
            layout.write_topic_id(files, f"/data/{name}", topic_id)
    return files


def with_metadata(files: CrashingFiles, *records: MetadataRecord | bytes) -> CrashingFiles:
    values = [record if isinstance(record, bytes) else encode(record) for record in records]
    files.make_directories(METADATA)
    files.write(f"{METADATA}/{0:020d}.log", build([Record(value=value) for value in values]))
    return files


def topic(name: str, topic_id: bytes, *leader_epochs: int) -> list[MetadataRecord]:
    partitions = [
        PartitionRecord(partition_id=index, topic_id=topic_id, leader_epoch=epoch)
        for index, epoch in enumerate(leader_epochs)
    ]
    return [TopicRecord(name=name, topic_id=topic_id), *partitions]


def config(resource: str, name: str, value: str | None, kind: int = TOPIC_RESOURCE) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def adopt(files: CrashingFiles, **settings: str) -> bool:
    loaded = BrokerConfig.load("", {**SETTINGS, **{name.replace("_", "."): text for name, text in settings.items()}})
    return adoption.adopt(loaded, files, Random(1), NOW_MS)


def image(files: CrashingFiles) -> Image:
    """What a broker reads."""
    store = open_directory(
        "/data", files=files, node_id=3, config=BrokerConfig.load("").log_config({}), now_ms=NOW_MS, random=Random(2)
    )
    assert store.failed == {}
    found = Image.empty(store.cluster_id).apply_all(replay(store.logs["__headgate_metadata", 0]))
    store.close()
    return found


def test_without_kafkas_metadata_there_are_defaults(caplog: pytest.LogCaptureFixture) -> None:
    files = kafkas("t-0", "t-2", "__consumer_offsets-1", "u-0", ids={"t-0": IDS[0], "t-2": IDS[0]})
    files.write("/data/t-2/leader-epoch-checkpoint", b"0\n1\n4 0\n")
    assert adopt(files)
    found = image(files)
    assert found.cluster_id == "abcdefghijklmnopqrstuv"
    assert {name: len(one.partitions) for name, one in found.topics.items()} == {
        "__consumer_offsets": 2, "t": 3, "u": 1,
    }  # fmt: skip
    assert found.topics["t"].topic_id == IDS[0]
    assert [state.leader_epoch for state in found.topics["t"].partitions] == [0, 0, 5]
    assert all(state.leader == 3 and state.replicas == state.isr == (3,) for state in found.topics["t"].partitions)
    assert found.topics["t"].configs == {}
    assert found.topics["__consumer_offsets"].configs["cleanup.policy"] == "compact"
    made = layout.read_topic_id(files, "/data/u-0")
    assert made == found.topics["u"].topic_id
    for name in ("t", "u", "__consumer_offsets"):
        assert f"{name}: its configs are unknown" in caplog.text
    assert "t: of 3 partitions these are not in log.dirs, and begin empty: 1" in caplog.text
    assert "__consumer_offsets: of 2 partitions these are not in log.dirs, and begin empty: 0" in caplog.text


def test_no_default_deletes_what_kafka_kept(caplog: pytest.LogCaptureFixture) -> None:
    """ZooKeeper had the configs; of a topic that is told by the metadata nothing is guessed."""
    files = kafkas("kept-0", "compacted-0", "young-0", "__consumer_offsets-0")
    files.write("/data/cleaner-offset-checkpoint", b"0\n2\ncompacted 0 5\n__consumer_offsets 0 7\n")
    files.set_modified_ms("/data/.kafka_cleanshutdown", NOW_MS)
    files.set_modified_ms(f"/data/young-0/{0:020d}.log", NOW_MS)
    assert adopt(files)
    topics = image(files).topics
    assert topics["kept"].configs == {"retention.ms": "-1"}
    assert topics["compacted"].configs == {"cleanup.policy": "compact"}
    assert topics["young"].configs == {}
    assert "compression.type" in topics["__consumer_offsets"].configs
    unknown = "its configs are unknown, as ZooKeeper or a lost log has them; it has the defaults, but"
    assert f"kept: {unknown} keeps all, as Kafka kept more of it: set its own retention.ms" in caplog.text
    assert f"compacted: {unknown} is compacted, as it was by Kafka" in caplog.text
    files = with_metadata(kafkas("t-0", "u-0", ids={"u-0": IDS[4]}), *topic("t", IDS[0], 0), *topic("u", IDS[1], 0))
    files.set_modified_ms("/data/.kafka_cleanshutdown", NOW_MS)
    assert adopt(files)
    found = image(files).topics
    assert (found["t"].configs, found["u"].configs) == ({}, {"retention.ms": "-1"})


def test_kafkas_metadata_tells_configs_and_partitions(caplog: pytest.LogCaptureFixture) -> None:
    unknown = bytes.fromhex("01600000")
    files = with_metadata(
        kafkas("t-0", "u-0", "u-1", ids={"t-0": IDS[0]}),
        unknown,
        *topic("t", IDS[0], 7, 9),
        *topic("u", IDS[1], 0, 0),
        *topic("gone", IDS[2], 0),
        *topic("elsewhere", IDS[3], 0),
        config("t", "retention.ms", "5"),
        config("t", "retention.ms", "1000"),
        config("t", "segment.bytes", "2000"),
        config("t", "segment.bytes", None),
        config("u", "remote.storage.enable", "true"),
        config("gone", "retention.ms", "5"),
        config("", "log.cleaner.threads", "3", BROKER_RESOURCE),
        ProducerIdsRecord(broker_id=3, next_producer_id=5000),
        RemoveTopicRecord(topic_id=IDS[2]),
        b"\x01\x02\x00\x7f",
    )
    before = files.list(METADATA)
    with caplog.at_level(logging.INFO):
        assert adopt(files)
    found = image(files)
    assert found.topics.keys() == {"t", "u"}
    assert found.topics["t"].configs == {"retention.ms": "1000"}
    assert [state.leader_epoch for state in found.topics["t"].partitions] == [8, 10]
    assert found.topics["u"].topic_id == IDS[1]
    assert found.next_producer_id == 5000
    assert files.list(METADATA) == before
    for sentence in (
        "2 of them of kinds without meaning here",
        "u: remote.storage.enable is not adopted",
        "1 topics have no partition in log.dirs and are not adopted: elsewhere",
        "configs of broker (the default) are not adopted; set them again if needed: log.cleaner.threads",
        "t: 2 partitions, id",
    ):
        assert sentence in caplog.text


def test_a_directory_of_another_topic_of_that_name(caplog: pytest.LogCaptureFixture) -> None:
    """All that there is of it are the records: they are kept, the configs are not theirs."""
    files = with_metadata(kafkas("t-0", ids={"t-0": IDS[4]}), *topic("t", IDS[0], 3), config("t", "retention.ms", "5"))
    assert adopt(files)
    found = image(files).topics["t"]
    assert (found.topic_id, found.configs) == (IDS[4], {})
    assert "t: its directories belong to another topic of that name" in caplog.text


def test_partitions_of_two_topics_under_one_name() -> None:
    files = kafkas("t-0", "t-1", "t-2", ids={"t-0": IDS[0], "t-1": IDS[1], "t-2": IDS[1]})
    with pytest.raises(StorageError, match=r"/data/t-0: .* belong to another topic with the name t; move"):
        adopt(files)
    with_metadata(files, *topic("t", IDS[0], 0, 0, 0))
    with pytest.raises(StorageError, match=r"/data/t-1, /data/t-2: .* belong to another topic"):
        adopt(files)
    assert kafka_directory.is_kafka_directory(files, ["/data"])


def test_a_partition_far_from_all_others() -> None:
    with pytest.raises(StorageError, match=r"3999999999 of 4000000001 partitions of t are not in log.dirs"):
        adopt(kafkas("t-0", "t-4000000000"))


def test_a_users_directory_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    files = kafkas("t-0")
    files.make_directories("/data/holiday-24")
    pictures = dict.fromkeys(("beach.jpg", "notes.tmp", "pic.index", "readme.swap", "old.deleted"), b"mine")
    for name, content in pictures.items():
        files.write(f"/data/holiday-24/{name}", content)
    assert adopt(files)
    assert "but no files of a log stay unchanged: /data/holiday-24" in caplog.text
    assert image(files).topics.keys() == {"t"}
    assert {name: files.read(f"/data/holiday-24/{name}") for name in files.list("/data/holiday-24")} == pictures


def test_damaged_metadata_is_used_up_to_there(caplog: pytest.LogCaptureFixture) -> None:
    files = with_metadata(kafkas("t-0"), *topic("t", IDS[0], 0), config("t", "retention.ms", "5"))
    files.append(f"{METADATA}/{0:020d}.log", b"torn")
    assert adopt(files)
    assert image(files).topics["t"].configs == {"retention.ms": "5"}
    assert "only the 3 records of Kafka's metadata before that place are used" in caplog.text
    files = kafkas("t-0")
    files.make_directories(METADATA)
    files.write(f"{METADATA}/{0:020d}.log", b"no batch, but more bytes than its header has" * 2)
    assert adopt(files)
    assert "t: its configs are unknown" in caplog.text


def test_producer_ids_begin_behind_those_that_wrote() -> None:
    files = kafkas("t-0")
    producers = Producers()
    producers.record(read_header(numbered(0, producer_id=41)), 0)
    files.write("/data/t-0/00000000000000000001.snapshot", producers.to_snapshot())
    assert adopt(files)
    assert image(files).next_producer_id == 42 + adoption.PRODUCER_IDS_APART


def test_producer_ids_begin_behind_those_of_transactional_ids(caplog: pytest.LogCaptureFixture) -> None:
    """They are in no snapshot any more when the producer was idle for a day."""
    files = kafkas("t-0", "__transaction_state-7")
    values = [b"\x00\x00" + (100).to_bytes(8, "big") + bytes(20), b"\x00\x01" + (70).to_bytes(8, "big"), None, b""]
    path = f"/data/__transaction_state-7/{0:020d}.log"
    files.write(path, build([Record(key=b"k", value=value) for value in values]) + b"torn")
    survey = kafka_directory.survey(files, ["/data"])
    assert adoption.next_transactional_id(files, survey) == 101
    assert "ids of transactional producers after that place are unknown" in caplog.text
    assert adopt(files)
    files.truncate(path, files.size(path) - 4)
    assert image(files).next_producer_id == 101 + adoption.PRODUCER_IDS_APART


def test_partitions_in_several_directories() -> None:
    files = kafkas("t-0", "u-1")
    files.make_directories("/more/t-1")
    files.write(f"/more/t-1/{0:020d}.log", b"")
    files.write("/more/meta.properties", b"version=1\nnode.id=3\ncluster.id=abcdefghijklmnopqrstuv\n")
    assert adopt(files, **{"log.dirs": "/none,/data/,/more"})
    assert OWN_METADATA in files.list("/data")
    assert OWN_METADATA not in files.list("/more")
    assert files.locked == set()
    topic_id = layout.read_topic_id(files, "/data/t-0")
    assert topic_id == layout.read_topic_id(files, "/more/t-1")
    assert {name: len(one.partitions) for name, one in image(files).topics.items()} == {"t": 2, "u": 2}


@pytest.mark.parametrize("settings", [{"node_id": "4"}, {"node_id": "0"}])
def test_another_node_id_is_an_error(settings: dict[str, str]) -> None:
    files = kafkas("t-0")
    before = files.list("/data")
    with pytest.raises(StorageError, match=r"belongs to node.id=3"):
        adopt(files, **settings)
    assert files.list("/data").keys() == before.keys() | {".lock"}


def test_a_running_kafka_has_the_lock() -> None:
    files = kafkas("t-0")
    files.lock("/data/.lock")
    with pytest.raises(DirectoryLocked):
        adopt(files)


def test_what_is_ours_already_is_left_alone() -> None:
    files = kafkas("t-0")
    assert adopt(files)
    before, writes = image(files), files.writes
    assert not adopt(files)
    assert files.writes == writes
    assert image(files) == before
    assert not adopt(kafkas())


def test_where_nothing_is_there_is_nothing_to_adopt() -> None:
    """A directory that is misspelt, or not mounted: no empty broker takes Kafka's place."""
    files = CrashingFiles()
    with pytest.raises(StorageError, match=r"--adopt: log.dirs=/data is no data directory: set the log.dirs of"):
        adopt(files)
    files.make_directories("/data/lost+found")
    with pytest.raises(StorageError, match="is no data directory"):
        adopt(files)
    assert list(files.list("/data")) == ["lost+found"]


def test_cut_short_it_is_kafkas_still_or_wholly_ours() -> None:
    steps = 0
    while True:
        files = kafkas("t-0", "t-1", "u-0", ids={"t-0": IDS[0], "t-1": IDS[0]})
        files.sync_all("/data")
        files.cut_after = steps
        try:
            adopt(files)
        except PowerCut:
            steps += 1
        else:
            break
        after = files.crash(Random(steps), power=True)
        if kafka_directory.is_kafka_directory(after, ["/data"]):
            assert adopt(after)
        assert {name: len(one.partitions) for name, one in image(after).topics.items()} == {"t": 2, "u": 1}
    assert steps > 10
    assert OWN_METADATA in files.list("/data")


def test_a_change_of_kafkas_metadata_counts_when_it_has_ended() -> None:
    begin, end, abort = (bytes((1, kind, 0, 0)) for kind in (23, 24, 25))
    files = with_metadata(
        kafkas("a-0", "b-0", "c-0"),
        begin, *topic("a", IDS[0], 0), config("a", "retention.ms", "1"), end,
        begin, config("a", "retention.ms", "2"), *topic("b", IDS[1], 0), abort,
        config("a", "segment.ms", "7"),
        begin, *topic("c", IDS[2], 0),
    )  # fmt: skip
    assert adopt(files)
    found = image(files).topics
    assert found["a"].configs == {"retention.ms": "1", "segment.ms": "7"}
    assert found["b"].topic_id != IDS[1]
    assert found["c"].topic_id != IDS[2]


def test_delegation_tokens_are_adopted(caplog: pytest.LogCaptureFixture) -> None:
    kept, other = (DelegationTokenRecord("User:a", "User:b", ["User:c"], 1, 3, 2, name) for name in ("kept", "gone"))
    made: list[MetadataRecord] = [kept, other, RemoveDelegationTokenRecord("gone")]
    files = with_metadata(kafkas("t-0"), *topic("t", IDS[0], 0), *map(encode, made))
    assert adopt(files)
    token = DelegationToken("kept", "User:a", "User:b", ("User:c",), 1, 3, 2)
    assert image(files).tokens == {"kept": token}
    assert "1 delegation tokens are adopted, but no client can log in by one" in caplog.text


def test_scram_credentials_are_adopted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    keys = b"salt", b"stored key", b"server key"
    made: list[MetadataRecord] = [
        UserScramCredentialRecord(user, 1, *keys, iterations)
        for user, iterations in (("a", 4096), ("a", 5000), ("b", 1))
    ]
    made.append(RemoveUserScramCredentialRecord("b", 1))
    records = [encode(record) for record in made]
    files = with_metadata(kafkas("t-0"), *topic("t", IDS[0], 0), *records)
    assert adopt(files)
    assert image(files).scram_credentials == {"a": {1: ScramCredential(*keys, 5000)}}
    assert "SCRAM credentials of 1 users" in caplog.text
    assert "stored key" not in caplog.text


def test_quotas_are_adopted_as_they_are_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    ann, default = QuotaEntity.of({"user": "ann"}), QuotaEntity.of({"client-id": None})
    files = with_metadata(
        kafkas("t-0"),
        *topic("t", IDS[0], 0),
        *quota_records(ann, {"producer_byte_rate": 1e6, "request_percentage": 5.0}),
        *quota_records(default, {"consumer_byte_rate": 7.0}),
        *quota_records(ann, {"request_percentage": None, "producer_byte_rate": 2e6}),
    )
    with caplog.at_level(logging.INFO):
        assert adopt(files)
    assert image(files).quotas == {ann: {"producer_byte_rate": 2e6}, default: {"consumer_byte_rate": 7.0}}
    assert "quotas of user 'ann': producer_byte_rate=2e+06" in caplog.text


def acl(number: int, name: str, operation: int = 3) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(number.to_bytes(16, "big"), 2, name, 4, "User:a", "10.0.0.0/8", operation, 2)


def test_acls_are_adopted_but_those_of_a_newer_kafka(caplog: pytest.LogCaptureFixture) -> None:
    records = acl(1, "a"), acl(2, "gone"), acl(3, "new", 99), acl(4, "a"), RemoveAccessControlEntryRecord(acl(2, "").id)
    files = with_metadata(kafkas("t-0"), *topic("t", IDS[0], 0), *records)
    assert adopt(files)
    assert [*image(files).acls.by_id.items()] == [(acl(1, "").id, binding_of(acl(1, "a")))]
    assert "1 ACLs are about resources or operations that are not known here" in caplog.text
    assert "1 ACLs are adopted, but without authorizer.class.name everybody may do everything" in caplog.text


def test_acls_are_adopted_without_any_topic(caplog: pytest.LogCaptureFixture) -> None:
    files = with_metadata(kafkas(), acl(1, "a"))
    assert adopt(files, **{"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})
    assert len(image(files).acls.ids) == 1
    assert "everybody" not in caplog.text


def test_kafkas_metadata_in_a_directory_of_its_own() -> None:
    files = with_metadata(kafkas("t-0"), *topic("t", IDS[0], 0), config("t", "retention.ms", "5"))
    files.make_directories("/meta")
    files.make_directories("/meta/__cluster_metadata-0")
    name = f"{0:020d}.log"
    files.write(f"/meta/__cluster_metadata-0/{name}", files.read(f"{METADATA}/{name}"))
    files.remove_tree(METADATA)
    assert adopt(files, **{"metadata.log.dir": "/meta/"})
    assert image(files).topics["t"].configs == {"retention.ms": "5"}


def test_what_does_not_fit_is_left_out() -> None:
    known = KafkaMetadata()
    for record in (PartitionRecord(topic_id=IDS[0], partition_id=0), RemoveTopicRecord(topic_id=IDS[0])):
        known.apply(record)
    assert known == KafkaMetadata()


def test_the_kafka_of_an_adopted_directory_does_not_come_back() -> None:
    files = kafkas("t-0")
    assert layout.read_meta(files, "/data") == layout.Meta("abcdefghijklmnopqrstuv", 3, "", 0)
    assert adopt(files)
    assert layout.read_meta(files, "/data") == layout.Meta("abcdefghijklmnopqrstuv", 3, "", 1)
