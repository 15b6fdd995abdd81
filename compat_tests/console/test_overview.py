"""The overview of several brokers: what the page makes of the answers of each."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

MERGED = "async (brokers) => (await import('/components/live.js')).mergedApis(brokers)"
LATEST = "async (brokers) => (await import('/components/live.js')).latest(brokers, 'connections')"


def api(name: str, rate: float, mean: float | None, p99: float | None) -> dict[str, Any]:
    return {"api": name, "requests_per_s": rate, "mean_ms": mean, "p99_ms": p99}


def test_apis_of_all_brokers_are_one_list(page: Page, console_address: str) -> None:
    page.goto(console_address)
    brokers = [
        {"name": "broker 0", "apis": [api("Fetch", 3, 10, 20), api("Produce", 1, None, None)]},
        {"name": "broker 1", "apis": [api("Produce", 7, 2, 9), api("Fetch", 1, 30, 40)]},
    ]
    produce, fetch = page.evaluate(MERGED, brokers)
    assert (produce["api"], produce["requests_per_s"], produce["mean_ms"], produce["slowest"]) == (
        *("Produce", 8, 2),
        "broker 1",
    )
    assert (fetch["requests_per_s"], fetch["mean_ms"], fetch["p99_ms"], fetch["slowest"]) == (4, 15, 40, "broker 1")


def test_numbers_are_those_of_brokers_that_answer(page: Page, console_address: str) -> None:
    page.goto(console_address)
    brokers = [
        {"error": None, "values": {"connections": [4, 5, None]}},
        {"error": "it does not answer", "values": {"connections": [7, None]}},
    ]
    assert page.evaluate(LATEST, brokers) == 5
    assert page.evaluate(LATEST, brokers[1:]) is None
