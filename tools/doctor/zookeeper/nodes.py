"""The nodes of a cluster in ZooKeeper: chroot, cluster id, controller, registrations. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult, of_sentence
from headgate.tools.doctor.inspection import BrokerValues, ZooKeeperReport

SLOW_SESSION_MS: Final = 2_000
_SHOWN: Final = 8
_OWN: Final = ("brokers", "cluster")


def check_nodes(connect: str, report: ZooKeeperReport) -> Iterator[CheckResult]:
    """The session, the chroot, the cluster and its controller."""
    if report.problem is not None:
        yield of_sentence("zookeeper", WRONG, report.problem)
        return
    took = report.session_ms or 0
    state = NOTE if took > SLOW_SESSION_MS else OK
    cure = (
        "a broker loses its session when ZooKeeper is too slow: raise zookeeper.session.timeout.ms"
        if state == NOTE
        else ""
    )
    yield CheckResult("zookeeper", state, f"a session begins within {took:.0f} ms", cure)
    if not report.has_chroot:
        yield _missing_chroot(connect, report)
    elif report.cluster_id is None:
        cure = "right before the first start of a cluster; else correct the address or the path of zookeeper.connect"
        yield CheckResult("zookeeper", NOTE, f"there is no cluster in ZooKeeper at {connect}", cure)
    else:
        yield _cluster(connect, report)


def _missing_chroot(connect: str, report: ZooKeeperReport) -> CheckResult:
    _, _, chroot = connect.partition("/")
    servers = connect.partition("/")[0]
    names = [name for name in report.root if name != "zookeeper"]
    found = f"ZooKeeper at {servers} has no /{chroot}; it has {', '.join(names[:_SHOWN]) or 'nothing'}"
    near = get_close_matches(chroot.partition("/")[0], names, n=1, cutoff=0.5)
    if near:
        return CheckResult("zookeeper", WRONG, found, f"set zookeeper.connect={servers}/{near[0]}")
    if any(name in names for name in _OWN):
        return CheckResult("zookeeper", WRONG, found, f"a cluster has no chroot there: set zookeeper.connect={servers}")
    cure = "right before the first start of a cluster, which makes the path; else correct zookeeper.connect"
    return CheckResult("zookeeper", NOTE if not names else WRONG, found, cure)


def _cluster(connect: str, report: ZooKeeperReport) -> CheckResult:
    brokers = ", ".join(map(str, sorted(report.brokers))) or "none"
    found = f"ZooKeeper at {connect} has cluster {report.cluster_id}, brokers {brokers}"
    if report.controller is None and report.brokers:
        cure = "no broker is the controller: see the logs of the brokers"
        return CheckResult("zookeeper", WRONG, f"{found}, no controller", cure)
    if not report.brokers:
        return CheckResult("zookeeper", NOTE, f"{found}", "no broker is registered: start the brokers")
    return CheckResult("zookeeper", OK, f"{found}, controller {report.controller}")


def check_identity(
    report: ZooKeeperReport,
    cluster_ids: Mapping[str, str],
    values: BrokerValues | None = None,
    *,
    is_running: bool = False,
) -> Iterator[CheckResult]:
    """Whether ZooKeeper is the one of these clusters, and no other broker has this broker's id.

    `cluster_ids`: cluster id by what has it (a log directory, the brokers). `is_running`: a process holds the lock of
    the log directories.
    """
    for owner, cluster_id in cluster_ids.items():
        if report.cluster_id is not None and cluster_id != report.cluster_id:
            found = f"{owner} is of cluster {cluster_id}, ZooKeeper has cluster {report.cluster_id}"
            cure = "zookeeper.connect has the wrong address or the wrong chroot; or set another log.dirs"
            yield CheckResult("zookeeper", WRONG, found, cure)
    if values is not None and values.node_id in report.brokers and not is_running:
        where = ", ".join(report.brokers[values.node_id]) or "an address that cannot be read"
        found = f"node.id {values.node_id} is registered by a broker at {where}, and none runs on these log directories"
        cure = "give this broker another node.id; if it has just died, its registration ends with the session timeout"
        yield CheckResult("zookeeper", WRONG, found, cure)
