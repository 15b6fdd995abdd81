"""The controller: one broker at a time, by an ephemeral node, with an epoch that rises with each election.

Each write of the controller is conditional on the version of `/controller_epoch`, so a controller that was replaced
unnoticed writes nothing. The deletion of
`/controller` starts the next election: operators of Kafka delete the node on purpose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from headgate.gateway.metadata.image import Image
from headgate.gateway.runtime.tasks import Task
from headgate.gateway.zookeeper.layout.cluster import CONTROLLER_EPOCH_PATH, CONTROLLER_PATH, Controller
from headgate.gateway.zookeeper.layout.node import InvalidNode
from headgate.gateway.zookeeper.layout.tree import read_cluster
from headgate.gateway.zookeeper.metadata.cluster_nodes import ClusterNodes
from headgate.gateway.zookeeper.metadata.plans import become_controller
from headgate.gateway.zookeeper.metadata.reading import read_node
from headgate.gateway.zookeeper.requests import Failed, delete, exists, get, multi
from headgate.gateway.zookeeper.session import KeeperError, Refused, Session, Watch

logger = logging.getLogger("headgate.zookeeper")

_ATTEMPTS: Final = 10
_OVERTAKEN: Final = {KeeperError.NODE_EXISTS, KeeperError.BAD_VERSION, KeeperError.NO_NODE}


class ControllerElection:
    """The state of this broker's controllership, and the steps of an election."""

    def __init__(
        self,
        session: Session,
        nodes: ClusterNodes,
        node_id: int,
        now_ms: Callable[[], int],
        watch: Watch,
        *,
        is_elected: bool,
    ) -> None:
        self.is_elected = is_elected
        self.other_id = -1
        """The controller that the last lost election has found; -1 if its node cannot be read."""
        self.others_wrote = False
        """Another controller may have written to ZooKeeper since this broker last was the controller."""
        self._session = session
        self._nodes = nodes
        self._node_id = node_id
        self._now_ms = now_ms
        self._watch = watch
        self._logged = ""

    def elect(self) -> Task[bool]:
        """Become the controller, unless another broker is. The watch fires when the controller changes.

        Returns true if this broker won a new election. Raises Failed.
        """
        self.is_elected = False
        for _ in range(_ATTEMPTS):
            stat = yield from exists(self._session, CONTROLLER_PATH, self._watch)
            if stat is None:
                self.is_elected = yield from self._become()
                if self.is_elected:
                    self._logged = ""
                    return True
            elif stat.ephemeral_owner != self._session.session_id:
                yield from self._read_other()
                return False
            elif not (yield from self._read_epoch()):
                self.is_elected = True
                return False
            else:  # the present epoch may be another controller's: force a new election
                self.others_wrote = True
                yield from delete(self._session, CONTROLLER_PATH, stat.version)
        raise Failed(CONTROLLER_PATH, KeeperError.BAD_VERSION)

    def _become(self) -> Task[bool]:
        self.others_wrote |= yield from self._read_epoch()
        wanted = become_controller(self._nodes.tree(Image.empty()), self._node_id, self._now_ms())
        results = yield from multi(self._session, wanted)
        if isinstance(results, Refused):
            if results.error not in _OVERTAKEN:
                raise Failed(wanted[results.place].path, results.error)
            return False
        self._nodes.apply(wanted, results)
        logger.info("broker %d is the controller, in epoch %d", self._node_id, self._nodes.controller_epoch)
        return True

    def _read_epoch(self) -> Task[bool]:
        """Read the controller epoch. Returns whether the node has changed since this broker read it last."""
        known = self._nodes.controller_epoch_version
        tree = yield from read_node(self._session, CONTROLLER_EPOCH_PATH)
        part = read_cluster(tree, bytes)
        self._nodes.unreadable.note(tree, part.invalid)
        self._nodes.put_controller_epoch(part)
        return self._nodes.controller_epoch_version != known

    def _read_other(self) -> Task[None]:
        found = yield from get(self._session, CONTROLLER_PATH)
        if found is None:
            return
        try:
            self.other_id = Controller.decode(found.data).broker_id
            other = f"broker {self.other_id}"
        except InvalidNode as error:
            self.other_id = -1
            other = f"an unknown broker ({error})"
        controller = f"{other} in session 0x{found.stat.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF:x}"
        if controller != self._logged:
            self._logged = controller
            logger.info("%s is the controller in ZooKeeper", controller)
