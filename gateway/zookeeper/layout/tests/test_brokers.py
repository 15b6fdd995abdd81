from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.zookeeper.layout.brokers import AdvertisedEndpoint, BrokerRegistration, broker_id_of
from headgate.gateway.zookeeper.layout.node import MAX_INT64, InvalidNode

_hosts = st.from_regex(r"[a-z0-9.-]{1,20}|[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,7}", fullmatch=True)
_protocols = st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
_endpoints = st.builds(
    AdvertisedEndpoint, st.from_regex(r"[A-Z_]{1,9}", fullmatch=True), _hosts, st.integers(0, 65535), _protocols
)
_levels = st.tuples(st.integers(0, 9), st.integers(0, 9))


@pytest.mark.slow
@given(
    st.builds(
        BrokerRegistration,
        st.lists(_endpoints, max_size=3, unique_by=lambda one: one.listener).map(tuple),
        st.integers(-1, MAX_INT64),
        st.none() | st.text(),
        st.integers(-1, 65535),
        st.dictionaries(st.text(max_size=9), _levels, max_size=2),
    )
)
def test_registrations_round_trip(value: BrokerRegistration) -> None:
    assert BrokerRegistration.decode(1, value.encode()) == value


def test_old_clients_get_the_first_endpoint_without_encryption() -> None:
    endpoints = (
        AdvertisedEndpoint("SSL", "a", 1, "SSL"),
        AdvertisedEndpoint("CLIENTS", "b", 2, "PLAINTEXT"),
        AdvertisedEndpoint("PLAINTEXT", "c", 3, "PLAINTEXT"),
    )
    assert b'"port":2,"host":"b"' in BrokerRegistration(endpoints).encode()
    assert b'"port":-1,"host":null' in BrokerRegistration(endpoints[:1]).encode()


@pytest.mark.parametrize(
    "data, endpoints",
    [
        (
            b'{"jmx_port":-1,"timestamp":"5","host":"h","version":1,"port":9092}',
            (AdvertisedEndpoint("PLAINTEXT", "h", 9092, "PLAINTEXT"),),
        ),
        (
            b'{"jmx_port":-1,"timestamp":"5","endpoints":["PLAINTEXT://h:1","SSL://h:2"],"host":"h","version":2,"port":1}',
            (AdvertisedEndpoint("PLAINTEXT", "h", 1, "PLAINTEXT"), AdvertisedEndpoint("SSL", "h", 2, "SSL")),
        ),
        (
            b'{"jmx_port":-1,"timestamp":"5","endpoints":["SSL://[::1]:2"],"host":null,"version":3,"port":-1,"rack":"r"}',
            (AdvertisedEndpoint("SSL", "::1", 2, "SSL"),),
        ),
        (
            (
                b'{"listener_security_protocol_map":{"IN":"SASL_SSL"},"endpoints":["IN://h:2"],"jmx_port":-1,"host":null,'
                b'"timestamp":"5","port":-1,"version":4}'
            ),
            (AdvertisedEndpoint("IN", "h", 2, "SASL_SSL"),),
        ),
    ],
)
def test_versions_1_to_4_are_read(data: bytes, endpoints: tuple[AdvertisedEndpoint, ...]) -> None:
    registration = BrokerRegistration.decode(0, data)
    assert registration.endpoints == endpoints
    assert registration.timestamp_ms == 5
    assert registration.rack == ("r" if b"rack" in data else None)


@pytest.mark.parametrize(
    "data, reason",
    [
        (b'{"version":0,"host":"h","port":1}', "`'version'` must be an integer from 1"),
        (b'{"version":1,"host":"h","port":"1"}', "`'port'` must be an integer"),
        (b'{"version":1,"host":null,"port":1}', "`'host'` must be a string"),
        (b'{"version":2,"endpoints":"PLAINTEXT://h:1"}', "an array of strings"),
        (b'{"version":2,"endpoints":["PLAINTEXT:h:1"]}', "is not LISTENER://host:port"),
        (b'{"version":2,"endpoints":["PLAINTEXT://h:70000"]}', "is not LISTENER://host:port"),
        (b'{"version":2,"endpoints":["IN://h:1"]}', "the security protocol of the listener 'IN' is ''"),
    ],
)
def test_other_registrations_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(InvalidNode, match=rf"^ZooKeeper's /brokers/ids/0: .*{reason}"):
        BrokerRegistration.decode(0, data)


def test_an_unreadable_timestamp_is_no_error() -> None:
    """Nobody but people reads it."""
    for timestamp in ('"soon"', "null", "-5", "true", '"-1"', '"99999999999999999999"'):
        data = f'{{"version":1,"host":"h","port":1,"timestamp":{timestamp}}}'
        assert BrokerRegistration.decode(0, data.encode()).timestamp_ms == -1


def test_ids_are_decimal() -> None:
    assert BrokerRegistration.path(7) == "/brokers/ids/7"
    assert broker_id_of("7") == 7
    for name in ("seven", "07", "-7"):
        with pytest.raises(InvalidNode, match=r"^ZooKeeper's /brokers/ids/"):
            broker_id_of(name)
