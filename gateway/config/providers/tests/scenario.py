"""Values with variables: cases, and the recorder of the answers of Kafka's own providers.

    python -m headgate.gateway.config.providers.tests.scenario build/jars/broker

asks `compat_tests/java/broker/src/ConfigProviders.java` with the jars of Kafka 4.1, and writes
`providers_of_kafka.txt`: a case a line, in JSON: [provider, its parameter, value, answer]. An answer begins with `=`,
or with `!` before the exception. `@` is the directory of the files, in parameters and values.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

RECORD = Path(__file__).parent / "providers_of_kafka.txt"
PROGRAM = "compat_tests/java/broker/src/ConfigProviders.java"
ENVIRONMENT = {"NAME": "alice", "EMPTY": ""}
FILES = {
    "secrets.properties": b"password=hush\nempty=\na\\:b=colon\nlong=one \\\n  two\nword=p\\u00e4ss\n",
    "inside.properties": b"k=v\n",
    "in/pem": b"-----BEGIN\nkey\n",
    "in/sub/deep": b"x",
    "broken": b"a=\\u12",
    "latin.properties": b"k=p\xe4ss\n",
}
LINK = "in/link.properties"
_SECRETS = "@/secrets.properties"
CASES = (
    *(("file", "", f"${{x:{_SECRETS}:{key}}}") for key in ("password", "gone", "empty", "a:b", "long", "word", "")),
    *(("file", "", value) for value in ("${x:@/none.properties:k}", "${x:password}", "${x:@/broken:a}", "${x:@:k}")),
    *(("file", "", value) for value in ("${x:@/latin.properties:k}", "${x:@/in/../secrets.properties:password}")),
    *(("file", allowed, f"${{x:{_SECRETS}:password}}") for allowed in ("@/in", "@", "@/in,@", _SECRETS, "relative")),
    *(("file", "@/in", f"${{x:{path}:password}}") for path in ("@/in/../secrets.properties", f"@/{LINK}")),
    *(("file", "@/in", f"${{x:{path}:k}}") for path in ("@/inside.properties", "@/in/../inside.properties")),
    *(("directory", "", f"${{x:@/in:{name}}}") for name in ("pem", "gone", "../secrets.properties", "sub", "sub/deep")),
    *(("directory", "", value) for value in ("${x:pem}", "${x:@/in/../in:pem}", "${x:@/none:pem}")),
    *(("directory", "@/in", f"${{x:{path}}}") for path in ("@:secrets.properties", "@/in:pem", "@/in/..:broken")),
    *(
        ("env", "", value)
        for value in ("${x:NAME}", "${x:GONE}", "${x:EMPTY}", "${x:path:NAME}", "a${x:NAME}b${y:NAME}")
    ),
    *(("env", pattern, "${x:NAME}") for pattern in ("NA.*", "NA", "EM.*")),
    *(("env", "", value) for value in ("", "no variable", "${x}", "$${x:NAME}", "${x:NAME", "${x:NAME}${x:NAME}")),
)


def recorded() -> Iterator[list[str]]:
    """The cases, each with the answer of Kafka."""
    return map(json.loads, RECORD.read_text().splitlines())


def write_files(directory: Path) -> None:
    for name, data in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (directory / LINK).symlink_to(directory / "secrets.properties")


def ask(jars: str, directory: Path) -> list[str]:
    questions = [
        " ".join((kind, *(text.replace("@", str(directory)).encode().hex() for text in texts)))
        for kind, *texts in CASES
    ]
    done = subprocess.run(
        ("java", "-cp", f"{jars}/*", PROGRAM),
        input="\n".join(questions) + "\n",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **ENVIRONMENT},
    )
    answers = [line.split(" ")[1] for line in done.stdout.splitlines() if line.startswith("answer ")]
    return [each[0] + bytes.fromhex(each[1:]).decode().replace(str(directory), "@") for each in answers]


def record(jars: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        write_files(Path(directory))
        answers = ask(jars, Path(directory))
    lines = [json.dumps([*case, answer]) for case, answer in zip(CASES, answers, strict=True)]
    RECORD.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    record(*sys.argv[1:])
