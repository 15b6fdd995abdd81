from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from headgate.spark.load.formats.registry import read_schemas
from headgate.spark.load.output.planning import LoadRefused

pytestmark = pytest.mark.sockets

ANSWERS = {
    "/subjects/a%2Fb-value/versions": [1, 2],
    "/subjects/a%2Fb-value/versions/1": {"id": 7, "schema": "{}"},
    "/subjects/a%2Fb-value/versions/2": {"id": 9, "schema": "[]", "schemaType": "AVRO"},
    "/subjects/json-value/versions": [1],
    "/subjects/json-value/versions/1": {"id": 7, "schema": "{}", "schemaType": "JSON"},
    "/subjects/parts-value/versions": [1],
    "/subjects/parts-value/versions/1": {"id": 7, "schema": "{}", "references": [{}]},
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path)
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def registry() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_all_versions_of_a_subject_are_read(registry: str) -> None:
    assert read_schemas(registry, ["a/b"]) == {7: "{}", 9: "[]"}


@pytest.mark.parametrize(
    "topic, message", [("none", "does not answer .*Not Found"), ("json", "is of type JSON"), ("parts", "refers to")]
)
def test_what_cannot_be_used_is_named(registry: str, topic: str, message: str) -> None:
    with pytest.raises(LoadRefused, match=message):
        read_schemas(registry, [topic])
