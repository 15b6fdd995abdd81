"""`/v1/census.json`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import headgate
from headgate.gateway.census import census_json
from headgate.gateway.census.tests.counted_broker import METADATA, CountedBroker
from headgate.gateway.census.tests.open_connections import fetched

PAGE = Path(headgate.__file__).resolve().parents[2] / "docs" / "http.md"


def test_the_answer_over_http_has_present_counts(broker: CountedBroker) -> None:
    connection = broker.connect()
    broker.ask(connection, METADATA, 9)
    broker.ask(connection, fetched("t"), 2)
    answer = json.loads(b"".join(census_json.answer(broker.census, 0, 5).body))
    assert (answer["node_id"], answer["measured_ms"], answer["is_on"], answer["dropped"]) == (0, 5, True, 0)
    (row,) = answer["clients"]
    assert (row["client_id"], row["requests"], row["kafka"]["breaks"]) == ("app", 2, True)


def test_the_page_has_every_field(broker: CountedBroker) -> None:
    (example,) = re.findall(r"^`/v1/census.json`:\n\n```json\n(.*?)```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    broker.ask(broker.connect(), fetched("t"), 2)
    answer = json.loads(b"".join(census_json.answer(broker.census, 0, 5).body))
    shown, row = json.loads(example)["clients"][0], answer["clients"][0]
    assert list(shown) == list(row)
    assert shown["kafka"] == row["kafka"]
    assert list(shown["apis"][0]["versions"][0]) == list(row["apis"][0]["versions"][0])


def test_the_answer_without_a_census_is_empty() -> None:
    answer = json.loads(b"".join(census_json.answer(None, 3, 5).body))
    assert answer == {"node_id": 3, "measured_ms": 5, "is_on": False, "dropped": 0, "clients": []}
