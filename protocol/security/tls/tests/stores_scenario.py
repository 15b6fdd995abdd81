"""Stores and TLS settings, right and wrong, and the recorder of what Kafka says of each.

    python -m headgate.protocol.security.tls.tests.stores_scenario build/jars/broker build/jars/broker39

asks `compat_tests/java/broker/src/SslStores.java` with the jars of Kafka 4.1 and of 3.9, on JDK 17, and writes
`stores_of_kafka.txt`: the label of a case, a tab, and the answer, which both releases gave alike. `keytool_stores.txt`
has stores that keytool and openssl made, in Base64, each with the command.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from base64 import b64decode
from pathlib import Path

from headgate.protocol.security.tls.tests.certificates import PKCS1, Authority, Issued, pem, pkcs12_trust

HERE = Path(__file__).parent
RECORD = HERE / "stores_of_kafka.txt"
PROGRAM = "compat_tests/java/broker/src/SslStores.java"
KEY_PASSWORD = "kp"

KEY_PEM, KEY_P12 = {"ssl.keystore.type": "PEM"}, {"ssl.keystore.type": "PKCS12"}
TRUST_PEM = {"ssl.truststore.type": "PEM"}
SECRET, KEY_SECRET = {"ssl.keystore.password": "secret"}, {"ssl.key.password": KEY_PASSWORD}
TRUST_SECRET = {"ssl.truststore.password": "secret"}
INLINE_KEY, INLINE_CHAIN = {"ssl.keystore.key": "@key"}, {"ssl.keystore.certificate.chain": "@chain"}
INLINE_TRUST = {"ssl.truststore.certificates": "@ca.pem"}


def key(file: str) -> dict[str, str]:
    return {"ssl.keystore.location": f"/{file}"}


def trust(file: str) -> dict[str, str]:
    return {"ssl.truststore.location": f"/{file}"}


# Labels and settings. In a value, `/` is the directory of the files, and `@name` the content of a file
CASES: dict[str, dict[str, str]] = {
    **{
        f"key store {name}": {**KEY_PEM, **key(f"{name}.pem")}
        for name in (
            *(
                "ok",
                "chain first",
                "with root",
                "with text",
                "in one line",
                "encrypted",
                "key only",
                "chain only",
                "two keys",
            ),
            *(
                "wrong order",
                "with a gap",
                "twice the same",
                "not fitting",
                "pkcs1",
                "expired",
                "future",
                "garbage",
                "empty",
            ),
            *("missing", "old encryption", "of its issuer", "root twice"),
        )
    },
    "key password": {**KEY_PEM, **key("encrypted.pem"), **KEY_SECRET},
    "key password, older encryption": {**KEY_PEM, **key("openssl v1.pem"), **KEY_SECRET},
    "wrong key password, older encryption": {**KEY_PEM, **key("openssl v1.pem"), "ssl.key.password": "no"},
    "wrong key password": {**KEY_PEM, **key("encrypted.pem"), "ssl.key.password": "no"},
    "needless key password": {**KEY_PEM, **key("ok.pem"), **KEY_SECRET},
    "password of PEM": {**KEY_PEM, **key("ok.pem"), **SECRET},
    "directory": {**KEY_PEM, **key("")},
    "type in lower case, PEM": {"ssl.keystore.type": "pem", **key("ok.pem")},
    "type in lower case": {"ssl.keystore.type": "pkcs12", **key("ok.p12"), **SECRET},
    "type JKS of PKCS12": {**key("ok.p12"), **SECRET},
    "type JKS of JKS": {**key("keytool.jks"), **SECRET},
    "type PKCS12 of JKS": {**KEY_P12, **key("keytool.jks"), **SECRET},
    "type PEM of PKCS12": {**KEY_PEM, **key("ok.p12")},
    "type PKCS12 of PEM": {**KEY_P12, **key("ok.pem"), **SECRET},
    "unknown type": {"ssl.keystore.type": "FOO", **key("ok.p12"), **SECRET},
    **{
        f"PKCS12 {name}": {**KEY_P12, **key(f"{name}.p12"), **SECRET}
        for name in ("ok", "cut", "keytool", "keytool legacy", "openssl legacy", "keytool trust")
    },
    "PKCS12, wrong password": {**KEY_P12, **key("ok.p12"), "ssl.keystore.password": "no"},
    "PKCS12, no password": {**KEY_P12, **key("ok.p12")},
    "PKCS12, key password the same": {**KEY_P12, **key("ok.p12"), **SECRET, "ssl.key.password": "secret"},
    "PKCS12, key password another": {**KEY_P12, **key("ok.p12"), **SECRET, **KEY_SECRET},
    "PKCS12, not encrypted": {**KEY_P12, **key("open.p12"), **SECRET},
    "texts": {**KEY_PEM, **INLINE_KEY, **INLINE_CHAIN},
    "texts in one line": {**KEY_PEM, "ssl.keystore.key": "@key.line", "ssl.keystore.certificate.chain": "@chain.line"},
    "key without chain": {**KEY_PEM, **INLINE_KEY},
    "chain without key": {**KEY_PEM, **INLINE_CHAIN},
    "texts and file": {**KEY_PEM, **INLINE_KEY, **INLINE_CHAIN, **key("ok.pem")},
    "texts and password": {**KEY_PEM, **INLINE_KEY, **INLINE_CHAIN, **SECRET},
    "texts of another type": {**INLINE_KEY, **INLINE_CHAIN},
    "password without store": SECRET,
    "store without password": key("ok.p12"),
    **{
        f"trust store {name}": {**TRUST_PEM, **trust(f"{name}.pem")}
        for name in ("ca", "ca twice", "expired ca", "ok", "garbage", "empty", "missing", "key only")
    },
    "trust store with password": {**TRUST_PEM, **trust("ca.pem"), **TRUST_SECRET},
    **{
        f"trust store PKCS12 {name}": {**trust(f"{name}.p12"), **TRUST_SECRET}
        for name in ("ca", "keytool trust", "openssl trust", "ok")
    },
    "trust store PKCS12, no password": trust("ca.p12"),
    "trust store PKCS12, wrong password": {**trust("ca.p12"), "ssl.truststore.password": "no"},
    "trust store JKS": trust("keytool.jks"),
    "trusted text": {**TRUST_PEM, **INLINE_TRUST},
    "trusted text of another type": INLINE_TRUST,
    "trusted text and file": {**TRUST_PEM, **INLINE_TRUST, **trust("ca.pem")},
    "trusted text and password": {**TRUST_PEM, **INLINE_TRUST, **TRUST_SECRET},
    "trusted text of nothing": {**TRUST_PEM, "ssl.truststore.certificates": "x"},
    "trust password without store": TRUST_SECRET,
    **{
        f"protocols {names}": {"ssl.enabled.protocols": names}
        for names in (
            *("", "TLSv1.2", "TLSv1.3", "TLSv1.1", "TLSv1.1,TLSv1.2", "TLSv1,TLSv1.3", "SSLv2Hello,TLSv1.2", "SSLv3"),
            *("TLSv9", "tlsv1.2", "TLSv1.2,TLSv1.2"),
        )
    },
    **{
        f"protocol {name}": {"ssl.protocol": name}
        for name in ("TLS", "tls", "TLSv1.2", "TLSv1.1", "TLSv1", "SSL", "SSLv3", "SSLv2", "TLSv9", "", "Default")
    },
    **{
        f"suites {names}": {"ssl.cipher.suites": names}
        for names in (
            *("", "TLS_AES_128_GCM_SHA256", "TLS_FOO", "TLS_AES_128_GCM_SHA256,TLS_FOO", "tls_aes_128_gcm_sha256"),
            *("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "TLS_RSA_WITH_NULL_SHA256"),
            *(
                "SSL_RSA_WITH_3DES_EDE_CBC_SHA",
                "TLS_ECDH_RSA_WITH_AES_128_GCM_SHA256",
                "TLS_EMPTY_RENEGOTIATION_INFO_SCSV",
            ),
            "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA",
        )
    },
}


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def keytool_stores() -> dict[str, bytes]:
    """Stores that other programs made, by their names."""
    lines = (HERE / "keytool_stores.txt").read_text().splitlines()
    return {name: b64decode(content) for name, content, *_ in (line.split("\t") for line in lines)}


OLD_ENCRYPTION = (
    "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n"
    "-----END EC PRIVATE KEY-----\n"
)


def make_files() -> dict[str, bytes]:
    """The files of the cases, by their names. The key of `ok` is signed by an intermediate authority."""
    root = Authority("Root")
    authority = Authority("Intermediate", root)
    issued, other = authority.issue("broker"), root.issue("other")
    texts = {
        "ok.pem": issued.pem(),
        "chain first.pem": issued.chain_pem() + issued.key_pem(),
        "with root.pem": issued.pem() + root.pem(),
        "with text.pem": f"subject: x-y\n{issued.pem()}the end - really\n",
        "in one line.pem": _one_line(issued.pem()),
        "encrypted.pem": issued.pem(KEY_PASSWORD),
        "old encryption.pem": OLD_ENCRYPTION + issued.chain_pem(),
        "key only.pem": issued.key_pem(),
        "chain only.pem": issued.chain_pem(),
        "two keys.pem": issued.key_pem() + other.pem(),
        "wrong order.pem": issued.key_pem() + pem(issued.chain[::-1]),
        "with a gap.pem": issued.key_pem() + pem([issued.certificate, root.certificate]),
        "twice the same.pem": issued.key_pem() + pem([issued.certificate, *issued.chain]),
        "not fitting.pem": other.key_pem() + issued.chain_pem(),
        "pkcs1.pem": issued.key_pem(form=PKCS1) + issued.chain_pem(),
        "of its issuer.pem": Issued(authority.key, issued.chain).pem(),
        "root twice.pem": Issued(root.key, (root.certificate,) * 2).pem(),
        "expired.pem": root.issue("expired", days=(-10, -1)).pem(),
        "future.pem": root.issue("future", days=(5, 10)).pem(),
        "garbage.pem": "hello",
        "empty.pem": "",
        "key": issued.key_pem(),
        "chain": issued.chain_pem(),
        "key.line": _one_line(issued.key_pem()),
        "chain.line": _one_line(issued.chain_pem()),
        "ca.pem": root.pem(),
        "ca twice.pem": root.pem() * 2,
        "expired ca.pem": Authority("old", days=0).pem(),
    }
    return {
        **{name: text.encode() for name, text in texts.items()},
        "ok.p12": issued.pkcs12(),
        "open.p12": issued.pkcs12(""),
        "cut.p12": issued.pkcs12()[:100],
        "ca.p12": pkcs12_trust([root.certificate]),
        **keytool_stores(),
    }


def record(*releases: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for name, content in make_files().items():
            (Path(directory) / name).write_bytes(content)
        lines = [
            "\t".join(f"{name}={_value(value, directory)}" for name, value in settings.items())
            for settings in CASES.values()
        ]
        answers, *others = (ask(jars, lines, directory) for jars in releases)
    assert all(other == answers for other in others), "the releases differ: record each by its name"
    RECORD.write_text("".join(f"{label}\t{answer}\n" for label, answer in zip(CASES, answers, strict=True)))


def _value(value: str, directory: str) -> str:
    return f"{value[:1]}{directory}/{value[1:]}".removeprefix("/") if value[:1] in {"/", "@"} else value


def ask(jars: str, lines: list[str], directory: str) -> list[str]:
    command = ("java", "-cp", f"{jars}/*", PROGRAM)
    done = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=True)
    answers = [line[2:].replace(directory, "") for line in done.stdout.splitlines() if line.startswith("= ")]
    return [answer.replace("\t", " ") for answer in answers]


if __name__ == "__main__":
    record(*sys.argv[1:])
