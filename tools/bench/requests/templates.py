"""The file that hands requests to the C load generator: per template five little-endian fields, then the frame.

frame length, position of the offset, position of the session, bytes of record batches   uint32 each, 0: none
first offset                                                                             int64
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from headgate.tools.bench.requests.frames import RequestWriter

_HEADER = struct.Struct("<IIIIq")


class Template(NamedTuple):
    """One request as bytes and what the generator patches in it besides the correlation id."""

    frame: bytes
    offset_position: int = 0
    session_position: int = 0
    load_bytes: int = 0
    first_offset: int = 0


def template(writer: RequestWriter, load_bytes: int = 0, first_offset: int = 0) -> Template:
    marks = writer.marks
    offset = marks.get("fetch_offset", 0) or marks.get("committed_offset", 0)
    return Template(writer.frame(), offset, marks.get("session", 0), load_bytes, first_offset)


def write_templates(path: Path, templates: Iterable[Template]) -> None:
    with path.open("wb") as file:
        for one in templates:
            file.write(_HEADER.pack(len(one.frame), *one[1:]))
            file.write(one.frame)
