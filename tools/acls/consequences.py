"""Who gains and who loses access when rules change, by the decision that the brokers make. Pure.

Rules are compared by samples: the name of a literal pattern; for a prefix and for `*` a name that no other rule has,
and the names and prefixes of other rules below it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from headgate.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclOperation,
    AclPermission,
    AclResource,
    PatternType,
)
from headgate.protocol.security.acls.decision import ALLOWING, AclDecision, AclPolicy, DecisionReason, decide
from headgate.protocol.security.acls.index import AclIndex
from headgate.tools.acls.options import POSSIBLE

OTHERS: Final = "User:\0"
"""Stands for a principal that no rule names."""
MOST_DECISIONS: Final = 20_000
_UNUSED: Final = "\0"
"""Completes a prefix to a name that no rule has."""


class ResourceSample(NamedTuple):
    """A name that stands for the resources of a pattern; `title` names these, as in "TOPIC ord*"."""

    resource_type: AclResource
    name: str
    title: str


class AccessChange(NamedTuple):
    """Operations that a principal gains or loses. `host`: `*`, or that of a rule for single hosts."""

    principal: str
    is_gain: bool
    operations: Sequence[AclOperation]
    resource: str
    host: str

    def __str__(self) -> str:
        who = "each principal without rules of its own" if self.principal == OTHERS else self.principal
        place = "" if self.host == WILDCARD else f" from {self.host}"
        names = ", ".join(operation.name for operation in self.operations)
        return f"{who}{place} {'gains' if self.is_gain else 'loses'} {names} on {self.resource}"


class _Question(NamedTuple):
    principal: str
    host: str
    operation: AclOperation
    sample: ResourceSample


class RuleChange:
    """All rules before and after a change, with the settings of the authorizer."""

    def __init__(self, before: Collection[AclBinding], after: Collection[AclBinding], policy: AclPolicy) -> None:
        old, new = set(before), set(after)
        self._rules = sorted(old | new)
        self._changed = sorted(old ^ new)
        self._policy = policy
        self.is_complete = True
        """False after `access_changes` if there were more decisions to compare."""
        self._before = AclIndex.empty().changed((), old)
        self._after = AclIndex.empty().changed((), new)

    def before(self, rule: AclBinding) -> AclDecision:
        """The decision, before the change, about what the rule is for."""
        return self._decide(self._before, _question_of(rule))

    def after(self, rule: AclBinding) -> AclDecision:
        """The decision, after the change, about what the rule is for."""
        return self._decide(self._after, _question_of(rule))

    def loses(self, principal: str, operation: AclOperation) -> bool:
        """Whether a principal loses an operation on the cluster, from any host."""
        sample = ResourceSample(AclResource.CLUSTER, CLUSTER_NAME, "the cluster")
        asked = [
            _Question(principal, host, operation, sample) for host in {WILDCARD, *(rule.host for rule in self._changed)}
        ]
        return any(self._flips(question) is False for question in asked)

    def access_changes(self) -> list[AccessChange]:
        """The principals that gain or lose operations, of the first `MOST_DECISIONS` decisions (`is_complete`)."""
        found: defaultdict[tuple[str, bool, ResourceSample, str], list[AclOperation]] = defaultdict(list)
        asked = set[_Question]()
        questions = self._questions()
        for question in islice(questions, MOST_DECISIONS):
            if question in asked:
                continue
            asked.add(question)
            is_gain = self._flips(question)
            if is_gain is not None:
                found[question.principal, is_gain, question.sample, question.host].append(question.operation)
        self.is_complete = next(questions, None) is None
        return [
            AccessChange(principal, is_gain, sorted(operations), sample.title, host)
            for (principal, is_gain, sample, host), operations in found.items()
        ]

    def closed(self) -> Iterator[str]:
        """The resources that have lost their last allowing rule, and are open to super users alone now."""
        for sample in dict.fromkeys(sample_of(rule) for rule in self._changed):
            allows = [
                any(rule.permission is AclPermission.ALLOW for rule in _rules_of(index, sample))
                for index in (self._before, self._after)
            ]
            is_open = self._policy.allow_everyone and not _rules_of(self._after, sample)
            if allows == [True, False] and not is_open:
                yield sample.title

    def _questions(self) -> Iterator[_Question]:
        everybody = sorted({rule.principal for rule in self._rules} - {WILDCARD_PRINCIPAL})
        for rule in self._changed:
            if rule.is_unknown:
                continue
            for sample in [sample_of(rule), *self._below(rule)]:
                concerns_all = self._opens_or_closes(sample)
                for_all = concerns_all or rule.principal == WILDCARD_PRINCIPAL
                for operation in sorted(POSSIBLE.get(rule.resource_type, ())):
                    if concerns_all or rule.operation in ALLOWING[operation]:
                        for principal in [*everybody, OTHERS] if for_all else [rule.principal]:
                            yield _Question(principal, rule.host, operation, sample)

    def _opens_or_closes(self, sample: ResourceSample) -> bool:
        """Whether the first rule of a resource comes, or the last one goes: this concerns each principal."""
        if not self._policy.allow_everyone:
            return False
        return bool(_rules_of(self._before, sample)) != bool(_rules_of(self._after, sample))

    def _below(self, rule: AclBinding) -> Iterator[ResourceSample]:
        """The patterns of other rules whose resources the rule has too."""
        prefix = "" if rule.resource_name == WILDCARD else rule.resource_name
        if rule.pattern_type is PatternType.PREFIXED or not prefix:
            first = bisect_left(self._rules, (rule.resource_type, prefix))
            for other in islice(self._rules, first, None):
                if other.resource_type is not rule.resource_type or not other.resource_name.startswith(prefix):
                    break
                yield sample_of(other)

    def _flips(self, question: _Question) -> bool | None:
        """True for access gained, False for access lost, None without a change."""
        before, after = (self._decide(index, question).is_allowed for index in (self._before, self._after))
        return after if before != after else None

    def _decide(self, index: AclIndex, question: _Question) -> AclDecision:
        sample, hosts = question.sample, dict.fromkeys((WILDCARD, question.host))
        return decide(
            index, self._policy, question.principal, hosts, question.operation, sample.resource_type, sample.name
        )


def sample_of(rule: AclBinding) -> ResourceSample:
    """The resources of a rule's pattern that no other pattern has."""
    kind, name = rule.resource_type, rule.resource_name
    if rule.pattern_type is PatternType.PREFIXED:
        return ResourceSample(kind, name + _UNUSED, f"{kind.name} {name}*")
    if kind is AclResource.CLUSTER:
        return ResourceSample(kind, name, "the cluster")
    return ResourceSample(kind, _UNUSED if name == WILDCARD else name, f"{kind.name} {name}")


def _question_of(rule: AclBinding) -> _Question:
    principal = OTHERS if rule.principal == WILDCARD_PRINCIPAL else rule.principal
    return _Question(principal, rule.host, rule.operation, sample_of(rule))


def _rules_of(index: AclIndex, sample: ResourceSample) -> list[AclBinding]:
    """The rules of every pattern that a resource has."""
    patterns = index.of_resource(sample.resource_type, sample.name)
    return [rule for pattern in patterns for rules in pattern.values() for rule in rules]


def is_super_user(decision: AclDecision) -> bool:
    """Whether rules are of no use to the principal."""
    return decision.reason is DecisionReason.SUPER_USER


def denying_rule(decision: AclDecision) -> AclBinding | None:
    """The rule that denies."""
    return decision.binding if decision.reason is DecisionReason.DENYING_ACL else None
