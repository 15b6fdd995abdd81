"""Both steps of a change over ASGI: plan, and apply of exactly the plan that was shown."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
import trio

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.app import make_app
from headgate.tools.console.changes import change_table
from headgate.tools.console.changes.change_routes import CHANGED, MOST_LOGGED, MOST_TEXTS, READS_ONLY, ChangeRequest
from headgate.tools.console.changes.plan import ChangePlan, ChangeResult
from headgate.tools.console.cluster_access import ClusterAccess
from headgate.tools.console.parameters import BadParameter
from headgate.tools.console.tests.asgi import Answer, Peer
from headgate.tools.tests.model_cluster import Log, ModelCluster

DELETE = {"parameters": {"topic": ["orders"]}}


def peer(*, may_write: bool = True) -> Peer:
    return Peer(make_app(ClusterAccess("127.0.0.1:9092", {}, is_loopback=True), may_write=may_write)[0])


async def steps(*contents: tuple[str, Any], browser: Peer | None = None) -> list[Answer]:
    """The answers to posts, as `("delete_topics/plan", {...})`."""
    browser = browser or peer()
    await browser.begin()
    return [await browser.post(f"/api/changes/{path}", content) for path, content in contents]


def test_a_change_is_shown_and_then_made(model: ModelCluster, caplog: pytest.LogCaptureFixture) -> None:
    model.topics["orders"] = [Log(end=3)]

    async def run() -> None:
        [shown] = await steps(("delete_topics/plan", DELETE))
        assert shown.status == 200
        assert shown.json["summary"] == "Delete the topic orders with 3 records"
        assert "orders" in model.topics
        model.topics["orders"][0].end = 4  # somebody produces meanwhile
        given = {**DELETE, "digest": shown.json["digest"]}
        [refused, made] = await steps(
            ("delete_topics/apply", given), ("delete_topics/apply", {**given, "confirmation": "orders"})
        )
        assert (refused.status, refused.json) == (400, {"error": "type orders to confirm the change"})
        assert made.json == {"done": ["The topic orders is deleted"], "failures": [], "details": {}}

    with caplog.at_level(logging.INFO):
        trio.run(run)
    assert "orders" not in model.topics
    assert caplog.messages == ["a visitor without login: Delete the topic orders with 4 records"]


def test_another_plan_than_the_shown_one_is_not_made(model: ModelCluster) -> None:
    model.topics["orders"] = [Log(end=3)]

    async def run() -> None:
        [shown] = await steps(("delete_topics/plan", DELETE))
        model.topics["orders"].append(Log())
        given = {**DELETE, "digest": shown.json["digest"], "confirmation": "orders"}
        [answer] = await steps(("delete_topics/apply", given))
        assert (answer.status, answer.json["error"]) == (409, CHANGED)
        assert answer.json["plan"]["lines"][0]["before"] == "2 partitions"

    trio.run(run)
    assert "orders" in model.topics


def test_a_console_that_reads_changes_nothing(model: ModelCluster) -> None:
    model.topics["orders"] = [Log(end=3)]

    async def run() -> None:
        reader = peer(may_write=False)
        answers = await steps(("delete_topics/plan", DELETE), ("delete_topics/apply", DELETE), browser=reader)
        assert [(each.status, each.json["error"]) for each in answers] == [(403, READS_ONLY)] * 2
        assert (await reader.begin())["may_write"] is False
        assert (await peer().begin())["may_write"] is True

    trio.run(run)
    assert model.asked == []


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"parameters": [1]},
        {"parameters": {"topic": [1]}},
        {"parameters": {"topic": None}},
        {**DELETE, "digest": 3},
        json.loads("[" * 500 + "]" * 500),
    ],
    ids=str,
)
def test_a_body_that_is_no_change_is_refused(content: object) -> None:
    async def run() -> None:
        [answer] = await steps(("delete_topics/apply", content))
        assert answer.status == 400
        assert answer.json["error"].startswith("a change is JSON, as in")

    trio.run(run)


def test_refusals_are_sentences(model: ModelCluster) -> None:
    async def run() -> None:
        found = await steps(("nothing/plan", DELETE), ("delete_topics/plan", {}), ("delete_topics/plan", DELETE))
        assert [each.status for each in found] == [404, 400, 502]
        browser = peer()
        await browser.begin()
        assert (await browser.ask("/api/changes/delete_topics/plan")).status == 404, "a change is no address to open"
        browser.token = ""
        assert (await browser.post("/api/changes/delete_topics/plan", DELETE)).status == 403

    trio.run(run)


@pytest.mark.parametrize(
    "parameters",
    [{"topic": "\ud800"}, {"\udfff": "x"}, {"topic": ["a"] * (MOST_TEXTS + 1)}],
    ids=["value", "name", "many"],
)
def test_parameters_that_cannot_be_used_are_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(BadParameter, match=r"has half of a character|at most 20000 values"):
        ChangeRequest.parse(json.dumps({"parameters": parameters}).encode())


@pytest.mark.parametrize(
    "error, reason",
    [
        (ClientError("the broker is gone"), "; failed, parts may be done: the broker is gone"),
        (ValueError("the secret"), "; failed, parts may be done: ValueError"),
    ],
    ids=["broker", "fault"],
)
def test_a_change_that_is_cut_off_is_logged(
    model: ModelCluster,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
) -> None:
    def fail(_cluster: Cluster) -> ChangeResult:
        raise error

    plan = ChangePlan("Set " + "x" * MOST_LOGGED, [], fail)
    monkeypatch.setattr(change_table.ConsoleChange, "load", lambda _self: lambda _cluster, _parameters: plan)

    async def run() -> None:
        [answer] = await steps(("delete_topics/apply", {**DELETE, "digest": plan.answer()["digest"]}))
        assert answer.status == (502 if isinstance(error, ClientError) else 500)

    with caplog.at_level(logging.INFO):
        trio.run(run)
    [line] = [text for text in caplog.messages if "Set " in text]
    assert line.startswith("a visitor without login: Set xxx")
    assert line.endswith(reason)
    assert len(line) < MOST_LOGGED
    assert not model.asked
