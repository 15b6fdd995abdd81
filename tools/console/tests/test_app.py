"""Sessions and resources over ASGI, against a modelled cluster."""

from __future__ import annotations

import pytest
import trio

from headgate.tools.client.client import ClientError
from headgate.tools.client.cluster import Cluster
from headgate.tools.console.app import make_app
from headgate.tools.console.cluster_access import ClusterAccess
from headgate.tools.console.tests.asgi import Peer
from headgate.tools.tests.model_cluster import ModelCluster

SASL = {"security.protocol": "SASL_PLAINTEXT"}


def peer(properties: dict[str, str] | None = None) -> Peer:
    return Peer(make_app(ClusterAccess("127.0.0.1:9092", properties or {}, is_loopback=True))[0])


def test_a_visitor_is_in_at_once(model: ModelCluster) -> None:
    async def run() -> None:
        browser = peer()
        assert (await browser.ask("/api/brokers")).status == 401
        session = await browser.begin()
        assert (session["needs_login"], session["user"]) == (False, None)
        answer = await browser.ask("/api/brokers")
        assert answer.status == 200
        assert [row["node_id"] for row in answer.json["brokers"]] == [0, 1, 2]
        assert (await browser.begin())["csrf_token"] == session["csrf_token"]

    trio.run(run)


def test_refusals_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionRefusedError

    async def run() -> None:
        browser = peer()
        await browser.begin()
        assert (await browser.ask("/api/nothing")).json == {"error": "there is no resource 'nothing'"}
        monkeypatch.setattr("headgate.tools.client.client.socket.create_connection", refuse)
        answer = await browser.ask("/api/brokers")
        assert answer.status == 502
        assert "no broker answers at 127.0.0.1:9092" in answer.json["error"]

    trio.run(run)


def test_where_brokers_want_a_login_the_page_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def refresh(self: object, names: object) -> None:
        tried.append(names)
        if len(tried) == 1:
            raise ClientError("127.0.0.1:9092: Authentication failed")

    monkeypatch.setattr(Cluster, "__enter__", lambda self: self)
    monkeypatch.setattr(Cluster, "refresh", refresh)

    async def run() -> None:
        browser = peer(SASL)
        session = await browser.begin()
        assert session["needs_login"]
        assert (await browser.ask("/api/brokers")).json == {"error": "log in to see the cluster"}
        login = {"mechanism": "PLAIN", "user": "ann", "password": "hush"}
        assert (await browser.post("/api/login", {"user": "ann"})).status == 400
        refused = await browser.post("/api/login", login)
        assert (refused.status, refused.json) == (403, {"error": "127.0.0.1:9092: Authentication failed"})
        answer = await browser.post("/api/login", login)
        assert (answer.status, answer.json["user"], answer.json["needs_login"]) == (200, "ann", False)
        assert "hush" not in answer.body.decode()
        before = browser.headers["cookie"]
        browser.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
        assert browser.headers["cookie"] != before
        await browser.begin()
        assert (await browser.post("/api/logout")).status == 200
        assert (await browser.begin())["needs_login"]

    trio.run(run)


def test_the_files_of_the_page_have_their_types() -> None:
    async def run() -> None:
        for path, media_type in (("/app.js", "text/javascript"), ("/vendor/preact.mjs", "text/javascript")):
            answer = await peer().ask(path)
            assert answer.status == 200
            assert answer.headers["content-type"].startswith(media_type)
        assert (await peer().ask("/../app.py")).status == 404

    trio.run(run)
