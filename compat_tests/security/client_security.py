"""The security settings of a stock client, in the words of each family.

Certificates are made by a process of the product's tests; nothing of the product is imported.

    files = make_certificates(directory, "broker", "client")
    driver.security = Security(files, certificate="client")     # TLS with the client's own certificate
    driver.security = Security(files, login=Login("PLAIN", "alice", "secret"))      # SASL over TLS
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from compat_tests.harness.apache_kafka import ROOT

GSSAPI: Final = "GSSAPI"
SERVICE: Final = "kafka"
PASSWORD: Final = "secret"  # noqa: S105  of the files of these tests
# The programs of compat_tests read their settings there: JSON with paths of PEM files and the fields of a login, and a
# file of Java's settings
PEM_VARIABLE: Final = "COMPAT_TLS"
JAVA_VARIABLE: Final = "COMPAT_SETTINGS"


class Login(NamedTuple):
    """How a client names itself by SASL."""

    mechanism: str
    user: str
    password: str = ""
    token: str = ""
    """The signed token of OAUTHBEARER; empty for one without a signature."""
    key_table: str = ""
    """Of GSSAPI: the path of the user's keys."""
    kerberos: str = ""
    """The path of krb5.conf; a JVM reads it once, so other mechanisms may have it too."""
    is_delegation_token: bool = False
    """Whether the user is the id of a delegation token, and the password its secret in base64 (KIP-48)."""

    @property
    def bearer(self) -> str:
        """The token as a client sends it."""
        return self.token or unsecured_token(self.user)

    def of_librdkafka(self) -> dict[str, str]:
        """Settings; a client gets a signed token by a function alone."""
        settings = {"security.protocol": "SASL_SSL", "sasl.mechanisms": self.mechanism}
        if self.mechanism == GSSAPI:
            names = {"service.name": SERVICE, "principal": self.user, "keytab": self.key_table}
            return {**settings, **{f"sasl.kerberos.{name}": value for name, value in names.items()}}
        if self.mechanism != "OAUTHBEARER":
            return {**settings, "sasl.username": self.user, "sasl.password": self.password}
        if self.token:
            return settings
        unsecured = {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={self.user}",
        }
        return {**settings, **unsecured}

    def of_java(self, token_file: Path) -> dict[str, str]:
        settings = {"security.protocol": "SASL_SSL", "sasl.mechanism": self.mechanism}
        if self.mechanism == GSSAPI:
            return {**settings, "sasl.kerberos.service.name": SERVICE, "sasl.jaas.config": self.kerberos_jaas()}
        names = f'username="{self.user}" password="{self.password}"'
        names += ' tokenauth="true"' if self.is_delegation_token else ""
        module = "scram.ScramLoginModule" if self.mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
        if self.mechanism == "OAUTHBEARER":
            module = "oauthbearer.OAuthBearerLoginModule"
            names = f'unsecuredLoginStringClaim_sub="{self.user}"'
        if self.token:
            names = ""
            token_file.write_text(self.token)
            settings["sasl.oauthbearer.token.endpoint.url"] = token_file.as_uri()
            handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            settings["sasl.login.callback.handler.class"] = handler
        return {**settings, "sasl.jaas.config": f"org.apache.kafka.common.security.{module} required {names};"}

    def kerberos_jaas(self) -> str:
        options = f'useKeyTab=true storeKey=true keyTab="{self.key_table}" principal="{self.user}"'
        return f"com.sun.security.auth.module.Krb5LoginModule required {options};"

    def environment(self) -> dict[str, str]:
        """Of MIT's library, which has the tickets beside the keys."""
        if not self.key_table:
            return {}
        return {"KRB5_CONFIG": self.kerberos, "KRB5CCNAME": f"FILE:{self.key_table}.tickets"}


