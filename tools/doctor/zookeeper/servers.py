"""The servers of ZooKeeper by the command `srvr`, which they answer by default: latency, mode, version."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from headgate.tools.client.client import ClientError, parse_addresses
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult
from headgate.tools.doctor.connecting.name import attempt, explain_attempt, resolve

DEFAULT_PORT: Final = 2181
SLOW_MS: Final = 100
_MAX_ANSWER: Final = 1 << 16
_FIELD: Final = re.compile(r"^([A-Za-z][A-Za-z /]*): (.*)$", re.MULTILINE)
_NOT_SERVING: Final = "not currently serving requests"
_NOT_ALLOWED: Final = "is not executed because it is not in the whitelist"


class ServerAnswer(NamedTuple):
    """The answer of one server. `error`: why there is none; `cure`: the next step then."""

    address: str
    text: str = ""
    took_ms: float = 0
    error: str = ""
    cure: str = ""


def parse_connect(connect: str) -> tuple[list[tuple[str, int]], str]:
    """The servers and the chroot of `host:2181,host/chroot`; the chroot is "" or begins with a slash."""
    servers, slash, chroot = connect.partition("/")
    pairs = []
    for part in filter(None, map(str.strip, servers.split(","))):
        named = part if re.search(r":\d+$", part) else f"{part}:{DEFAULT_PORT}"
        pairs += parse_addresses(named)
    return pairs, f"{slash}{chroot}".rstrip("/")


def ask_server(host: str, port: int, timeout_s: float) -> ServerAnswer:
    """Send `srvr` to a server."""
    address = f"{host}:{port}"
    resolved = resolve(host)
    if resolved.problem is not None:
        return ServerAnswer(address, error=resolved.problem, cure="correct zookeeper.connect, or the resolver")
    attempts = attempt(resolved.addresses, port, timeout_s)
    if all(one.error is not None for one in attempts):
        error, cure = explain_attempt(attempts[0])
        return ServerAnswer(address, error=error, cure=cure.replace("the broker", "ZooKeeper"))
    began, answer = time.monotonic(), b""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.sendall(b"srvr")
            while len(answer) < _MAX_ANSWER and (data := connection.recv(4096)):
                answer += data
    except OSError as failed:
        reason = f"no answer to srvr: {failed.strerror or failed}"
        return ServerAnswer(
            address, error=reason, cure="see the log of ZooKeeper: it may hang, or this is another port"
        )
    return ServerAnswer(address, answer.decode("utf-8", "replace"), (time.monotonic() - began) * 1000)


def check_servers(answers: Sequence[ServerAnswer]) -> Iterator[CheckResult]:
    """A row for each server, and one for the quorum of several."""
    for answer in answers:
        yield _check(answer)
    modes = [dict(_FIELD.findall(answer.text)).get("Mode") for answer in answers]
    known = [mode for mode in modes if mode]
    if len(answers) > 1 and known.count("standalone") > 1:
        cure = "these servers know nothing of each other: give all the same list of servers in zoo.cfg"
        yield CheckResult("zookeeper", WRONG, f"{known.count('standalone')} servers are standalone", cure)
    if len(answers) > 2 and 2 * len(known) <= len(answers):
        cure = "start servers until more than half are there; nothing is read or written before"
        yield CheckResult("zookeeper", WRONG, f"{len(known)} of {len(answers)} servers serve: no quorum", cure)


def _check(answer: ServerAnswer) -> CheckResult:
    where = f"ZooKeeper at {answer.address}"
    if answer.error:
        return CheckResult("zookeeper", WRONG, f"{where}: {answer.error}", answer.cure)
    if _NOT_SERVING in answer.text:
        cure = "it has no quorum: start the other servers of the ensemble"
        return CheckResult("zookeeper", WRONG, f"{where} runs, and does not serve", cure)
    if _NOT_ALLOWED in answer.text:
        return CheckResult(
            "zookeeper", NOTE, f"{where} answers, and tells nothing", "add srvr to 4lw.commands.whitelist"
        )
    fields = dict(_FIELD.findall(answer.text))
    if "Mode" not in fields:
        cure = "zookeeper.connect has the address of another service: correct it"
        return CheckResult("zookeeper", WRONG, f"{where} does not answer as ZooKeeper does", cure)
    version = fields.get("Zookeeper version", "").partition("-")[0]
    latency = fields.get("Latency min/avg/max", "")
    found = f"{where} is {version}, {fields['Mode']}, answers after {answer.took_ms:.0f} ms"
    found += f", its latency min/avg/max {latency} ms" if latency else ""
    if answer.took_ms > SLOW_MS:
        return CheckResult(
            "zookeeper", NOTE, found, "sessions end when it is too slow: see its disk (fsync) and its CPU"
        )
    return CheckResult("zookeeper", OK, found)


def ask_servers(connect: str, timeout_s: float) -> list[ServerAnswer] | str:
    """The answers of all servers of `zookeeper.connect`; a sentence if it names none."""
    try:
        pairs, _ = parse_connect(connect)
    except ClientError as error:
        return str(error).replace("a broker", "a server").replace("9092", "2181")
    return [ask_server(host, port, timeout_s) for host, port in pairs] or "zookeeper.connect names no server"
