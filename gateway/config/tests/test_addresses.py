"""Settings with addresses."""

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError
from headgate.gateway.config.addresses import canonical, parse_limits, parse_networks


def test_the_last_colon_divides_host_and_limit() -> None:
    assert parse_limits("") == {}
    assert parse_limits("host:1, 192.0.2.1 : 2,::1:3,[::2]:4,0:0:0:0:0:0:0:5:0") == {
        "host": 1,
        "192.0.2.1": 2,
        "::1": 3,
        "::2": 4,
        "::5": 0,
    }


@pytest.mark.parametrize("text", ["x", "-5", "x:", ":5", "x:-5", "x:²", "x:1,", "x:9999999999", "x:1_0"])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.load(f"max.connections.per.ip.overrides={text}")
    (problem,) = refused.value.problems
    assert problem.endswith("allowed is host:limit, separated by commas, as in 192.0.2.1:100")


def test_networks_may_be_addresses() -> None:
    networks = parse_networks(["10.1.2.3/8", "192.0.2.1", "2001:db8::/32"])
    assert [str(network) for network in networks] == ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32"]
    with pytest.raises(ConfigError, match=r"allowed is a list of networks, as in 10\.0\.0\.0/8"):
        BrokerConfig.load("headgate.proxy.trusted=10.0.0.0/33")


def test_an_address_has_one_text() -> None:
    assert canonical("::FFFF:192.0.2.1") == "192.0.2.1"
    assert canonical("2001:DB8:0::1") == "2001:db8::1"
    assert canonical("localhost") is None


def test_a_listener_may_have_its_own_proxies_and_limits() -> None:
    config = BrokerConfig.load(
        "headgate.proxy.trusted=10.0.0.0/8\nlistener.name.plaintext.headgate.proxy.trusted=\n"
        "listener.name.plaintext.max.connections=7\nlistener.name.plaintext.max.connection.creation.rate=8"
    )
    assert config.headgate_proxy_trusted == ("10.0.0.0/8",)
    assert config.listener_value("PLAINTEXT", "headgate.proxy.trusted") == ()
    assert config.listener_value("PLAINTEXT", "max.connections") == 7
    assert config.listener_value("PLAINTEXT", "max.connection.creation.rate") == 8
