"""All questions to one cluster over the wire, and their rows, in the order in which a client meets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from headgate.tools.client.client import ClientError, parse_addresses
from headgate.tools.client.cluster import Cluster
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult, of_sentence
from headgate.tools.doctor.cluster.advertised import NO_RETRIES, AdvertisedAddress, check_advertised, dial_all
from headgate.tools.doctor.cluster.broker_configs import HEADGATE_HTTP, BrokerRefusal, BrokerSettings, identify
from headgate.tools.doctor.cluster.canary import check_canary, run_canary
from headgate.tools.doctor.cluster.clocks import ClockReading, check_clocks
from headgate.tools.doctor.cluster.health import BrokerHealth, check_health, read_health, readable_address
from headgate.tools.doctor.cluster.links import accepts, check_links
from headgate.tools.doctor.cluster.release import check_versions
from headgate.tools.doctor.cluster.replicas import ClusterState, check_cluster
from headgate.tools.doctor.cluster.volumes import check_volumes
from headgate.tools.doctor.connecting.address import Dialling, check_address
from headgate.tools.log_directories import describe_log_directories

_MAY_DESCRIBE = (
    "headgate acls add --principal User:NAME --operation describe --operation describe_configs --cluster,"
    " to see settings, links and disks too"
)


class CanaryWish(NamedTuple):
    """The topic of the canary, the value of its records, and whether the topic may be created."""

    topic: str
    value: bytes
    may_create: bool


class ClusterSurvey:
    """The rows of one cluster. `cluster_id`: known once the rows are read, if a broker said it."""

    def __init__(
        self, bootstrap: str, dialling: Dialling, canary: CanaryWish | None = None, http: Sequence[str] = ()
    ) -> None:
        """`http`: addresses of brokers over HTTP, besides those that the brokers name. Raises ClientError."""
        self._addresses = [_text(address) for address in parse_addresses(bootstrap)]
        self._dialling = dialling
        self._canary = canary
        self._http = http
        self.cluster_id: str | None = None
        self.unchecked: list[str] = []
        """The checks that were left out, each with the option that asks for it."""
        self.http_addresses: list[str] = []
        """Where brokers answer over HTTP, as far as this machine reaches them."""
        self._clocks: list[ClockReading] = []

    def rows(self) -> Iterator[CheckResult]:
        """Dial the bootstrap addresses, then ask the first cluster that answers."""
        working = []
        for address in self._addresses:
            is_wrong = False
            for row in check_address(address, self._dialling):
                yield row
                is_wrong |= row.state == WRONG
            if not is_wrong:
                working.append(address)
        if not working:
            return
        yield from self._check_same(working)
        with self._connect(working[0]) as cluster:
            try:
                yield from self._check_cluster(cluster, working[0])
            except ClientError as error:
                yield of_sentence("cluster", WRONG, str(error))

    def _connect(self, address: str) -> Cluster:
        timeout_s, security = self._dialling.timeout_s, self._dialling.security
        return Cluster(address, timeout_s=timeout_s, security=security, retries=NO_RETRIES)

    def _check_same(self, working: Sequence[str]) -> Iterator[CheckResult]:
        """Whether all bootstrap addresses are of one cluster."""
        if len(working) < 2:
            return
        views = {}
        for address in working:
            try:
                with self._connect(address) as cluster:
                    cluster.refresh([])
                    views[address] = cluster.routing
            except ClientError as error:
                yield of_sentence("bootstrap", WRONG, str(error))
        yield from check_views({address: (view.cluster_id, view.addresses) for address, view in views.items()})

    def _check_cluster(self, cluster: Cluster, bootstrap: str) -> Iterator[CheckResult]:
        """Raises ClientError."""
        metadata = cluster.refresh(None)
        self.cluster_id = metadata.cluster_id
        routing, dialling = cluster.routing, self._dialling
        dialled = dial_all(routing.addresses, bootstrap, dialling.timeout_s, dialling.security)
        dialled = [self._with_listener(cluster, one) for one in dialled]
        healths = self._read_healths(dialled)
        yield from self._check_versions(dialled, healths)
        yield from check_advertised(bootstrap, dialled)
        yield from check_cluster(
            ClusterState(metadata.cluster_id, metadata.controller_id, routing.addresses, metadata.topics)
        )
        settings = [one.settings for one in dialled if isinstance(one.settings, BrokerSettings)]
        yield from check_links(settings, partial(accepts, timeout_s=dialling.timeout_s))
        reached = {one.node for one in dialled if one.failure is None}
        volumes, unseen = describe_log_directories(cluster)
        yield from check_volumes(volumes, {node: why for node, why in unseen.items() if node in reached})
        yield from check_access(dialled, sees_topics=bool(metadata.topics), sees_disks=bool(volumes))
        for node, health in sorted(healths.items()):
            yield from _rows_of_health(node, health)
        if self._canary is not None:
            yield from self._check_canary(cluster, self._canary)
        yield from check_clocks(self._clocks)
        unread = [node for node in sorted(reached) if node not in {reading.node for reading in self._clocks}]
        if unread:
            self.unchecked.append(
                f"the clock of broker {', '.join(map(str, unread))}: --canary TOPIC, of a topic with"
                " message.timestamp.type=LogAppendTime, reads it"
            )

    def _with_listener(self, cluster: Cluster, one: AdvertisedAddress) -> AdvertisedAddress:
        """A failed address with the name of its listener, if the bootstrap's broker is the one that advertises it."""
        if one.failure is None:
            return one
        from headgate.tools.doctor.cluster.advertised import listener_at

        found, _ = cluster.ask_any(one.node, lambda client: identify(client, [one.node]))
        settings = found.get(one.node)
        if not isinstance(settings, BrokerSettings):
            return one
        return one._replace(listener=listener_at(settings, one.address))

    def _check_versions(
        self, dialled: Sequence[AdvertisedAddress], healths: Mapping[int, BrokerHealth | str]
    ) -> Iterator[CheckResult]:
        for one in dialled:
            if one.served:
                health = healths.get(one.node)
                version = health.broker["versions"]["headgate"] if isinstance(health, BrokerHealth) else ""
                is_headgate = bool(version) or (isinstance(one.settings, BrokerSettings) and one.settings.is_headgate)
                yield check_versions(f"broker {one.node}", one.served, is_headgate=is_headgate, headgate=version)

    def _read_healths(self, dialled: Sequence[AdvertisedAddress]) -> dict[int, BrokerHealth | str]:
        """The health of each Headgate whose HTTP this machine reaches, by node id."""
        addresses = list(self._http)
        for one in dialled:
            if isinstance(one.settings, BrokerSettings):
                named = one.settings.values.get(HEADGATE_HTTP) or ""
                found = readable_address(named, parse_addresses(one.address)[0][0])
                addresses += [found] if found is not None and found not in addresses else []
        self.http_addresses = addresses
        healths: dict[int, BrokerHealth | str] = {}
        for address in addresses:
            health = read_health(address, self._dialling.timeout_s, self._dialling.security)
            if isinstance(health, BrokerHealth):
                self._clocks.append(health.clock)
                healths[health.clock.node] = health
            elif address in self._http:
                healths[-1] = health
        return healths

    def _check_canary(self, cluster: Cluster, wish: CanaryWish) -> Iterator[CheckResult]:
        timeout_s = self._dialling.timeout_s
        try:
            results = run_canary(cluster, wish.topic, wish.value, creates=wish.may_create, timeout_s=timeout_s)
        except ClientError as error:
            results = str(error)
        if isinstance(results, str):
            yield of_sentence("canary", WRONG, results)
            return
        self._clocks += [result.clock for result in results if result.clock is not None]
        yield from check_canary(results)


