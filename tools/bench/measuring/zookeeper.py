"""A ZooKeeper for Headgate under measurement: Maven's jars, one server on loopback, its data beside the broker's."""

import shutil
import socket
import subprocess
import time
from pathlib import Path

from headgate.tools.bench.measuring.brokers import free_port
from headgate.tools.bench.measuring.machine import process_cpu_seconds
from headgate.tools.bench.requests.client import BenchError

ZOOKEEPER_JARS = Path("build/jars/zookeeper")
_START_WITHIN_SECONDS = 30.0
_POLL_SECONDS = 0.02
_CONFIGURATION = """\
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=srvr
maxClientCnxns=0
"""


class ZooKeeperServer:
    """One server with ZooKeeper's defaults. Its CPU is not the broker's."""

    def __init__(self, jars: Path, directory: Path) -> None:
        """`directory` is removed with all that is in it. Raises BenchError without Java or jars."""
        java = shutil.which("java")
        if java is None or not list(jars.glob("zookeeper-*.jar")):
            raise BenchError(f"no java on the path, or no ZooKeeper in {jars}; run `make jars`")
        self._java = java
        self._jars = jars.resolve()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self.port}"

    def cpu_seconds(self) -> float:
        return process_cpu_seconds(self._process.pid) if self._process else 0.0

    def start(self) -> None:
        """Start the server, and wait until it answers. Raises BenchError."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir(parents=True)
        self.port = free_port()
        configuration, output = self._directory / "zoo.cfg", self._directory / "output.log"
        configuration.write_text(_CONFIGURATION.format(data=self._directory / "data", port=self.port))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = [self._java, "-Xmx256m", "-cp", str(self._jars / "*"), main, str(configuration)]
        with output.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_WITHIN_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                ended = "\n".join(output.read_text(errors="replace").splitlines()[-15:])
                self.stop()
                raise BenchError(f"ZooKeeper does not answer: {ended}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End the server and remove its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"srvr")
                return connection.recv(100).startswith(b"Zookeeper version")
        except OSError:
            return False
