"""The broker's configuration as the rest of the program sees it."""

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError, Listener
from headgate.gateway.config.definition import LONG_MAX, Effect

# The settings of the server.properties that Apache Kafka 2.8 and 4.1 are shipped with.
KAFKA_2_8 = """
broker.id=0
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kafka-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
group.initial.rebalance.delay.ms=0
"""
KAFKA_4_1 = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
log.dirs=/tmp/kraft-combined-logs
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(text)
    return caught.value.problems


def test_without_a_word() -> None:
    config = BrokerConfig.load()
    assert config.node_id == 0
    assert config.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert config.advertised_listeners == ()
    assert config.log_directories == ("data",)
    assert config.socket_send_buffer_bytes == 102400
    assert config.answers == ()


def test_names_and_attributes_are_the_same() -> None:
    config = BrokerConfig.load("num.partitions=7\nnum.io.threads=3")
    assert config.num_partitions == config["num.partitions"] == 7
    assert config["num.io.threads"] == 3
    assert config["num.network.threads"] is None
    with pytest.raises(KeyError, match=r"the nearest name is num\.partitions"):
        config["num.partition"]


@pytest.mark.parametrize(
    "text, node_id",
    [
        ("", 0),
        ("broker.id=4", 4),
        ("node.id=3", 3),
        ("node.id=3\nbroker.id=3", 3),
        ("broker.id=-1", 0),
        ("broker.id=0", 0),
    ],
)
def test_node_id(text: str, node_id: int) -> None:
    assert BrokerConfig.load(text).node_id == node_id


def test_two_ids_are_one_too_many() -> None:
    assert problems("broker.id=1\nnode.id=2") == (
        "server.properties line 1: broker.id=1: node.id is 2; they mean the same, so remove one",
    )


def test_directories() -> None:
    assert BrokerConfig.load("log.dir=/a").log_directories == ("/a",)
    assert BrokerConfig.load("log.dir=/a\nlog.dirs=/b").log_directories == ("/b",)
    assert BrokerConfig.load("log.dirs=/a,/b").log_directories == ("/a", "/b")
    assert "a directory is listed twice" in problems("log.dirs=/a,/b,/a/")[0]
    for empty in ("log.dir=", "log.dirs=", "log.dirs=/a,,/b", "log.dir=/a\nlog.dirs="):
        assert "a directory name is empty" in problems(empty)[0]


def test_the_file_that_kafka_2_8_comes_with() -> None:
    config = BrokerConfig.load(KAFKA_2_8)
    assert len(config.answers) == KAFKA_2_8.strip().count("\n") + 1
    assert {answer.name for answer in config.notes()} >= {"num.io.threads", "num.network.threads"}
    assert config.zookeeper_connect == "localhost:2181"
    assert "num.partitions" not in {answer.name for answer in config.notes()}


def test_the_file_that_kafka_4_1_comes_with() -> None:
    config = BrokerConfig.load(KAFKA_4_1)
    assert config.listeners == (Listener("PLAINTEXT", "", 9092),)
    assert config.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    left_out = [answer.reason for answer in config.answers if answer.value == ""]
    assert left_out == [
        "there is no KRaft quorum: CONTROLLER is left out of listeners",
        "there is no KRaft quorum: CONTROLLER is left out of advertised.listeners",
    ]


def test_a_controller_alone_is_refused() -> None:
    assert "this program runs only the broker role" in problems("process.roles=controller")[0]


def test_listeners_are_checked() -> None:
    assert "add FOO:PLAINTEXT to it" in problems("listeners=FOO://:9092")[0]
    assert "'x' is not NAME:PROTOCOL" in problems("listener.security.protocol.map=x")[0]
    assert (
        BrokerConfig.load("listeners=FOO://:9092\nlistener.security.protocol.map=foo:PLAINTEXT").listeners[0].name
        == "FOO"
    )
    found = problems("listeners=PLAINTEXT://0.0.0.0:9092\nadvertised.listeners=PLAINTEXT://0.0.0.0:9092")
    assert len(found) == 1
    assert found[0].startswith(
        "server.properties line 2: advertised.listeners=PLAINTEXT://0.0.0.0:9092: clients cannot connect to 0.0.0.0,"
    )


def test_clients_are_told_the_address_that_they_connected_to() -> None:
    assert BrokerConfig.load("listeners=PLAINTEXT://:9092").advertised_address("PLAINTEXT", "10.0.0.7", 9092) == (
        "10.0.0.7",
        9092,
    )


def test_or_the_one_that_is_configured() -> None:
    text = (
        "listeners=PLAINTEXT://:0,INSIDE://:9093\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT\n"
    )
    config = BrokerConfig.load(text + "advertised.listeners=PLAINTEXT://kafka.example:0,INSIDE://inside.example:19093")
    assert config.advertised_address("PLAINTEXT", "10.0.0.7", 40123) == ("kafka.example", 40123)
    assert config.advertised_address("INSIDE", "10.0.0.7", 9093) == ("inside.example", 19093)


