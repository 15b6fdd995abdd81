"""The certificates of all links are replaced again and again under load, and their authority too."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from compat_tests.cluster.cluster import HEADGATE, IDS, gaps
from compat_tests.cluster.secure import SECURE, SecureCluster
from compat_tests.cluster.test_secure import PLACEMENT
from compat_tests.cluster.traffic import Traffic
from compat_tests.harness.apache_kafka import ROOT
from compat_tests.harness.waiting import until

pytestmark = [pytest.mark.sockets, pytest.mark.soak]

TIMES: Final = 20
IN_USE: Final = "new stores are in use"
# Two authorities with keys that are not kept: the second one signs the later half of the certificates
ISSUE: Final = """
import sys
from pathlib import Path
from headgate.protocol.security.tls.tests.certificates import Authority, pem
directory, count = Path(sys.argv[1]), int(sys.argv[2])
authorities = [Authority("First CA"), Authority("Second CA")]
for number in range(count):
    issued = authorities[number * 2 // count].issue("broker", days=(-1, 30 + number))
    (directory / f"broker-{number}.pem").write_text(issued.pem())
(directory / "both.pem").write_text("".join(each.pem() for each in authorities))
(directory / "second.pem").write_text(authorities[1].pem())
"""


class RenewedCluster(SecureCluster):
    """Brokers with certificates on both ends of a link; all read the same stores."""

    def __init__(self, directory: Path) -> None:
        more: dict[str, Any] = {"has_client_certificates": True}
        super().__init__(directory, HEADGATE, "SSL", {"super.users": "User:CN=broker"}, **more)
        command = [sys.executable, "-c", ISSUE, str(self.certificates), str(TIMES + 1)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=60)
        self.put("broker.pem", "broker-0.pem")
        self.put("ca.pem", "both.pem")

    def put(self, name: str, source: str) -> None:
        """As tools that renew certificates do: a new file takes the place of the old one."""
        new = self.certificates / f"{name}.new"
        new.write_bytes((self.certificates / source).read_bytes())
        new.replace(self.certificates / name)

    def replace(self, name: str, source: str) -> None:
        """Replace a file, signal all brokers, and wait until each of them has it in use."""
        before = {one: self._reloads(one) for one in IDS}
        self.put(name, source)
        for one in IDS:
            os.kill(self.brokers[one].pid, signal.SIGHUP)
        until(lambda: all(self._reloads(one) > before[one] for one in IDS), f"{source} in use", 20)

    def _reloads(self, broker_id: int) -> int:
        return sum(IN_USE in line for line in self.brokers[broker_id].error_lines())

    def certificate_of(self, broker_id: int) -> str:
        """What the listener of the links shows, in PEM."""
        return ssl.get_server_certificate(("127.0.0.1", self.ports[broker_id][SECURE]), timeout=10)

    def issued(self, number: int) -> str:
        return (self.certificates / f"broker-{number}.pem").read_text()


def test_certificates_of_links_are_replaced_under_load(tmp_path: Path, figure: Callable[[str], None]) -> None:
    """Links that are open go on. After a restart each link is new, and no end has an old certificate or authority."""
    with RenewedCluster(tmp_path) as cluster:
        with Traffic(cluster, PLACEMENT * 2) as traffic:
            for number in range(1, TIMES + 1):
                cluster.replace("broker.pem", f"broker-{number}.pem")
                for one in IDS:
                    assert cluster.certificate_of(one) in cluster.issued(number)
                traffic.flow()
                assert not [gap for view in cluster.views() for gap in gaps(view)]
            cluster.replace("ca.pem", "second.pem")
            for one in IDS:
                cluster.stop(one)
                cluster.start(one)
                cluster.wait_for_full_sets()
                traffic.flow()
        count = traffic.check()
        for broker in cluster.brokers.values():
            lines = "\n".join(broker.error_lines())
            assert "its certificate is refused" not in lines
            assert "does not trust the certificate of this broker" not in lines
    figure(f"{TIMES} certificates of three brokers and an authority replaced: {count} records in 3 equal logs")
