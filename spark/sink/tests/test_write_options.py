"""Options of a write: known ones become a sink, the others are refused with a cure."""

from __future__ import annotations

import pytest

from headgate.spark.sink.marker import SinkRefused
from headgate.spark.sink.sink import Sink
from headgate.spark.sink.write_options import parse

BROKER = {"kafka.bootstrap.servers": "b:1"}


def test_options_become_a_sink_in_any_case_of_letters() -> None:
    options = {"KAFKA.bootstrap.SERVERS": "b:1", "Topic": "t", "queryname": "q", "checkpointLocation": "/c"}
    more = {"kafka.compression.type": "zstd", "kafka.transaction.timeout.ms": "5000", "kafka.acks": "ALL"}
    sink = Sink(**parse(options | more))
    assert (sink.bootstrap, sink.topic, sink.name, sink.checkpoint) == ("b:1", "t", "q", "/c")
    assert (sink.compression, sink.transaction_timeout_ms, sink.delivery_timeout_s) == ("zstd", 5000, 120.0)
    assert Sink(**parse(BROKER | {"name": "n", "queryName": "q"})).name == "n"
    assert parse(BROKER | {"kafka.security.protocol": "PLAINTEXT"})


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("topics", "t", "unknown for a write; did you mean topic?"),
        ("kafka.compresion.type", "lz4", "did you mean kafka.compression.type?"),
        ("zzzzzz", "1", "unknown for a write$"),
        ("kafka.acks", "1", "all in-sync replicas"),
        ("kafka.enable.idempotence", "false", "refused"),
        ("kafka.transactional.id", "x", "the option name makes it"),
        ("kafka.security.protocol", "SASL_SSL", "kafka.sasl.jaas.config is missing; write com.sun"),
        ("kafka.sasl.jaas.config", "secret", "is set without kafka.security.protocol; set"),
        ("kafka.ssl.truststore.locaton", "secret", "the nearest name is kafka.ssl.truststore.location"),
        ("kafka.batch.size", "many", "no number from 1 to"),
        ("kafka.transaction.timeout.ms", "0", "no number from 1 to"),
        ("path", "/x", "named by the option topic"),
    ],
)
def test_other_options_are_refused_with_a_cure(name: str, value: str, text: str) -> None:
    with pytest.raises(SinkRefused, match=text) as error:
        parse(BROKER | {name: value})
    assert "secret" not in str(error.value)


def test_brokers_must_be_named() -> None:
    with pytest.raises(SinkRefused, match="host:port"):
        parse({"topic": "t"})
