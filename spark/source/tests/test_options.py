from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.spark.reading.log_reader import IsolationLevel
from headgate.spark.source.options import ReadOptions, Subscription, check_batch, check_stream, parse
from headgate.spark.source.positions import AtOffsets, AtTime, AtTimes, Edge
from headgate.spark.source.tests.fake_log import T0, T1
from headgate.tools.output import UsageError

NEEDED = {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}


def parsed(**more: str) -> ReadOptions:
    return parse(NEEDED | more)


def test_defaults_are_those_of_kafka() -> None:
    options = parse(NEEDED)
    assert options.subscription == Subscription(topics=("t",))
    assert options.isolation is IsolationLevel.READ_UNCOMMITTED
    assert (options.start, options.end) == (None, Edge.LATEST)
    assert options.fails_on_data_loss
    assert not options.has_headers
    assert options.max_trigger_delay_ms == 15 * 60_000


def test_names_are_known_in_any_case() -> None:
    options = parse({"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "a, b,", "StartingOffsets": " Earliest "})
    assert options.subscription.topics == ("a", "b")
    assert options.start is Edge.EARLIEST


@pytest.mark.parametrize(
    "name, text",
    [
        ("startingOffset", "startingOffsets"),
        ("subscribes", "subscribe"),
        ("kafka.bootstrap.server", "kafka.bootstrap.servers"),
        ("kafka.max.poll.recrods", "kafka.max.poll.records"),
        ("zzz", "headgate spark options"),
        ("topic", "subscribe"),
        ("path", "logDirs"),
        ("kafka.auto.offset.reset", "startingOffsets"),
        ("kafka.sasl.jaas.config", "set without kafka.security.protocol; set kafka.security.protocol=SASL_SSL"),
        ("kafka.ssl.truststore.password", "set without kafka.security.protocol; set kafka.security.protocol=SSL"),
        ("kafka.ssl.truststore.locaton", "the nearest name is kafka.ssl.truststore.location"),
        ("kafka.ssl.engine.factory.class", "names a class of Java"),
        ("kafka.key.deserializer", "bytes"),
    ],
)
def test_unknown_and_refused_options_are_named(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=name) as caught:
        parsed(**{name: "hunter2"})
    assert text in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_settings_that_change_no_row_are_accepted() -> None:
    tuned = {"kafka.max.poll.records": "20000", "kafka.fetch.min.bytes": "1048576", "kafka.group.id": "g"}
    assert parsed(**tuned) == parse(NEEDED)
    assert parsed(**{"kafka.security.protocol": "PLAINTEXT"}) == parse(NEEDED)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"subscribe": "t"}, "bootstrap.servers"),
        ({"kafka.bootstrap.servers": "h:1"}, "none is given"),
        (NEEDED | {"assign": '{"t":[0]}'}, "subscribe and assign are given"),
        (NEEDED | {"subscribe": " , "}, "no topic"),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": "("}, "regular expression"),
        ({"kafka.bootstrap.servers": "h:1", "subscribePattern": " "}, "empty"),
        ({"kafka.bootstrap.servers": "h:1", "assign": "{}"}, "no partition"),
        (NEEDED | {"minPartitions": "0"}, "1 or more"),
        (NEEDED | {"maxRecordsPerPartition": "-5"}, "1 or more"),
        (NEEDED | {"startingTimestamp": "soon"}, "startingTimestamp"),
        (NEEDED | {"failOnDataLoss": "yes"}, "true or false"),
        (NEEDED | {"kafka.isolation.level": "serializable"}, "read_committed"),
        (NEEDED | {"maxTriggerDelay": "3 weeks"}, "15m"),
        (NEEDED | {"startingOffsets": '{"t":{"0":-3}}'}, "-2 is the earliest"),
        (NEEDED | {"startingOffsets": "5"}, "startingOffsets: expected JSON"),
        (NEEDED | {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "higher"),
    ],
)
def test_wrong_values_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse(options)


def test_positions_in_the_order_of_kafka() -> None:
    by_times = parsed(startingOffsets="latest", startingOffsetsByTimestamp='{"t":{"0":5,"1":6}}')
    assert by_times.start == AtTimes({T0: 5, T1: 6})
    assert parsed(startingOffsetsByTimestamp="{}", startingTimestamp="7").start == AtTime(7)
    assert parsed(endingOffsets='{"t":{"0":50}}').end == AtOffsets({T0: 50})


def test_log_directories_need_no_broker() -> None:
    options = parse({"logDirs": "/a, /b", "subscribe": "t"})
    assert (options.bootstrap, options.log_directories) == (None, ["/a", "/b"])


def test_the_smaller_size_of_a_response_counts() -> None:
    assert parsed(**{"kafka.max.partition.fetch.bytes": "100", "kafka.fetch.max.bytes": "70"}).partition_bytes == 70


@pytest.mark.parametrize("text, ms", [("250", 250), ("250ms", 250), ("2 s", 2000), ("1min", 60_000), ("1H", 3_600_000)])
def test_delays(text: str, ms: int) -> None:
    assert parsed(maxTriggerDelay=text).max_trigger_delay_ms == ms


def test_a_batch_has_a_start_and_an_end() -> None:
    check_batch(parsed(startingOffsets='{"t":{"0":-2}}', endingOffsets='{"t":{"0":-1}}'))
    for wrong in ({"startingOffsets": "latest"}, {"startingOffsets": '{"t":{"0":-1}}'}):
        with pytest.raises(UsageError, match="cannot start at latest"):
            check_batch(parsed(**wrong))
    for wrong in ({"endingOffsets": "earliest"}, {"endingOffsets": '{"t":{"0":-2}}'}):
        with pytest.raises(UsageError, match="cannot end at earliest"):
            check_batch(parsed(**wrong))


def test_a_stream_has_no_end() -> None:
    check_stream(NEEDED)
    with pytest.raises(UsageError, match="endingTimestamp is not valid in a stream"):
        check_stream(NEEDED | {"EndingTimestamp": "1"})


NAMES = st.sampled_from(
    ["subscribe", "assign", "startingOffsets", "endingTimestamp", "minPartitions", "maxTriggerDelay"]
)


@given(
    st.dictionaries(NAMES | st.text(max_size=9), st.text(max_size=9) | st.sampled_from(["{}", '{"t":{"0":1}}', "5"]))
)
def test_any_options_are_parsed_or_refused_in_a_sentence(options: dict[str, str]) -> None:
    with contextlib.suppress(UsageError):
        parse({"kafka.bootstrap.servers": "h:1"} | options)
