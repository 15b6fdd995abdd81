"""The delegation tokens in ZooKeeper, as every broker with a secret key reads them: all at a start, single ones later.

Changes are found by notifications. An unreadable node keeps its known token while the broker runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headgate.gateway.metadata.image import Image
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.security.tokens.delegation_token import DelegationToken, record_of
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tokens import (
    TOKEN_CHANGES_PATH,
    TOKENS_PATH,
    decode_change,
    token_id_of,
    token_path,
)
from headgate.gateway.zookeeper.layout.tree import read_cluster
from headgate.gateway.zookeeper.metadata.notifications import Notifications
from headgate.gateway.zookeeper.metadata.reading import NodesByPath, StoreParts, read_many, read_node
from headgate.gateway.zookeeper.requests import children, ensure
from headgate.gateway.zookeeper.session import Session, Watch
from headgate.protocol.internal.metadata import MetadataRecord, RemoveDelegationTokenRecord

if TYPE_CHECKING:
    from headgate.gateway.config import BrokerConfig

TOKEN_DIRECTORIES: Final = (TOKEN_CHANGES_PATH, TOKENS_PATH)


def reads_tokens(config: BrokerConfig) -> bool:
    """Whether a broker knows the secrets of the cluster's tokens."""
    secret_key = config.delegation_token_secret_key or config.delegation_token_master_key
    return secret_key is not None and bool(secret_key.text)


def ensure_token_paths(session: Session) -> Task[None]:
    """Create the directories of tokens, as Kafka does with a secret key. Raises Failed."""
    for path in TOKEN_DIRECTORIES:
        yield from ensure(session, path)


def read_tokens(session: Session, watch: Watch | None) -> Task[NodesByPath]:
    """The nodes of all tokens. The watch is on the notifications: a later change fires it. Raises Failed."""
    yield from children(session, TOKEN_CHANGES_PATH, watch)
    names = yield from children(session, TOKENS_PATH)
    return (yield from read_many(session, [f"{TOKENS_PATH}/{name}" for name in names])) if names else {}


class TokenWatcher:
    """Reads changed tokens. `records`: differences that are not published yet."""

    def __init__(self, parts: StoreParts) -> None:
        self.records: list[MetadataRecord] = []
        self.directories: tuple[str, ...] = TOKEN_DIRECTORIES if reads_tokens(parts.config) else ()
        """The paths to read after all watches were lost; none without a secret key."""
        self.notifications = Notifications(parts)
        self._session = parts.session
        self._nodes = parts.nodes
        self._store = parts.store

    def take_records(self) -> list[MetadataRecord]:
        """Take the differences since the last call."""
        records, self.records = self.records, []
        return records

    def changed_below(self, path: str) -> Task[Iterable[str]]:
        """The paths of nodes with tokens that may have changed: those with a new notification, or all."""
        if path == TOKEN_CHANGES_PATH:
            return token_paths((yield from self.notifications.read(path, decode_change)))
        names = yield from children(self._session, path)
        return token_paths([*self._store.written_image.tokens, *names])

    def refresh(self, path: str) -> Task[None]:
        """Read the node of a token, and note its difference from the image."""
        token_id = token_id_of(path)
        if token_id is None:
            return
        is_readable, token = yield from self._read(token_id)
        known = self._store.written_image.tokens.get(token_id)
        if is_readable and token != known:
            self.records.append(RemoveDelegationTokenRecord(token_id=token_id) if token is None else record_of(token))

    def read_into(self, image: Image, token_id: str) -> Task[Image]:
        """The image with the present state of a token; an unreadable node keeps its known token."""
        is_readable, token = yield from self._read(token_id)
        if not is_readable:
            return image
        others = {each: kept for each, kept in image.tokens.items() if each != token_id}
        return image._replace(tokens=others if token is None else {**others, token_id: token})

    def _read(self, token_id: str) -> Task[tuple[bool, DelegationToken | None]]:
        """Whether the node of a token is readable, and the token; None if there is no such node."""
        tree = yield from read_node(self._session, token_path(token_id))
        part = read_cluster(tree, bytes)
        self._nodes.unreadable.note(tree, part.invalid)
        if not part.invalid:
            self._nodes.put_token(token_id, part)
        return not part.invalid, part.image.tokens.get(token_id)


def token_paths(token_ids: Iterable[str]) -> list[str]:
    """The paths of the tokens whose ids ZooKeeper can have, each once."""
    paths = dict[str, None]()
    for token_id in token_ids:
        with suppress(InvalidNode):
            paths[token_path(token_id)] = None
    return [*paths]
