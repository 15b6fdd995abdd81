"""Coverage-guided fuzzing of every reader of bytes from outside, with atheris (libFuzzer).

    python -m headgate.protocol.tests.hostile.fuzz run  until it is stopped; libFuzzer options follow
    python -m headgate.protocol.tests.hostile.fuzz replay build/fuzz/crash-...  a finding, without atheris
    python -m headgate.protocol.tests.hostile.fuzz distill build/fuzz/inputs  lines for the corpus

An input is the number of a subject (`subjects.py`), two bytes, and then what its reader gets. A run begins with what is
good for each subject, with `corpus.txt`, which is what earlier runs found worth keeping (a line each: subject and bytes
in hex), and with what it finds in its directory of inputs. Messages are read by construct too, and both have to agree.

The readers that the compiler writes are instrumented here, in their source: to have atheris change the bytecode of all
of them takes longer than a short run.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from construct import ConstructError

from headgate.protocol import compiler, frame, header, reading
from headgate.protocol.errors import MalformedRequest
from headgate.protocol.internal import consumer_protocol, metadata, offsets, version_prefix
from headgate.protocol.records import (
    batch,
    compression,
    down_conversion,
    legacy,
    lz4,
    message_set,
    record_validation,
    up_conversion,
    varint,
)
from headgate.protocol.schema import tree
from headgate.protocol.tests.hostile.fuzzing import Fuzzer, command_line, instrument_functions
from headgate.protocol.tests.hostile.subjects import SUBJECTS, Subject
from headgate.protocol.tests.values import VERSIONS, written

NUMBER_BYTES: Final = 2
CORPUS: Final = Path(__file__).with_name("corpus.txt")
BY_HAND: Final = (
    *(frame, header, reading, consumer_protocol, metadata, offsets, version_prefix),
    *(batch, compression, down_conversion, record_validation, legacy, lz4, message_set, up_conversion, varint),
)
VERSION_OF: Final = {f"{cls.__name__}-v{version}": (cls, version) for cls, version in VERSIONS}
# Longer inputs find nothing new
MOST_BYTES: Final = 800


def subject_of(data: bytes) -> Subject:
    names = list(SUBJECTS)
    return SUBJECTS[names[int.from_bytes(data[:NUMBER_BYTES], "big") % len(names)]]


def input_of(name: str, data: bytes) -> bytes:
    return list(SUBJECTS).index(name).to_bytes(NUMBER_BYTES, "big") + data


def line_of(data: bytes) -> str:
    """An input as a line of the corpus."""
    return f"{subject_of(data).name} {data[NUMBER_BYTES:].hex()}"


def corpus() -> Iterator[tuple[str, bytes]]:
    """The names and the bytes in the corpus; what is not a subject any more is left out."""
    for line in CORPUS.read_text().splitlines():
        name, _, digits = line.partition(" ")
        if name in SUBJECTS:
            yield name, bytes.fromhex(digits)


def seeds() -> Iterator[bytes]:
    for subject in SUBJECTS.values():
        for good in subject.good():
            yield input_of(subject.name, good)
    for name, data in corpus():
        yield input_of(name, data)


def try_input(data: bytes) -> None:
    """What is done with every input; any exception is a finding. Memory is measured for one in eight: it takes long."""
    subject, rest = subject_of(data), data[NUMBER_BYTES:]
    try:
        if crc32(data) % 8:
            subject.attempt(rest)
        else:
            subject.endure(rest)
        if subject.name in VERSION_OF:
            agree(subject, rest)
    except BaseException:
        print(f"found: {line_of(data)}", file=sys.stderr)
        raise


def agree(subject: Subject, data: bytes) -> None:
    """The reference accepts the same bytes, and makes the same of them."""
    cls, version = VERSION_OF[subject.name]
    try:
        value, _ = subject.read(data)
    except MalformedRequest:
        value = None
    try:
        reference = tree(cls, version).parse(data)
    except ConstructError:
        reference = None
    assert (value is None) == (reference is None)
    if value is not None:
        assert written(value, version) == written(reference, version)


# ----------------------------------------------------------------------------------------------------------- coverage


class Blocks(ast.NodeTransformer):
    """Has every block of a function tell that it was entered."""

    def __init__(self, atheris: Any) -> None:
        self._atheris = atheris

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and not isinstance(node, ast.Module):
                # Looked up when it is called: atheris replaces the function when it begins
                block[:0] = ast.parse(f"atheris._trace_branch({self._atheris._reserve_counter()})").body
        return node


def instrumented(read: Any, atheris: Any) -> Any:
    """A compiled reader that tells its coverage."""
    title, names = read.__code__.co_filename, read.__globals__
    module = Blocks(atheris).visit(ast.parse("".join(linecache.getlines(title))))
    names["atheris"] = atheris
    exec(compile(ast.fix_missing_locations(module), title, "exec"), names)
    return names["read"]


def instrument(atheris: Any) -> None:
    """Have everything that reads tell its coverage."""
    instrument_functions(BY_HAND, atheris)
    for name in VERSION_OF.keys() & SUBJECTS.keys():
        compiler._readers[VERSION_OF[name]] = instrumented(compiler.reader(*VERSION_OF[name]), atheris)


# ------------------------------------------------------------------------------------------------------------ commands


def main(arguments: list[str]) -> None:
    parser, commands = command_line("headgate.protocol.tests.hostile.fuzz", "inputs")
    commands.add_parser("distill", help="print a directory of inputs as lines").add_argument("inputs", type=Path)
    chosen, options = parser.parse_known_args(arguments)
    if chosen.command == "run":
        Fuzzer(try_input, seeds, instrument, MOST_BYTES).run(chosen.inputs, chosen.found, options)
    elif options:
        parser.error(f"unknown: {' '.join(options)}")
    elif chosen.command == "replay":
        for path in chosen.files:
            data = path.read_bytes()
            subject_of(data).endure(data[NUMBER_BYTES:])
            try_input(data)
            print(f"{path} is as it should be: {line_of(data)}")
    else:
        lines = {line_of(path.read_bytes()) for path in chosen.inputs.iterdir()}
        print(*sorted(lines), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