class Security(NamedTuple):
    """`directory` has the files of `make_certificates`. `ca` and `certificate` are names there, without suffix."""

    directory: Path
    certificate: str = ""
    """The client's own; empty for none."""
    ca: str = "ca"
    login: Login | None = None

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
        login = {} if self.login is None else self.login.of_librdkafka()
        return {"security.protocol": "SSL", **{names[name]: path for name, path in self.pem().items()}, **login}

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
        if self.login is not None:
            settings |= self.login.of_java(self.token_file(self.login))
        return settings

    def token_file(self, login: Login) -> Path:
        """One for all tokens of a user: a JVM is told once which files it may read."""
        return self.directory / f"{login.user}.jwt"

    def java_path(self, suffix: str) -> Path:
        login = "" if self.login is None else f"-{self.login.mechanism}-{hash(self.login) & 0xFFFFFFFF:x}"
        return self.directory / f"{self.ca}-{self.certificate or 'none'}{login}{suffix}"

    def java_file(self) -> str:
        """The path of a file with Java's settings, for `--command-config` and the like."""
        return write_properties(self.java_path(".properties"), self.of_java())

    def of_kafka_python(self) -> dict[str, Any]:
        names = {"ca": "ssl_cafile", "certificate": "ssl_certfile", "key": "ssl_keyfile"}
        files = {"security_protocol": "SSL", **{names[name]: path for name, path in self.pem().items()}}
        return files if self.login is None else {**files, **self.of_python_login(self.login)}

    def of_python_login(self, login: Login) -> dict[str, Any]:
        """Settings of kafka-python and aiokafka; the provider of tokens is a class of the one or the other."""
        settings = {"security_protocol": "SASL_SSL", "sasl_mechanism": login.mechanism}
        if login.mechanism == "OAUTHBEARER":
            return settings
        if login.mechanism == GSSAPI:
            return {**settings, "sasl_kerberos_service_name": SERVICE}
        return {**settings, "sasl_plain_username": login.user, "sasl_plain_password": login.password}

    def environment(self) -> dict[str, str]:
        """Of the programs of compat_tests."""
        fields = self.pem()
        login = self.login
        if login is not None:
            fields |= {"mechanism": login.mechanism, "user": login.user, "password": login.password}
            fields |= {"isDelegationToken": "true"} if login.is_delegation_token else {}
            fields["token"] = login.bearer if login.mechanism == "OAUTHBEARER" else ""
            fields["signedToken"] = login.token
            fields |= {"keyTable": login.key_table, "kerberos": login.kerberos}
        more = {"JDK_JAVA_OPTIONS": " ".join(options)} if (options := self.java_options()) else {}
        more |= {} if login is None else login.environment()
        return {PEM_VARIABLE: json.dumps(fields), JAVA_VARIABLE: self.java_file(), **more}

    def java_options(self) -> list[str]:
        """Options of a JVM, which no file of settings can have."""
        options = []
        if self.login is not None and self.login.token:
            path = self.token_file(self.login)
            allowed = {"urls": path.as_uri(), "files": str(path)}
            options += [
                f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{name}={value}" for name, value in allowed.items()
            ]
        if self.login is not None and self.login.kerberos:
            options.append(f"-Djava.security.krb5.conf={self.login.kerberos}")
        return options

    def path(self, name: str) -> str:
        return str(self.directory / name)


def of_librdkafka(security: Security | None) -> Mapping[str, str]:
    return {} if security is None else security.of_librdkafka()


def write_properties(path: Path, settings: Mapping[str, str]) -> str:
    """Write a file of Java's settings; its path."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def of_confluent(security: Security | None) -> dict[str, Any]:
    """The same with the function that gives a signed token."""
    settings: dict[str, Any] = dict(of_librdkafka(security))
    if security is not None and security.login is not None and security.login.token:
        token = security.login.token
        settings["oauth_cb"] = lambda _config: (token, time.time() + 3600)
    return settings


def unsecured_token(user: str) -> str:
    """A token without a signature, valid for an hour."""
    claims = {"sub": user, "iat": int(time.time()), "exp": int(time.time()) + 3600}
    parts = ({"alg": "none"}, claims)
    return "".join(f"{base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip('=')}." for part in parts)


def make_certificates(directory: Path, *names: str) -> Path:
    """Write an authority and certificates that it signs: the files that the head of the program names."""
    program = "headgate.protocol.security.tls.tests.certificates"
    subprocess.run([sys.executable, "-m", program, str(directory), *names], cwd=ROOT, check=True, timeout=60)
    return directory
