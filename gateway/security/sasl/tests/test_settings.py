"""The effective SASL settings of a listener, the start with such listeners, and changes at run time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headgate.gateway.config import BrokerConfig, ConfigError, catalogue
from headgate.gateway.security.sasl.mechanisms import check_listeners
from headgate.gateway.security.sasl.settings import BearerSettings, bearer_setting, of_listener
from headgate.protocol.security.secret import Secret

LISTENERS = """
listeners=IN://:9093,OUT://:9094
listener.security.protocol.map=IN:SASL_PLAINTEXT,OUT:SASL_PLAINTEXT
"""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "sasl.enabled.mechanisms=SCRAM-SHA-256\n"
LINE = f'{PLAIN} required user_ann="hunter2";'


@pytest.fixture(autouse=True)
def _served(monkeypatch: pytest.MonkeyPatch) -> None:
    """SASL is served, as soon as the network can."""


def load(text: str) -> BrokerConfig:
    return BrokerConfig.load(LISTENERS + text)


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as refused:
        check_listeners(load(text))
    return refused.value.problems


def test_the_defaults_are_those_of_the_table() -> None:
    for field, default in BearerSettings._field_defaults.items():
        assert catalogue.BROKER[bearer_setting(field)].default_value() == default


def test_a_mechanism_and_a_listener_have_values_of_their_own() -> None:
    name = "connections.max.reauth.ms"
    config = load(
        f"{name}=1\nlistener.name.out.{name}=2\nlistener.name.out.scram-sha-256.{name}=3\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512\nsasl.server.max.receive.size=9\n"
        "listener.name.in.sasl.enabled.mechanisms=SCRAM-SHA-256\nlistener.name.in.sasl.server.max.receive.size=8"
    )
    out, inner = of_listener(config, "OUT"), of_listener(config, "IN")
    assert out.max_reauth_ms == {"SCRAM-SHA-256": 3, "SCRAM-SHA-512": 2}
    assert inner.max_reauth_ms == {"SCRAM-SHA-256": 1}
    assert (out.max_receive_bytes, inner.max_receive_bytes) == (9, 8)
    assert config.notes() == []


def test_a_jaas_line_counts_for_its_mechanism_alone() -> None:
    config = load(f"{SCRAM}listener.name.out.plain.sasl.jaas.config={LINE}\n"
                  "listener.name.out.sasl.enabled.mechanisms=PLAIN")  # fmt: skip
    assert of_listener(config, "OUT").jaas_configs == {"PLAIN": Secret(LINE)}
    assert of_listener(config, "IN").jaas_configs == {}


def test_values_set_at_run_time_count_first() -> None:
    name = "listener.name.out.plain.sasl.jaas.config"
    config = load(f"{SCRAM}{name}={LINE}\nlistener.name.out.sasl.enabled.mechanisms=PLAIN")
    config.change({}, {name: "now"})
    assert of_listener(config, "OUT").jaas_configs == {"PLAIN": Secret("now")}


def test_a_secret_is_never_shown() -> None:
    config = load(f"{SCRAM}listener.name.out.plain.sasl.jaas.config={LINE}\n"
                  "listener.name.out.sasl.enabled.mechanisms=PLAIN\nsasl.jaas.config=hunter2")  # fmt: skip
    shown = f"{of_listener(config, 'OUT')!r}{[str(answer) for answer in config.answers]}"
    assert "hunter2" not in shown
    assert "[hidden]" in shown


def test_a_problem_with_a_jaas_line_has_no_secret() -> None:
    found = problems(f'{SCRAM}listener.name.out.sasl.enabled.mechanisms=PLAIN\n'
                     f'listener.name.out.plain.sasl.jaas.config={PLAIN} required user_ann="hunter2"')  # fmt: skip
    assert found == ("listener.name.out.plain.sasl.jaas.config: JAAS config entry not terminated by semi-colon",)


def test_the_general_jaas_line_has_no_effect_and_says_so() -> None:
    (note,) = load(f"{SCRAM}sasl.jaas.config=x").notes()
    assert "write listener.name.<listener>.<mechanism>.sasl.jaas.config" in str(note)


def test_kafkas_handler_of_tokens_is_accepted_and_others_refused() -> None:
    name = "listener.name.out.oauthbearer.sasl.server.callback.handler.class"
    kafkas = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
    check_listeners(load(f"{SCRAM}{name}={kafkas}"))
    (problem,) = problems(f"{SCRAM}{name}=com.example.Own")
    assert "names a Java class" in problem


def test_each_wrong_listener_has_a_sentence() -> None:
    found = problems("listener.name.in.sasl.enabled.mechanisms=PLAIN")
    assert [problem.partition(" is missing")[0] for problem in found] == [
        "listener.name.in.plain.sasl.jaas.config",
        "listener.name.out.gssapi.sasl.jaas.config",
    ]


@pytest.mark.sockets  # a child process
def test_a_broker_without_sasl_imports_no_mechanism() -> None:
    lines = (
        "import sys; from headgate.gateway.config import BrokerConfig; BrokerConfig.load('')",
        "assert not [name for name in sys.modules if 'security.sasl' in name or name == 'jwt']",
    )
    subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True)