TWO_LISTENERS = (
    "listeners=OUT://:9092,IN://:9093\nlistener.security.protocol.map=OUT:PLAINTEXT,IN:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
)


@pytest.mark.parametrize(
    "text, listener",
    [
        ("", "PLAINTEXT"),
        ("inter.broker.listener.name=plaintext", "PLAINTEXT"),
        ("security.inter.broker.protocol=PLAINTEXT", "PLAINTEXT"),
        (TWO_LISTENERS, "OUT"),
        (f"{TWO_LISTENERS}inter.broker.listener.name=in", "IN"),
        (TWO_LISTENERS.replace("OUT://:9092", "OUT://:9092,PLAINTEXT://:9094"), "PLAINTEXT"),
        (f"{TWO_LISTENERS}advertised.listeners=IN://a:1\ninter.broker.listener.name=IN", "IN"),
    ],
)
def test_the_listener_between_brokers(text: str, listener: str) -> None:
    assert BrokerConfig.load(text).inter_broker_listener == listener


def test_other_brokers_must_be_able_to_connect() -> None:
    name, protocol = "inter.broker.listener.name", "security.inter.broker.protocol"
    assert f"Only one of {name} and {protocol} should be" in problems(f"{name}=PLAINTEXT\n{protocol}=PLAINTEXT")[0]
    assert f"{name}=LOST: LOST is not among listeners, which has OUT, IN" in problems(f"{TWO_LISTENERS}{name}=LOST")[0]
    assert "PLAINTEXT is not among listeners" in problems(f"{TWO_LISTENERS}{protocol}=PLAINTEXT")[0]
    found = problems(f"{TWO_LISTENERS}advertised.listeners=OUT://a:1\n{name}=IN")
    assert "IN is not among advertised.listeners, which has OUT" in found[0]
    assert "allowed is one of: PLAINTEXT, SSL" in problems(f"{protocol}=NONE")[0]


def test_a_listener_may_have_a_value_of_its_own() -> None:
    name = "headgate.fetch.isolation.default"
    config = BrokerConfig.load(
        "listeners=PLAINTEXT://:9092,LEGACY://:9093\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,LEGACY:PLAINTEXT\n"
        f"listener.name.legacy.{name}=read_committed"
    )
    assert (config.listener_value("LEGACY", name), config.listener_value("PLAINTEXT", name)) == ("read_committed", None)
    assert config[name] == "read_uncommitted"
    assert config.notes() == []
    with pytest.raises(ConfigError, match="allowed is"):
        BrokerConfig.load(f"listener.name.legacy.{name}=serializable")


def test_bounds_must_be_in_order() -> None:
    text = "group.consumer.session.timeout.ms=10000"  # without its lower bound: Kafka refuses it too
    bound = "group.consumer.min.session.timeout.ms=45000 must not exceed group.consumer.session.timeout.ms=10000"
    assert bound in problems(text)[0]
    text = "group.min.session.timeout.ms=5000\ngroup.max.session.timeout.ms=4000"
    assert "group.min.session.timeout.ms=5000 must not exceed group.max.session.timeout.ms=4000" in problems(text)[0]


def test_no_limit_is_a_large_limit() -> None:
    assert BrokerConfig.load("queued.max.request.bytes=-1").queued_max_request_bytes == LONG_MAX


def test_secrets_do_not_show() -> None:
    config = BrokerConfig.load("ssl.keystore.password=hush")
    assert "hush" not in repr(config) + str([str(answer) for answer in config.answers])
    assert repr(config) == "BrokerConfig(ssl.keystore.password=[hidden])"
    assert config["ssl.keystore.password"].text == "hush"


def test_notes_are_what_a_person_should_see() -> None:
    config = BrokerConfig.load("num.partitions=2\nnum.io.threads=2\ntransaction.two.phase.commit.enable=true")
    assert [(note.name, note.effect) for note in config.notes()] == [
        ("num.io.threads", Effect.NONE),
        ("transaction.two.phase.commit.enable", Effect.PENDING),
    ]


def test_values_of_a_listener_that_does_not_exist_are_noted() -> None:
    config = BrokerConfig.load("listener.name.nosuch.ssl.client.auth=none\nlistener.name.PLAINTEXT.ssl.protocol=TLS")
    assert [(note.effect, note.reason) for note in config.notes()] == [
        (Effect.NONE, "no listener has the name nosuch; in lower case, the names are plaintext"),
        (Effect.NONE, "no listener has the name PLAINTEXT; in lower case, the names are plaintext"),
    ]


def test_a_value_of_this_broker_alone_is_that_of_now() -> None:
    config = BrokerConfig.load("ssl.client.auth=required")
    assert (config.present_value("ssl.client.auth"), config.present_value("ssl.protocol")) == ("required", "TLSv1.3")
    config.change({}, {"ssl.client.auth": "none", "listener.name.plaintext.ssl.protocol": "TLS"})
    assert config.present_value("ssl.client.auth") == "none"
    assert config.listener_value("PLAINTEXT", "ssl.protocol") == "TLS"
