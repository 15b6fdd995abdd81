"""Variables have the values that Kafka's own providers give them; see `scenario`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headgate.gateway.config.providers.sources import ProcessSources
from headgate.gateway.config.providers.tests import scenario
from headgate.gateway.config.providers.variables import ProviderProblem, make_providers

CLASSES = {"file": "File", "directory": "Directory", "env": "EnvVar"}
VARIABLE = r"\$\{[xy]:[^}]*\}"


def answer(kind: str, parameter: str, value: str) -> str:
    """`=` and the value, or `!` and the problem."""
    given = {
        "config.providers": "x",
        "config.providers.x.class": f"org.apache.kafka.common.config.provider.{CLASSES[kind]}ConfigProvider",
    }
    if parameter:
        given[f"config.providers.x.param.{'allowlist.pattern' if kind == 'env' else 'allowed.paths'}"] = parameter
    try:
        return f"={make_providers(given, ProcessSources()).resolve(value)}"
    except ProviderProblem as problem:
        return f"!{problem}"


def test_values_are_those_of_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Kafka fails or leaves a variable in its place, there is a problem; all other values are equal."""
    scenario.write_files(tmp_path)
    for name, text in scenario.ENVIRONMENT.items():
        monkeypatch.setenv(name, text)
    count = 0
    for kind, parameter, value, kafkas in scenario.recorded():
        ours = answer(*(text.replace("@", str(tmp_path)) for text in (kind, parameter, value)))
        is_left = kafkas.startswith("!") or re.search(VARIABLE, kafkas) is not None
        if is_left:
            assert ours.startswith("!"), (kind, parameter, value, kafkas, ours)
        else:
            assert ours.replace(str(tmp_path), "@") == kafkas, (kind, parameter, value)
        count += not is_left
    assert count > 20
