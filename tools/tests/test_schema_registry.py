"""Schemas from a folder, and from a registry on a real socket: no other address is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from headgate.tools.schema_registry import (
    AVRO,
    RegisteredSchema,
    SchemaError,
    SchemaFolder,
    SchemaMissing,
    SchemaRegistry,
    open_source,
)

REFERENCES = [{"name": "b", "subject": "b/x", "version": 1}]
ANSWERS: dict[str, Any] = {
    "/schemas/ids/1": {"schema": '"string"'},
    "/schemas/ids/2": {"schema": "syntax", "schemaType": "PROTOBUF"},
    "/schemas/ids/3": {"schema": "a", "references": REFERENCES},
    "/schemas/ids/4": {"other": 1},
    "/schemas/ids/5": [1],
    "/schemas/ids/6": {"schema": "a", "references": [{"subject": "endless-0", "version": 1}]},
    "/subjects/b%2Fx/versions/1": {"schema": "b", "references": [{"subject": "c", "version": 2}]},
    "/subjects/c/versions/2": {"schema": "c", "references": REFERENCES[:0]},
    "/subjects/orders-value/versions/latest": {"schema": '"long"', "id": 9},
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if "/redirect" in self.path:
            self.send_response(302)
            self.send_header("Location", "/schemas/ids/1")
            self.end_headers()
            return
        answer = ANSWERS.get(self.path)
        if "/endless-" in self.path:
            number = int(self.path.partition("endless-")[2].partition("/")[0])
            answer = {"schema": "x", "references": [{"subject": f"endless-{number + 1}", "version": 1}]}
        self.send_response(404 if answer is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.sockets
def test_schemas_come_by_id_and_by_subject(address: str) -> None:
    source = open_source(f"{address}/")
    assert source.by_id(1) == RegisteredSchema(AVRO, '"string"')
    assert source.by_id(2).kind == "PROTOBUF"
    assert source.by_subject("orders-value").text == '"long"'


@pytest.mark.sockets
def test_references_come_before_what_names_them(address: str) -> None:
    assert SchemaRegistry(address).by_id(3).references == ("c", "b")


@pytest.mark.sockets
@pytest.mark.parametrize(
    "number, sentence", [(4, "answers with no schema"), (5, "answers with no schema"), (6, "more than 100 others")]
)
def test_other_answers_are_sentences(address: str, number: int, sentence: str) -> None:
    with pytest.raises(SchemaError, match=sentence):
        SchemaRegistry(address).by_id(number)


@pytest.mark.sockets
def test_a_missing_schema_differs_from_a_silent_registry(address: str) -> None:
    with pytest.raises(SchemaMissing, match="404"):
        SchemaRegistry(address).by_id(77)
    with pytest.raises(SchemaError, match="does not answer") as silent:
        SchemaRegistry("http://127.0.0.1:1").by_id(1)
    assert not isinstance(silent.value, SchemaMissing)


@pytest.mark.sockets
def test_a_redirect_is_refused(address: str) -> None:
    with pytest.raises(SchemaError, match="302"):
        SchemaRegistry(f"{address}/redirect").by_id(1)


def test_a_folder_has_files_by_id_and_subject(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text('"long"')
    (tmp_path / "orders-value.avsc").write_text('"string"')
    source = SchemaFolder(str(tmp_path))
    assert source.by_id(7).text == '"long"'
    assert source.by_subject("orders-value").text == '"string"'
    assert source.all_by_id() == {7: '"long"'}


def test_a_folder_names_what_it_lacks(tmp_path: Path) -> None:
    source = SchemaFolder(str(tmp_path))
    with pytest.raises(SchemaMissing, match="there is no file"):
        source.by_id(7)
    for subject in ("../secret", "/etc/passwd", ".hidden"):
        with pytest.raises(SchemaMissing, match="no name of a file"):
            source.by_subject(subject)
    (tmp_path / "9.avsc").write_bytes(b"\xff")
    with pytest.raises(SchemaError, match="cannot be read"):
        source.by_id(9)
    with pytest.raises(SchemaError, match="neither a folder"):
        open_source(str(tmp_path / "none"))
