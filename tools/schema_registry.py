"""Schemas by id or by subject: of a folder with files, or of a schema registry with Confluent's API.

A folder has `<id>.avsc` and `<subject>.avsc`; the subject of a topic's values is `<topic>-value`, that of its keys
`<topic>-key`. A registry's address comes from the command line, and no other address is ever asked: redirects are
refused.

Source: Confluent's "Schema Registry API Reference"; Apicurio serves the same below `/apis/ccompat/v7`.
"""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from urllib import error, parse, request

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"
_TIMEOUT_S: Final = 30.0
_MOST_BYTES: Final = 16 << 20
_MOST_REFERENCES: Final = 100


class SchemaError(Exception):
    """There is no such schema, or no answer; the text says which, and why."""


class SchemaMissing(SchemaError):
    """The registry or the folder answers, and has no such schema."""


class RegisteredSchema(NamedTuple):
    """A schema with its type, and the schemas that it names, each after those that it names itself."""

    kind: str
    text: str
    references: tuple[str, ...] = ()
    number: int | None = None
    """The id, where the answer has it: that of a registry about a subject has."""


class SchemaSource(Protocol):
    """Where schemas come from."""

    def by_id(self, number: int) -> RegisteredSchema:
        """Raises SchemaError."""

    def by_subject(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject. Raises SchemaError."""


def open_source(where: str, timeout_s: float = _TIMEOUT_S) -> SchemaSource:
    """The schemas of a folder, or of a registry at `http://...` or `https://...`. Raises SchemaError."""
    if where.startswith(("http://", "https://")):
        return SchemaRegistry(where, timeout_s)
    return SchemaFolder(where)


class SchemaFolder:
    """Files of Avro schemas."""

    def __init__(self, path: str) -> None:
        """Raises SchemaError."""
        self._path = Path(path)
        if not self._path.is_dir():
            raise SchemaError(
                f"{path} is neither a folder with files <id>.avsc nor the address of a registry (http://...)"
            )

    def by_id(self, number: int) -> RegisteredSchema:
        """The file of an id. Raises SchemaError."""
        return self._read(str(number))

    def by_subject(self, subject: str) -> RegisteredSchema:
        """The file of a subject. Raises SchemaError."""
        if "/" in subject or subject.startswith("."):
            raise SchemaMissing(f"{subject!r} is no name of a file")
        return self._read(subject)

    def all_by_id(self) -> dict[int, str]:
        """The texts of all files that are named by an id. Raises SchemaError."""
        return {
            int(file.stem): self._read(file.stem).text
            for file in sorted(self._path.glob("*.avsc"))
            if file.stem.isdecimal()
        }

    def _read(self, name: str) -> RegisteredSchema:
        path = self._path / f"{name}.avsc"
        try:
            with path.open("rb") as file:
                return RegisteredSchema(AVRO, file.read(_MOST_BYTES).decode())
        except FileNotFoundError:
            raise SchemaMissing(f"there is no file {path}") from None
        except (OSError, ValueError) as failure:
            raise SchemaError(f"{path} cannot be read: {getattr(failure, 'strerror', None) or failure}") from None


class SchemaRegistry:
    """A registry at an address."""

    def __init__(self, address: str, timeout_s: float = _TIMEOUT_S) -> None:
        self._address = address.rstrip("/")
        self._timeout_s = timeout_s

    def by_id(self, number: int) -> RegisteredSchema:
        """Raises SchemaError."""
        return self._whole(self.ask(f"schemas/ids/{number}"))

    def by_subject(self, subject: str) -> RegisteredSchema:
        """Raises SchemaError."""
        return self._whole(self.ask(f"subjects/{parse.quote(subject, safe='')}/versions/latest"))

    def ask(self, path: str) -> Any:
        """The answer to a GET below the address. Raises SchemaError."""
        address = f"{self._address}/{path}"
        try:
            with _OPENER.open(address, timeout=self._timeout_s) as answer:
                return json.loads(answer.read(_MOST_BYTES))
        except error.HTTPError as failure:
            failure.close()
            kind = SchemaMissing if failure.code == 404 else SchemaError
            raise kind(f"the schema registry does not answer {address}: {failure.code} {failure.reason}") from None
        except (error.URLError, http.client.HTTPException, OSError, ValueError, RecursionError) as failure:
            reason = getattr(failure, "reason", failure)
            raise SchemaError(f"the schema registry does not answer {address}: {reason}") from None

    def _whole(self, row: Any) -> RegisteredSchema:
        """A schema with its references. Raises SchemaError."""
        try:
            kind, text, references = str(row.get("schemaType") or AVRO), str(row["schema"]), row.get("references") or ()
            found: dict[tuple[str, int], str] = {}
            self._add_references(references, found)
            number = int(row["id"]) if "id" in row else None
        except (AttributeError, KeyError, TypeError, ValueError) as failure:
            raise SchemaError(f"the schema registry {self._address} answers with no schema: {failure}") from None
        return RegisteredSchema(kind, text, tuple(found.values()), number)

    def _add_references(self, references: Any, found: dict[tuple[str, int], str], depth: int = 0) -> None:
        for reference in references:
            key = str(reference["subject"]), int(reference["version"])
            if key in found:
                continue
            if len(found) >= _MOST_REFERENCES or depth > _MOST_REFERENCES:
                raise SchemaError(f"a schema of {self._address} refers to more than {_MOST_REFERENCES} others")
            row = self.ask(f"subjects/{parse.quote(key[0], safe='')}/versions/{key[1]}")
            self._add_references(row.get("references") or (), found, depth + 1)
            found[key] = str(row["schema"])


class _NoRedirects(request.HTTPRedirectHandler):
    """A redirect is an error: its target comes from no command line."""

    def redirect_request(self, *_: Any) -> None:
        return None


_OPENER: Final = request.build_opener(_NoRedirects)
