from __future__ import annotations

from importlib import import_module

from headgate.gateway.app.inspection.settings import HIDDEN, inspect_settings

SECRETS = """\
listeners=PLAINTEXT://127.0.0.1:9092
log.dirs=/data
ssl.keystore.password=one-secret
ssl.keystore.pasword=two-secret
"""


def test_settings_of_a_file() -> None:
    found = inspect_settings("listeners=PLAINTEXT://127.0.0.1:9092\nlog.dirs=/data\n", ["node.id=3"], "s")
    assert (found["problems"], found["notes"]) == ([], [])
    assert ("node.id", "3") in found["given"]
    assert found["values"]["log_directories"] == ("/data",)
    assert (found["values"]["node_id"], found["values"]["is_node_given"]) == (3, True)
    assert found["values"]["listeners"] == (("PLAINTEXT", "127.0.0.1", 9092),)


def test_secrets_are_hidden_also_under_a_misspelt_name() -> None:
    found = inspect_settings(SECRETS, ["listener.name.x.plain.sasl.jaas.config=three-secret"], "s")
    assert found["values"] is None
    assert found["problems"]
    shown = dict(found["given"])
    assert shown["log.dirs"] == "/data"
    assert [shown[name] for name in ("ssl.keystore.password", "ssl.keystore.pasword")] == [HIDDEN, HIDDEN]
    assert sorted(found["secrets"]) == ["one-secret", "three-secret", "two-secret"]
    assert "secret" not in " ".join(found["problems"]).replace("one-secret", "").replace("password", "")


def test_the_fields_are_those_that_the_tool_expects() -> None:
    tool = import_module("headgate.tools.doctor.inspection")  # gateway and tools import nothing of each other
    report = tool.settings_report(inspect_settings("", [], ""))
    assert report.values.descriptors_needed > 1000
