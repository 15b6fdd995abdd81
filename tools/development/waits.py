"""The check of waits: whatever waits is a task (`gateway/runtime/tasks.py`), and no older way comes back.

| what it finds | in its place |
|---|---|
| a coroutine in a module that does not import trio (`lint-imports` knows those that may) | a task |
| a parameter or a field for a callback, such as `done` | a task's result, or an `Ask`, whose parameter is `resume` |
| a class for one kind of wait: a latch, a waiting or a delayed request | the local variables of a task |
| a second `Steps` | `protocol.steps.Steps`: work that waits for nothing |
| a flag that says that work is in progress | `SingleTask`, or a task that is there or not |

`ALLOWED` has the exceptions, with reasons. An exception that nothing needs is a finding too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from headgate.tools.development.syntax import parsed

_PRODUCT: Final = re.compile(r"(?!.*/tests/|.*/conftest)(?:protocol|storage|gateway)/.*\.py")
_STEPS: Final = "protocol/steps.py"
_CALLBACKS: Final = re.compile(r"_?(?:done|callback|finished?|then|told|answered|on_(?:done|end|result|error))")
_CLASSES: Final = re.compile(r"_?(?:Waiting|Delayed|Parked)\w*|\w*Latch")
_FLAGS: Final = re.compile(
    r"_?is_(?:asked|asking|busy|in_progress|loading|paused|performing|reading|sending|settling|waiting|writing)"
)

_TASKS: Final = "gateway/runtime/tasks.py"
_STARTS: Final = "the caller takes the result of a task, and is no task"
_DISPATCH: Final = "gateway/api/dispatch.py"
_PARKED: Final = "gateway/api/parked.py"
_CLIENT: Final = "the edge to the connections: a connection is no task"
_TIMER: Final = "a function of a timer gets no result"
ALLOWED: Final[Mapping[str, str]] = {
    f"{_TASKS} __init__": _STARTS,
    f"{_TASKS} run": _STARTS,
    f"{_TASKS} start": _STARTS,
    f"{_TASKS} start_later": _STARTS,
    f"{_DISPATCH} dispatch": _CLIENT,
    f"{_DISPATCH} _dispatch_timed": _CLIENT,
    f"{_DISPATCH} _parked": _CLIENT,
    f"{_DISPATCH} _shared": _CLIENT,
    f"{_PARKED} Parked": _CLIENT,
    f"{_PARKED} ParkedRequest": _CLIENT,
    f"{_PARKED} __init__": _CLIENT,
    f"{_PARKED} join": _CLIENT,
    "gateway/api/delayed_produce.py DelayedProduce": "one task for a request; each append ends by a plain call",
    "gateway/maintenance/cleaner_process.py ProcessWorker._is_asked": "says if a thread waits for the process",
    "gateway/metadata/store.py MetadataStore._is_settling": "a guard: a listener may submit the next change",
    "gateway/replication/leader_epoch_bumps.py LeaderEpochBumps._is_waiting": "says if a timer is set",
    "gateway/runtime/scheduler.py __init__": _TIMER,
    "gateway/zookeeper/membership/pump.py __init__": _TIMER,
    "gateway/zookeeper/store/metadata_store.py ZooKeeperMetadataStore._is_waiting": "says if a timer is set",
}
"""Path of a module, and the name of a class, a flag or the function of a parameter -> the reason."""


def findings(sources: Mapping[str, str], allowed: Mapping[str, str] = ALLOWED) -> Iterator[str]:
    """The older ways to wait in modules (path -> text), and exceptions that nothing needs."""
    unneeded = dict(allowed)
    for path, source in sources.items():
        if _PRODUCT.fullmatch(path):
            for line, name, what in _places(path, parsed(path, source)):
                if f"{path} {name}" in allowed:
                    unneeded.pop(f"{path} {name}", None)
                else:
                    yield f"{path}:{line}: {name}: {what}; or name the exception in tools/development/waits.py"
    for place in unneeded:
        if place.split(" ")[0] in sources:
            yield f"{place}: no older way to wait; remove the exception from tools/development/waits.py"


def _places(path: str, tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    nodes = list(ast.walk(tree))
    is_edge = any(isinstance(node, ast.Import) and "trio" in {name.name for name in node.names} for node in nodes)
    for node in nodes:
        if isinstance(node, ast.AsyncFunctionDef) and not is_edge:
            yield node.lineno, node.name, "a coroutine; write a task"
        if isinstance(node, ast.FunctionDef) and not node.name.lstrip("_").startswith("call"):  # a timer
            for argument in (*node.args.args, *node.args.kwonlyargs):
                if _is_callback(argument.arg, argument.annotation):
                    yield node.lineno, node.name, f"a callback `{argument.arg}`; return a task, or call it `resume`"
        elif isinstance(node, ast.ClassDef):
            yield from _of_class(node)
            if _defines_steps(node.name, path):
                yield node.lineno, node.name, "another `Steps`; import that of protocol.steps"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and _defines_steps(target.id, path):
                    yield node.lineno, target.id, "another `Steps`; import that of protocol.steps"


def _defines_steps(name: str, path: str) -> bool:
    return name == "Steps" and path != _STEPS


def _of_class(node: ast.ClassDef) -> Iterator[tuple[int, str, str]]:
    if _CLASSES.fullmatch(node.name):
        yield node.lineno, node.name, "a class for one kind of wait; write a task"
    for field in node.body:
        if isinstance(field, ast.AnnAssign):
            name = ast.unparse(field.target)
            if _is_callback(name, field.annotation):
                yield field.lineno, node.name, f"a callback `{name}`; write a task, or call it `resume`"
    for flag, line in sorted(_flags(node)):
        yield line, f"{node.name}.{flag}", "a flag for work in progress; write a task, or use SingleTask"


def _flags(node: ast.ClassDef) -> set[tuple[str, int]]:
    """The attributes that a constructor sets."""
    found = set()
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "__init__":
            for target in ast.walk(method):
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                    found |= {(target.attr, target.lineno)} if _FLAGS.fullmatch(target.attr) else set()
    return found


def _is_callback(name: str, annotation: ast.expr | None) -> bool:
    """Whether a parameter or a field is called like a callback, and is not a plain value."""
    text = "" if annotation is None else ast.unparse(annotation)
    is_function = "Callable" in text or text.endswith(("Done", "Callback"))
    return is_function and _CALLBACKS.fullmatch(name) is not None
