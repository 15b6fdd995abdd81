"""The security settings of a stock client, in the words of each family.

Certificates are made by a process of the product's tests; nothing of the product is imported.

    files = make_certificates(directory, "broker", "client")
    driver.security = Security(files, certificate="client")     # TLS with the client's own certificate
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from compat_tests.harness.apache_kafka import ROOT

PASSWORD: Final = "secret"  # noqa: S105  of the files of these tests
# The programs of compat_tests read their settings there: JSON with paths of PEM files, and a file of Java's settings
PEM_VARIABLE: Final = "COMPAT_TLS"
JAVA_VARIABLE: Final = "COMPAT_SETTINGS"


class Security(NamedTuple):
    """`directory` has the files of `make_certificates`. `ca` and `certificate` are names there, without suffix."""

    directory: Path
    certificate: str = ""
    """The client's own; empty for none."""
    ca: str = "ca"

    def pem(self) -> dict[str, str]:
        """Paths of PEM files, by `ca`, `certificate` and `key`; without its own certificate, `ca` alone."""
        files = {"ca": self.path(f"{self.ca}.pem")}
        if self.certificate:
            files["certificate"] = self.path(f"{self.certificate}.chain.pem")
            files["key"] = self.path(f"{self.certificate}.key.pem")
        return files

    def of_librdkafka(self) -> dict[str, str]:
        """Settings of every librdkafka; see `checks_host_name`."""
        names = {"ca": "ssl.ca.location", "certificate": "ssl.certificate.location", "key": "ssl.key.location"}
        return {"security.protocol": "SSL", **{names[name]: path for name, path in self.pem().items()}}

    def of_java(self) -> dict[str, str]:
        """Settings of every Java client. Before 2.0 none checked the host name by default."""
        settings = {
            "security.protocol": "SSL",
            "ssl.endpoint.identification.algorithm": "https",
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": self.path(f"{self.ca}.p12"),
            "ssl.truststore.password": PASSWORD,
        }
        if self.certificate:
            settings |= {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": self.path(f"{self.certificate}.p12"),
                "ssl.keystore.password": PASSWORD,
                "ssl.key.password": PASSWORD,
            }
        return settings

    def java_file(self) -> str:
        """The path of a file with Java's settings, for `--command-config` and the like."""
        return write_properties(self.directory / f"{self.ca}-{self.certificate or 'none'}.properties", self.of_java())

    def of_kafka_python(self) -> dict[str, str]:
        names = {"ca": "ssl_cafile", "certificate": "ssl_certfile", "key": "ssl_keyfile"}
        return {"security_protocol": "SSL", **{names[name]: path for name, path in self.pem().items()}}

    def environment(self) -> dict[str, str]:
        """Of the programs of compat_tests."""
        return {PEM_VARIABLE: json.dumps(self.pem()), JAVA_VARIABLE: self.java_file()}

    def path(self, name: str) -> str:
        return str(self.directory / name)


def of_librdkafka(security: Security | None) -> Mapping[str, str]:
    return {} if security is None else security.of_librdkafka()


def write_properties(path: Path, settings: Mapping[str, str]) -> str:
    """Write a file of Java's settings; its path."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def make_certificates(directory: Path, *names: str) -> Path:
    """Write an authority and certificates that it signs: the files that the head of the program names."""
    program = "headgate.gateway.security.tls.tests.certificates"
    subprocess.run([sys.executable, "-m", program, str(directory), *names], cwd=ROOT, check=True, timeout=60)
    return directory
