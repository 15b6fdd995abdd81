"""The parts the compiler is made of: sources, runs, and what a node takes at least."""

from __future__ import annotations

import traceback

import pytest
from construct import Construct

from headgate.protocol.emitter import STEP_ELEMENTS, FixedWidthRun, Source, YieldPoints, fixed_format, min_size
from headgate.protocol.messages.fetch import FetchRequest
from headgate.protocol.schema import tree
from headgate.protocol.wire import (
    UUID,
    Array,
    Blob,
    Flag,
    Float64b,
    Int16sb,
    Int32sb,
    Int64sb,
    Length,
    NullableStructNode,
    Text,
)


def test_tracebacks_show_the_lines_of_an_emitted_function() -> None:
    source = Source()
    limit = source.constant("limit", 3)
    with source.block("def check(value)"), source.block(f"if value > {limit}"):
        source.line("raise ValueError(value)")
    check = source.function("check", "<a test>")
    check(3)
    with pytest.raises(ValueError, match="4") as caught:
        check(4)
    assert "raise ValueError(value)" in "".join(traceback.format_tb(caught.tb))


def test_the_same_constant_has_one_name() -> None:
    source, thing = Source(), object()
    assert source.constant("a", thing) == source.constant("b", thing)
    assert source.constant("Fetch", 7) == "Fetch"
    assert source.constant("Fetch", 8) != "Fetch"


def test_a_run_is_one_struct() -> None:
    run = FixedWidthRun()
    assert not run
    run.add("h", "a")
    run.add("?", "b")
    packer, expressions = run.take()
    assert (packer.format, packer.size, expressions) == (">h?", 3, ["a", "b"])
    assert not run


@pytest.mark.parametrize(
    "node, size",
    [
        (Flag, 1),
        (Int16sb, 2),
        (Int64sb, 8),
        (Float64b, 8),
        (UUID, 16),
        (Text(Length.short(nullable=True)), 2),
        (Blob(Length.long(nullable=False)), 4),
        (Array(Length.compact(nullable=False), Int32sb), 1),
        (tree(FetchRequest, 0), 16),
        (tree(FetchRequest, 12), 29),
        (NullableStructNode(tree(FetchRequest, 12)), 1),
    ],
)
def test_nodes_have_minimum_sizes(node: Construct, size: int) -> None:
    assert min_size(node) == size


def test_an_unknown_node_is_named() -> None:
    assert fixed_format(Length.short(nullable=False)) is None
    with pytest.raises(TypeError, match="no rule for"):
        min_size(Length.short(nullable=False))


@pytest.mark.parametrize("is_enabled", [False, True])
def test_an_emitted_function_yields_if_enabled(is_enabled: bool) -> None:
    source = Source()
    yield_points = YieldPoints(source, is_enabled)
    with source.block("def count(number)"):
        yield_points.begin()
        with source.block("for _ in range(number)"):
            source.line("pass")
            yield_points.count_element()
        source.line("return number")
    count = source.function("count", "<a test>")
    if is_enabled:
        assert len(list(count(0))) == 0
        assert len(list(count(3 * STEP_ELEMENTS))) == 3
    else:
        assert count(3) == 3
