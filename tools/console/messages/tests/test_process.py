"""The child's work: an order in, events or bytes out, and each failure as a sentence."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from headgate.tools.console.messages import process
from headgate.tools.console.messages.process import FAILURE, USAGE
from headgate.tools.console.messages.tests.partitions import BOOTSTRAP, fill
from headgate.tools.tests.model_cluster import ModelCluster


def order(work: str, **parameters: str) -> dict[str, Any]:
    return {
        "work": work,
        "bootstrap": BOOTSTRAP,
        "properties": {},
        "parameters": [("topic", "t"), *parameters.items()],
        "schemas": None,
        "descriptor_set": None,
    }


def run(given: dict[str, Any]) -> tuple[int, bytes]:
    out = io.BytesIO()
    code = process.main(io.BytesIO(json.dumps(given).encode() + b"\n"), out)
    return code, out.getvalue()


def test_each_work_has_its_output(model: ModelCluster) -> None:
    fill(model)
    code, out = run(order("search", limit="2"))
    events = [json.loads(line) for line in out.splitlines()]
    assert (code, events[0]["event"], events[-1]["event"]) == (0, "start", "end")
    code, out = run(order("details", start="offset", offset="3", partition="1"))
    assert (code, json.loads(out)["value"]["text"]) == (0, "1/3")
    assert run(order("part", start="offset", offset="3", partition="1")) == (0, b"1/3")
    code, out = run(order("export", format="jsonl", start="oldest", limit="100000"))
    assert (code, len(out.splitlines())) == (0, 60)


@pytest.mark.parametrize(
    "changes, code, sentence",
    [
        ({"parameters": [("topic", "none")]}, FAILURE, "there is no topic none"),
        ({"parameters": [("topic", "t"), ("limit", "-1")]}, USAGE, "limit=-1"),
        ({"schemas": "/no/such/folder"}, FAILURE, "neither a folder"),
        ({"descriptor_set": "/no/such/file"}, FAILURE, "cannot be read"),
        ({"properties": {"security.protocol": "NONE"}}, FAILURE, "security.protocol=NONE"),
        ({"bootstrap": "127.0.0.1:9999"}, FAILURE, "no broker answers"),
    ],
)
def test_failures_are_sentences(
    model: ModelCluster, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], code: int, sentence: str
) -> None:
    fill(model)
    assert run(order("search") | changes)[0] == code
    assert sentence in json.loads(capsys.readouterr().err)["failure"]


def test_too_little_memory_is_a_sentence(
    model: ModelCluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **options: object) -> None:
        raise MemoryError

    monkeypatch.setattr("headgate.tools.console.messages.process.Cluster", fail)
    assert run(order("search"))[0] == FAILURE
    assert "512 MB" in json.loads(capsys.readouterr().err)["failure"]
