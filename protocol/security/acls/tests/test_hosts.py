"""Hosts: texts of addresses as in Java, networks by their bits, and what a new ACL may have."""

from __future__ import annotations

import pytest

from headgate.protocol.security.acls.hosts import address_text, network_of, networks_with, problem


@pytest.mark.parametrize(
    "host, text",
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:DB8::ff", "2001:db8:0:0:0:0:0:ff"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("localhost", "localhost"),
        ("*", "*"),
        ("", ""),
    ],
)
def test_an_address_has_the_text_of_java(host: str, text: str) -> None:
    assert address_text(host) == text
    assert address_text(text) == text


def test_another_text_of_an_address_means_the_address() -> None:
    assert network_of("::1") in networks_with("0:0:0:0:0:0:0:1")
    assert network_of("2001:db8::1") not in networks_with("2001:db8::2")
    assert network_of("0:0:0:0:0:0:0:1") is network_of("10.0.0.1") is network_of("*") is network_of("a") is None


def test_an_address_in_ipv6_belongs_to_networks_of_ipv4() -> None:
    assert network_of("10.0.0.0/8") in networks_with("::ffff:10.1.1.1")
    assert networks_with("nowhere") == []


@pytest.mark.parametrize("host", ["*", "10.0.0.1", "10.0.0.0/8", "2001:db8::/32", "a.host.of.old.acls", ""])
def test_a_new_acl_may_have_such_a_host(host: str) -> None:
    assert problem(host) is None


@pytest.mark.parametrize("host", ["10.0.0.0/33", "/", "a/b", "10.0.0.0/8/8"])
def test_a_new_acl_may_not_have_such_a_host(host: str) -> None:
    assert problem(host)
