"""What rounds run against: one broker, or three, each behind a proxy that the broker advertises."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from compat_tests.cluster.cluster import HEADGATE, IDS, Cluster
from compat_tests.harness.broker import new_broker
from compat_tests.harness.ports import reserve
from compat_tests.harness.proxy import Proxy
from compat_tests.histories.round import SETTINGS, Target

SETS_LIMIT_S: Final = 60.0


@contextlib.contextmanager
def one_broker(directory: Path) -> Iterator[Target]:
    """A broker of the kind that HEADGATE_COMPAT_TARGET asks for."""
    with Proxy() as proxy:
        broker = new_broker(directory, {**SETTINGS, "advertised.listeners": advertised(proxy)})

        def kill_and_start(_number: int) -> None:
            broker.kill()
            broker.start()

        def heal() -> None:
            """Every fault of one broker ends by itself."""

        try:
            broker.start()
            proxy.target = broker.bootstrap
            yield Target(
                [proxy],
                kill_and_start,
                lambda _: os.kill(broker.pid, signal.SIGSTOP),
                lambda _: os.kill(broker.pid, signal.SIGCONT),
                heal,
            )
        finally:
            broker.kill()


class ProxiedCluster(Cluster):
    """Three brokers; what they ask each other goes through the proxies too."""

    def __init__(self, directory: Path, proxies: list[Proxy]) -> None:
        super().__init__(directory, HEADGATE, SETTINGS)
        self.proxies = proxies

    def settings_of(self, broker_id: int) -> Mapping[str, str]:
        proxy = self.proxies[broker_id]
        proxy.target = f"127.0.0.1:{reserve(proxy)}"
        return {"listeners": f"PLAINTEXT://{proxy.target}", "advertised.listeners": advertised(proxy)}


@contextlib.contextmanager
def three_brokers(directory: Path) -> Iterator[Target]:
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy()) for _ in IDS]
        cluster = stack.enter_context(ProxiedCluster(directory, proxies))

        def kill_and_start(number: int) -> None:
            cluster.kill(number)
            cluster.start(number)

        def heal() -> None:
            cluster.wait_for_full_sets(SETS_LIMIT_S)

        yield Target(proxies, kill_and_start, cluster.pause, cluster.resume, heal)


def advertised(proxy: Proxy) -> str:
    return f"PLAINTEXT://{proxy.bootstrap}"
