"""Move the committed offsets of groups: to a number, a time, an end of the partitions, or by a number of records.

| parameter | |
|---|---|
| `group` | one or several groups |
| `topic` | `orders`, or `orders:0,2,4-6`; may be repeated |
| `all_topics=true` | in place of `topic`: every partition that the group has committed |
| `to` | `earliest`, `latest`, an offset, or a time as `2026-11-21T15:00Z` |
| `by` | in place of `to`: `100`, or `-100` for back |
| `target` | in place of all these: `orders:3=1200`, an offset of one partition; may be repeated |

An end of a partition moves while others write: a line has the words start or end then, and its note the number.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headgate.protocol.topic_partition import TopicPartition, by_topic
from headgate.tools.arguments import now_ms, parse_duration_ms, parse_offset, parse_partitions, parse_topics
from headgate.tools.client.cluster import Cluster, select_partitions
from headgate.tools.console.changes.groups import group_names, other_store_problems
from headgate.tools.console.changes.plan import (
    MOST_LINES,
    ChangeLine,
    ChangePlan,
    ChangeResult,
    counted,
    named_or_counted,
)
from headgate.tools.console.parameters import BadParameter, Parameters
from headgate.tools.groups.arguments import Offset, Shift, parse_target
from headgate.tools.groups.deletion import is_of_topics
from headgate.tools.groups.offsets import CommittedOffsets, fetch_committed
from headgate.tools.groups.reset import OffsetChange, ResetTarget, apply_changes, plan_reset
from headgate.tools.groups.selection import group_failures

_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_WORDS: Final = {"earliest": "to the start", "latest": "to the end"}
_MOST_CHARACTERS: Final = 1 << 21
"""Of the commands of all groups, about."""
_TOO_MANY: Final = "{} groups and {} partitions are more than {} offsets at once; choose fewer"
_ONE_OF: Final = "give topic or all_topics=true with to or by; or targets alone, as target=orders:3=1200"


class _Reset(NamedTuple):
    """What the visitor wants. `cells`: offsets of single partitions; without them `target` holds for `topics`.

    `topics`: empty for all partitions that a group has committed. `option`: of the command, as `["--to", "latest"]`.
    """

    groups: list[str]
    cells: Mapping[TopicPartition, ResetTarget]
    topics: Mapping[str, list[int] | None]
    target: ResetTarget
    option: list[str]

    @property
    def direction(self) -> str:
        """The target as a part of a sentence."""
        if self.cells:
            return ""
        name, value = self.option
        return f" by {value}" if name == "--by" else f" {_WORDS.get(value, f'to {value}')}"


class _Targets(NamedTuple):
    """Targets by group and partition, and sentences. `topic_words`: the topics of the command, by group."""

    by_group: Mapping[str, Mapping[TopicPartition, ResetTarget]]
    topic_words: Mapping[str, list[str]]
    problems: list[str]
    warnings: list[str]


def reset_offsets(cluster: Cluster, parameters: Parameters) -> ChangePlan:
    """Move committed offsets. Raises BadParameter, UsageError, ClientError."""
    reset = _parse(parameters)
    foreign = other_store_problems(cluster, reset.groups)
    targets = _choose(cluster, reset._replace(groups=[name for name in reset.groups if name not in foreign]))
    plan = plan_reset(cluster, targets.by_group)
    problems = [*foreign.values(), *targets.problems, *plan.problems]
    if not plan.changes and not problems:
        problems.append("no partition is chosen that has a committed offset")
    new = sorted({change.group for change in plan.changes if change.is_of_new_group})
    has_several = len(reset.groups) > 1
    return ChangePlan(
        _summary(reset, plan.changes, has_problems=bool(problems)),
        [_line(change, has_group=has_several) for change in plan.changes],
        lambda cluster: _apply(cluster, plan.changes),
        problems=problems,
        warnings=[*targets.warnings, *(f"the group {name} is new: the change makes it" for name in new)],
        command=_command(reset, targets),
    )


# -------------------------------------------------------------------------------------------------------- parameters


def _parse(parameters: Parameters) -> _Reset:
    groups = group_names(parameters)
    texts = [*parameters.texts("topic"), *parameters.texts("target")]
    if len(groups) * sum(map(len, texts)) > _MOST_CHARACTERS:
        raise BadParameter(f"the names of {len(groups)} groups and {len(texts)} topics are too long; choose fewer")
    has_topics = parameters.has("topic") or parameters.flag("all_topics")
    if parameters.has("target"):
        if has_topics or parameters.has("to") or parameters.has("by"):
            raise BadParameter(_ONE_OF)
        cells = _cells(parameters.texts("target"))
        _check_count(groups, len(cells))
        return _Reset(groups, cells, {}, Shift(0), [])
    if not has_topics or parameters.has("to") == parameters.has("by"):
        raise BadParameter(_ONE_OF)
    topics = {} if parameters.flag("all_topics") else parse_topics(parameters.texts("topic"))
    _check_count(groups, sum(len(numbers or ()) for numbers in topics.values()))
    if parameters.has("by"):
        return _Reset(groups, {}, topics, *_shift(parameters.text("by").strip()))
    text = parameters.text("to").strip()
    if parse_duration_ms(text) is not None:  # the preview would be another one with each second
        raise BadParameter(f"to={text} moves with the clock; write the time itself, as 2026-11-21T15:00Z")
    return _Reset(groups, {}, topics, parse_target(text, now_ms()), ["--to", text])


def _check_count(groups: Sequence[str], partitions: int) -> None:
    """Raises BadParameter for more offsets than a plan shows."""
    if len(groups) * partitions > MOST_LINES:
        raise BadParameter(_TOO_MANY.format(len(groups), partitions, MOST_LINES))


def _shift(text: str) -> tuple[Shift, list[str]]:
    if not _WHOLE_NUMBER.fullmatch(text):
        raise BadParameter(f"by={text[:40]} is no number of records; write 100, or -100 for back")
    return Shift(int(text)), ["--by", str(int(text))]


def _cells(texts: list[str]) -> dict[TopicPartition, ResetTarget]:
    cells: dict[TopicPartition, ResetTarget] = {}
    for text in texts:
        place, _, offset = text.rpartition("=")
        topic, _, number = place.rpartition(":")
        if not topic:
            raise BadParameter(f"target={text[:80]} is not as orders:3=1200")
        numbers = parse_partitions(number, place)
        partition = TopicPartition(topic, numbers[0])
        if len(numbers) > 1 or partition in cells:
            raise BadParameter(f"target={text[:80]}: give one offset for each partition")
        cells[partition] = Offset(parse_offset(offset.strip()))
    return cells


# ------------------------------------------------------------------------------------------------------- the targets


def _choose(cluster: Cluster, reset: _Reset) -> _Targets:
    """The partitions of each group. A shift leaves out partitions without a committed offset, with a warning."""
    names = {name: _topic_options(reset.topics) for name in reset.groups}
    if reset.cells:
        return _Targets(dict.fromkeys(reset.groups, reset.cells), names, [], [])
    if reset.topics and not isinstance(reset.target, Shift):
        partitions, problems = select_partitions(cluster, reset.topics)
        _check_count(reset.groups, len(partitions))
        rows = dict.fromkeys(partitions, reset.target)
        return _Targets(dict.fromkeys(reset.groups, rows), names, problems, [])
    committed, failed = fetch_committed(cluster, reset.groups)
    if not reset.topics:
        empty = [name for name, offsets in committed.items() if not offsets]
        problems = [f"the group {name} has committed nothing; name the topics" for name in empty]
        by_group = {name: dict.fromkeys(offsets, reset.target) for name, offsets in committed.items()}
        words = {name: ["--all-topics"] for name in reset.groups}
        return _Targets(by_group, words, [*group_failures(failed), *problems], [])
    return _choose_committed(cluster, reset, committed, names, group_failures(failed))


def _choose_committed(
    cluster: Cluster,
    reset: _Reset,
    committed: Mapping[str, CommittedOffsets],
    names: dict[str, list[str]],
    problems: list[str],
) -> _Targets:
    partitions, failures = select_partitions(cluster, reset.topics)
    _check_count(reset.groups, len(partitions))
    by_group, warnings = {}, []
    for name, offsets in committed.items():
        kept = [partition for partition in offsets if is_of_topics(partition, reset.topics)]
        left_out = [str(partition) for partition in partitions if partition not in offsets]
        by_group[name] = dict.fromkeys(kept, reset.target)
        if left_out:
            numbers = {topic: [row.number for row in rows] for topic, rows in by_topic(sorted(kept)).items()}
            names[name] = _topic_options(numbers)
            warnings.append(f"the group {name} has committed nothing for {', '.join(left_out)}: left out")
    return _Targets(by_group, names, [*problems, *failures], warnings)


def _topic_options(topics: Mapping[str, list[int] | None]) -> list[str]:
    words = [topic if rows is None else f"{topic}:{','.join(map(str, rows))}" for topic, rows in topics.items()]
    return [each for word in words for each in ("--topic", word)]


def _command(reset: _Reset, targets: _Targets) -> str:
    """One command for each group; offsets of single partitions come in by a pipe."""
    commands = []
    for name in reset.groups:
        words = ["headgate", "groups", "reset", name]
        if reset.cells:
            lines = [f"{partition.topic},{partition.number},{row.offset}" for partition, row in _offsets(reset.cells)]
            given = shlex.join(["printf", r"%s\n", *lines])
            commands.append(f"{given} | {shlex.join([*words, '--from-file', '-', '--execute'])}")
        elif targets.topic_words.get(name):
            commands.append(shlex.join([*words, *reset.option, *targets.topic_words[name], "--execute"]))
    return " && ".join(commands)


def _offsets(cells: Mapping[TopicPartition, ResetTarget]) -> list[tuple[TopicPartition, Offset]]:
    return [(partition, target) for partition, target in cells.items() if isinstance(target, Offset)]


# ------------------------------------------------------------------------------------------------ preview and change


def _line(change: OffsetChange, *, has_group: bool) -> ChangeLine:
    offset = f"{change.after.offset:,}"
    read = _records_read(change)
    notes = [
        f"offset {offset}" if change.bound else "",
        "unchanged" if change.is_unchanged else _effect(read),
        _lag(change),
        change.note,
    ]
    return ChangeLine(
        f"{change.group} {change.partition}" if has_group else str(change.partition),
        None if change.before is None else f"{change.before.offset:,}",
        change.bound or offset,
        "; ".join(note for note in notes if note),
    )


def _records_read(change: OffsetChange) -> int:
    """The records that the group reads again; a negative number is skipped; 0 where nothing is committed."""
    if change.before is None:
        return 0
    return min(max(change.before.offset, change.start), change.end) - change.after.offset


def _effect(read: int) -> str:
    if read == 0:
        return ""
    verb = "is" if abs(read) == 1 else "are"
    return f"{counted(abs(read), 'record')} {verb} {'read again' if read > 0 else 'skipped'}"


def _lag(change: OffsetChange) -> str:
    after = f"{change.end - change.after.offset:,}"
    if change.is_unchanged:
        return f"lag {after}"
    is_known = change.before is not None and change.start <= change.before.offset <= change.end
    before = f"{change.end - change.before.offset:,} → " if is_known and change.before else ""
    return f"lag {before}{after}"


def _summary(reset: _Reset, changes: list[OffsetChange], *, has_problems: bool) -> str:
    groups = named_or_counted(reset.groups, "group")
    moved = [change for change in changes if not change.is_unchanged]
    if has_problems:
        return f"The offsets of {groups} cannot be changed"
    if not moved:
        return f"Nothing changes: the offsets of {groups} are there already"
    read = [_records_read(change) for change in moved]
    effects = [_effect(total) for total in (sum(n for n in read if n > 0), sum(n for n in read if n < 0)) if total]
    end = f": {', '.join(effects)}" if effects else ""
    return f"{'Set' if reset.cells else 'Move'} {counted(len(moved), 'offset')} of {groups}{reset.direction}{end}"


def _apply(cluster: Cluster, changes: list[OffsetChange]) -> ChangeResult:
    applied, failures = apply_changes(cluster, changes)
    counts = Counter(change.group for change in applied if not change.is_unchanged)
    done = [
        f"{counted(count, 'offset')} of the group {name} {'is' if count == 1 else 'are'} changed"
        for name, count in sorted(counts.items())
    ]
    if not done and not failures:
        done = ["Nothing had to be changed"]
    return ChangeResult(done, failures)
