"""Filters of DescribeClientQuotas: entities by the name, the default or the presence of each type.

Source: `ClientQuotasImage.describe` of Apache Kafka 4.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

from headgate.protocol.errors import ErrorCode, KafkaError
from headgate.protocol.messages.describe_client_quotas import ANY, DEFAULT, EXACT
from headgate.protocol.security.quotas import CLIENT_ID, IP, USER, QuotaEntity


class EntityFilter(NamedTuple):
    """Matches entities that have every name of `exact`, and every type of `any_name`.

    `is_strict`: and no other type. A strict filter without types matches nothing.
    """

    exact: Mapping[str, str | None]
    any_name: frozenset[str]
    is_strict: bool

    @classmethod
    def of(cls, components: Iterable[tuple[str, int, str | None]], *, is_strict: bool) -> Self:
        """The filter of components, each an entity type, a match type and a name.

        Raises KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION for an unknown entity type.
        """
        exact, any_name = dict[str, str | None](), set[str]()
        for entity_type, match_type, name in components:
            _check_type(entity_type, exact.keys() | any_name)
            _check_match(match_type, name)
            if match_type == ANY:
                any_name.add(entity_type)
            else:
                exact[entity_type] = name
        types = exact.keys() | any_name
        if IP in types and len(types) > 1:
            raise _invalid(
                "Invalid entity filter component combination. IP filter component should not be used with user or"
                " clientId filter component."
            )
        return cls(exact, frozenset(any_name), is_strict)

    def matches(self, entity: QuotaEntity) -> bool:
        """Whether the filter matches an entity."""
        names = entity.by_type
        if self.is_strict and (not names or len(names) != len(self.exact) + len(self.any_name)):
            return False
        has_names = all(kind in names and names[kind] == name for kind, name in self.exact.items())
        return has_names and self.any_name <= names.keys()


def _check_type(entity_type: str, before: Iterable[str]) -> None:
    if not entity_type:
        raise _invalid("Invalid empty entity type.")
    if entity_type in before:
        raise _invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
    if entity_type not in {IP, USER, CLIENT_ID}:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")


def _check_match(match_type: int, name: str | None) -> None:
    if match_type not in _MATCH_TYPES:
        raise _invalid(f"Unknown match type {match_type}")
    if match_type == EXACT and name is None:
        raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if match_type != EXACT and name is not None:
        raise _invalid(f"Request specified {_MATCH_TYPES[match_type]}, but also specified a match string.")


_MATCH_TYPES = {EXACT: "MATCH_TYPE_EXACT", DEFAULT: "MATCH_TYPE_DEFAULT", ANY: "MATCH_TYPE_SPECIFIED"}


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
