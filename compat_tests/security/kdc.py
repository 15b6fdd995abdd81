"""A key distribution center of MIT Kerberos on loopback, with a realm, key tables and tickets of its own.

kdc = Kdc(directory)
kdc.start()
kdc.add("kafka/localhost", "alice", "bob/admin")    # their keys are in kdc.key_table(name)
kdc.environment()       # of programs that use MIT's library
kdc.java_options()      # of a JVM
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from compat_tests.harness import apache_kafka, toolchain
from compat_tests.harness.ports import HOST, reserve
from compat_tests.harness.waiting import until

REALM: Final = "HEADGATE.TEST"
LIBRARY: Final = apache_kafka.ROOT / "build" / "kerberos"
_PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_REMEDY: Final = "run `make kerberos` as root, or install krb5-kdc, krb5-admin-server and krb5-user"
_CLIENTS: Final = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    permitted_enctypes = aes256-cts-hmac-sha1-96 aes128-cts-hmac-sha1-96
[realms]
    {realm} = {{
        kdc = {host}:{port}
    }}
"""
_SERVER: Final = """\
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = {host}:{port}
[realms]
    {realm} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        max_life = 1h
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
    }}
[logging]
    kdc = FILE:{directory}/kdc.log
"""


def is_installed() -> bool:
    """Whether the programs and the library are on this machine; with CI=true the end of the test where they are not."""
    is_here = LIBRARY.exists() and all(shutil.which(program) for program in _PROGRAMS)
    if not is_here and toolchain.is_ci():
        toolchain.missing(f"no KDC, or no {LIBRARY}: {_REMEDY}")
    return is_here


class Kdc:
    """A realm; `directory` has its database, its log and all key tables."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port = reserve(self)
        self.process: subprocess.Popen[bytes] | None = None
        names = {"realm": REALM, "host": HOST, "port": self.port, "directory": directory}
        (directory / "krb5.conf").write_text(_CLIENTS.format(**names))
        (directory / "kdc.conf").write_text(_SERVER.format(**names))

    def environment(self, cache: str = "") -> dict[str, str]:
        """Variables for MIT's programs and library; `cache` names the file of the tickets."""
        more = {"KRB5CCNAME": f"FILE:{self.directory / cache}"} if cache else {}
        settings = {"KRB5_CONFIG": self.directory / "krb5.conf", "KRB5_KDC_PROFILE": self.directory / "kdc.conf"}
        return {**{name: str(path) for name, path in settings.items()}, **more}

    def broker_environment(self) -> dict[str, str]:
        """Variables for a broker: the realm, and the library `gssapi`."""
        return {**self.environment(), "PYTHONPATH": str(LIBRARY)}

    def java_options(self) -> list[str]:
        return [f"-Djava.security.krb5.conf={self.directory / 'krb5.conf'}"]

    def start(self) -> None:
        """Make the database and serve it."""
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self.process = subprocess.Popen(
            ["krb5kdc", "-n", "-r", REALM],
            env={**os.environ, **self.environment()},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self._is_listening, "the KDC to listen")

    def _is_listening(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex((HOST, self.port)) == 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)
            self.process = None

    def add(self, *names: str, options: Sequence[str] = ()) -> None:
        """Add principals with random keys, and write their key tables."""
        commands = [
            text
            for name in names
            for text in (
                " ".join(("addprinc -randkey", *options, name)),
                f"ktadd -k {self.key_table(name)} -norandkey {name}",
            )
        ]
        self.run_admin(*commands)

    def run_admin(self, *commands: str) -> None:
        """Run commands of `kadmin`."""
        self._run("kadmin.local", "-r", REALM, stdin="\n".join((*commands, "")))

    def key_table(self, name: str) -> Path:
        return self.directory / f"{name.replace('/', '.')}.keytab"

    def log_in(self, name: str, cache: str, *options: str) -> None:
        """Get a ticket for a principal by its key table, into the file `cache`."""
        self._run("kinit", "-k", "-t", str(self.key_table(name)), *options, name, cache=cache)

    def _run(self, *command: str, stdin: str = "", cache: str = "") -> None:
        done = subprocess.run(
            command,
            env={**os.environ, **self.environment(cache)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}"
