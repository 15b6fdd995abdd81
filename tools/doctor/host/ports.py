"""The ports of a broker's listeners: free, its own, or taken by another process. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.connecting.name import is_loopback
from headgate.tools.doctor.host.processes import ProcessFacts
from headgate.tools.doctor.inspection import BrokerValues

_UNKNOWN_OWNER: Final = "a process of another user"


def wanted_ports(values: BrokerValues) -> dict[int, str]:
    """The setting by port; a port of 0 is any free one."""
    ports = {port: f"listeners ({name})" for name, _, port in values.listeners if port}
    return ports | {port: "headgate.http.listeners" for _, _, port in values.http_listeners if port}


def check_ports(
    wanted: Mapping[int, str], owners: Mapping[int, Sequence[ProcessFacts]], holders: Sequence[int]
) -> Iterator[CheckResult]:
    """`owners`: the processes that listen, by port; none known for another user's. `holders`: with the lock."""
    taken = False
    for port, setting in wanted.items():
        if port not in owners:
            continue
        others = [process for process in owners[port] if process.pid not in holders]
        if others or not (owners[port] or holders):
            who = ", ".join(map(str, others)) or _UNKNOWN_OWNER
            cure = f"stop it, or set another port in {setting.partition(' ')[0]}"
            state = NOTE if "http" in setting else WRONG
            yield CheckResult("ports", state, f"port {port} of {setting} is taken by {who}", cure)
            taken = True
    if wanted and not taken:
        served = sorted(port for port in wanted if port in owners)
        listed = ", ".join(map(str, wanted))
        state = f"the broker listens at {', '.join(map(str, served))}" if served else f"{listed} are free"
        yield CheckResult("ports", OK, state)


def check_advertising(values: BrokerValues) -> Iterator[CheckResult]:
    """Advertised loopback addresses of listeners that other machines reach."""
    bound = {name: host for name, host, _ in values.listeners}
    for name, host, port in values.advertised_listeners:
        if is_loopback(host) and not is_loopback(bound.get(name, host)):
            found = f"{name} listens on {bound[name] or 'every address'}, and advertises {host}:{port}"
            cure = "clients on other machines dial themselves: advertise a name that they reach"
            yield CheckResult("settings", WRONG, found, cure)