def check_views(views: Mapping[str, tuple[str | None, Mapping[int, str]]]) -> Iterator[CheckResult]:
    """`views`: the cluster id and the advertised addresses by node id that each bootstrap address answers with."""
    ids = dict.fromkeys(cluster_id for cluster_id, _ in views.values())
    if len(ids) < 2:
        yield CheckResult("bootstrap", OK, f"{', '.join(views)} are of one cluster")
        return
    of = ", ".join(f"{address} of {cluster_id}" for address, (cluster_id, _) in views.items())
    [(_, first), *others] = views.values()
    same = sorted({node for _, other in others for node in other if node in first and other[node] != first[node]})
    both = f"; each has a broker with node.id {same[0]}" if same else ""
    cure = "name the addresses of one cluster; brokers that should be one need different node.ids and one ZooKeeper"
    yield CheckResult("bootstrap", WRONG, f"the addresses are of different clusters: {of}{both}", cure)


def check_access(dialled: Sequence[AdvertisedAddress], *, sees_topics: bool, sees_disks: bool) -> Iterator[CheckResult]:
    """Whether this user may see what the other rows need."""
    refused = [one for one in dialled if isinstance(one.settings, BrokerRefusal) and one.settings.is_forbidden]
    if not refused:
        return
    if not sees_topics and not sees_disks:
        found = "this user sees no topic, and may not describe the cluster: what is wrong there stays hidden"
        yield CheckResult("access", WRONG, found, f"run this as an administrator, or {_MAY_DESCRIBE}")
    else:
        yield CheckResult("access", NOTE, "this user may not see the settings of brokers", _MAY_DESCRIBE)


def _rows_of_health(node: int, health: BrokerHealth | str) -> Iterator[CheckResult]:
    if isinstance(health, str):
        yield of_sentence("health", NOTE, health)
    else:
        yield from check_health(node, health)


def _text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
