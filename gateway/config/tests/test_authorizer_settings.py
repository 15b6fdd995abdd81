"""The settings of the authorizer, as a file has them."""

from __future__ import annotations

import pytest

from headgate.gateway.config import BrokerConfig
from headgate.gateway.config.broker import ACL_AUTHORIZERS, STANDARD_AUTHORIZER, python_class
from headgate.gateway.config.loading import ConfigError


@pytest.mark.parametrize("name", ["", STANDARD_AUTHORIZER, *ACL_AUTHORIZERS, "python:company.kafka:Authorizer"])
def test_a_class_that_can_be_used(name: str) -> None:
    assert BrokerConfig.load(f"authorizer.class.name= {name} ").authorizer_class_name == name


@pytest.mark.parametrize("name", ["org.example.Authorizer", "python:", "python:a", "python::A", "python:a-b:C"])
def test_a_class_that_cannot_be_used(name: str) -> None:
    with pytest.raises(ConfigError, match=r"authorizer\.class\.name=.*python:module:Class"):
        BrokerConfig.load(f"authorizer.class.name={name}")


def test_the_parts_of_a_class_in_python() -> None:
    assert python_class("python:a.b:C") == ("a.b", "C")


def test_super_users_are_separated_by_semicolons() -> None:
    config = BrokerConfig.load("super.users= User:a ;User:CN=b,O=c;;")
    assert config.super_users == {"User:a", "User:CN=b,O=c"}
    assert BrokerConfig.load().super_users == frozenset()


def test_a_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a string in format principalType:principalName but got admin"):
        BrokerConfig.load("super.users=User:a;admin")


def test_the_mode_is_to_enforce_or_to_observe() -> None:
    assert BrokerConfig.load().headgate_authorizer_mode == "enforce"
    with pytest.raises(ConfigError, match=r"headgate\.authorizer\.mode"):
        BrokerConfig.load("headgate.authorizer.mode=watch")
