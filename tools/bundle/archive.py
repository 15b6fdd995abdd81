"""The archive of a bundle: files of text, bounded one by one and together, written whole or not at all."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

MAX_FILE_BYTES: Final = 4 << 20
MAX_BYTES: Final = 32 << 20
MANIFEST: Final = "manifest.json"
_MODE: Final = 0o600


class BundleFile(NamedTuple):
    """A file of the bundle. `note`: where it comes from, or why it is short."""

    name: str
    data: bytes
    note: str = ""


def cut_head(name: str, text: str, note: str = "", limit: int = MAX_FILE_BYTES) -> BundleFile:
    """The beginning of a text, in whole lines."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return BundleFile(name, data, note)
    end = data.rfind(b"\n", 0, limit) + 1 or limit
    return BundleFile(name, data[:end], f"{note}; the first {end} of {len(data)} bytes".removeprefix("; "))


def cut_tail(name: str, text: str, note: str = "", limit: int = MAX_FILE_BYTES) -> BundleFile:
    """The end of a text, in whole lines."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return BundleFile(name, data, note)
    begin = data.find(b"\n", len(data) - limit) + 1 or len(data) - limit
    return BundleFile(
        name, data[begin:], f"{note}; the last {len(data) - begin} of {len(data)} bytes".removeprefix("; ")
    )


def bound(files: Iterable[BundleFile], limit: int = MAX_BYTES) -> tuple[list[BundleFile], list[str]]:
    """The files that fit together, the first ones first; and a sentence about each that does not."""
    kept: list[BundleFile] = []
    left_out, size = [], 0
    for file in files:
        if size + len(file.data) > limit:
            left_out.append(f"{file.name}: its {len(file.data)} bytes are beyond the limit of {limit} bytes in all")
        else:
            kept.append(file)
            size += len(file.data)
    return kept, left_out


def manifest(files: Sequence[BundleFile], left_out: Sequence[str]) -> BundleFile:
    """The list of the files, and of everything that is not there."""
    rows = [{"name": file.name, "bytes": len(file.data), "note": file.note or None} for file in files]
    text = json.dumps({"files": rows, "left_out": list(left_out)}, indent=1)
    return BundleFile(MANIFEST, f"{text}\n".encode())


def write(path: Path, folder: str, files: Sequence[BundleFile], now_s: int) -> int:
    """Write a tar.gz with these files below a folder, readable for this user alone; its size. Raises OSError.

    An archive that exists already stays: FileExistsError.
    """
    written = path.with_name(f"{path.name}.part")
    descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
    try:
        with os.fdopen(descriptor, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for file in files:
                entry = tarfile.TarInfo(f"{folder}/{file.name}")
                entry.size, entry.mtime, entry.mode = len(file.data), now_s, _MODE
                archive.addfile(entry, io.BytesIO(file.data))
        os.link(written, path)
    finally:
        written.unlink(missing_ok=True)
    return path.stat().st_size
