"""`headgate spark doctor`: what keeps Spark from working here, each with its cure. Only `--master` starts a JVM.

Output: a table on a terminal, JSON lines otherwise; one row a check. Exit codes: 0 nothing wrong; 2 wrong usage; 3 at
least one check is wrong. A note is no error: the row says what it costs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from headgate.spark.executors import ExecutorReport, NoExecutor, ask_executors
from headgate.spark.installation import Installation, add_conf_option, find_installation, probe_worker
from headgate.spark.jar_sets import CONNECTOR, SETS, Jar
from headgate.spark.jars import default_folder, is_right
from headgate.tools.client.client import ClientError
from headgate.tools.client.security_option import add_security_option
from headgate.tools.doctor.check_result import NOTE, OK, WRONG, CheckResult, result_of, table_lines
from headgate.tools.doctor.cluster.advertised import check_advertised, dial_advertised
from headgate.tools.output import add_format_options, print_result, seconds

EXECUTORS_LIMIT_S: Final = 60.0
OLDEST_JAVA, TESTED_JAVA = 17, (17, 21)
PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"
# Packages that a task of the format `headgate` imports; `pandas` is not among them
WORKER_PACKAGES: Final = ("pyspark", "numpy", "pyarrow", "cramjam", "headgate")
# Packages that Spark's Ivy resolves for the connector besides
_TRANSITIVE: Final = (
    "com/github/luben/zstd-jni",
    "com/google/code/findbugs/jsr305",
    "org/apache/hadoop/hadoop-client-api",
    "org/apache/hadoop/hadoop-client-runtime",
    "org/lz4/lz4-java",
    "org/scala-lang/modules/scala-parallel-collections_2.13",
    "org/slf4j/slf4j-api",
    "org/xerial/snappy/snappy-java",
)


# ------------------------------------------------------------------------------------------------------ pure checks


def check_pyspark(installed: Installation) -> CheckResult:
    if installed.spark is None:
        return CheckResult("pyspark", WRONG, "not installed", "pip install 'headgate[spark]'")
    if installed.spark not in SETS:
        whole = ", ".join(SETS)
        return CheckResult(
            "pyspark",
            WRONG,
            f"{installed.spark}: no connector with its token provider is published for it",
            f"pip install one of {whole}; `headgate spark jars` names the nearest",
        )
    return CheckResult("pyspark", OK, installed.spark)


def check_packages(packages: Mapping[str, str | None]) -> Iterator[CheckResult]:
    """The packages of the driver: numpy and pyarrow for the format `headgate`, pandas below 3 for Spark itself."""
    for name in ("numpy", "pyarrow"):
        version = packages.get(name)
        if version is None:
            yield CheckResult(name, WRONG, "not installed", "pip install 'headgate[spark]'")
        else:
            yield CheckResult(name, OK, version)
    pandas = packages.get("pandas")
    if pandas is None:
        yield CheckResult("pandas", OK, "not installed, not needed")
    elif _first_number(pandas) >= 3:
        yield CheckResult("pandas", WRONG, f"{pandas}: Spark 4 does not know it", "pip install 'pandas<3'")
    else:
        yield CheckResult("pandas", OK, pandas)


def check_java(version: str | None, place: str) -> CheckResult:
    """`version`: of the file `release` beside `java`, as 17.0.12; None without one."""
    result = partial(CheckResult, "java")
    if not place:
        return result(WRONG, "no java on the path, no JAVA_HOME", "install a JDK 17 or 21, or set JAVA_HOME")
    if version is None:
        return result(NOTE, f"{place} does not tell its version", f"run {place}/bin/java -version: 17 or 21")
    number = _first_number(version.removeprefix("1."))
    if number < OLDEST_JAVA:
        return result(WRONG, f"{version} at {place}", "Spark 4 needs Java 17: set JAVA_HOME to a JDK 17 or 21")
    if number not in TESTED_JAVA:
        return result(NOTE, f"{version} at {place}", "Spark 4 is made for Java 17 and 21: set JAVA_HOME to one")
    return result(OK, f"{version} at {place}")


def check_scala(spark: str | None, names: Sequence[str]) -> CheckResult:
    """`names`: the files in the folder `jars` of Spark's home."""
    cores = [name for name in names if name.startswith("spark-core_")]
    if not cores:
        return CheckResult(
            "scala", WRONG, "no spark-core in Spark's home", "set SPARK_HOME to a whole Spark, or unset it"
        )
    scala, _, version = cores[0].removeprefix("spark-core_").removesuffix(".jar").partition("-")
    if spark is not None and version != spark:
        return CheckResult(
            "scala",
            WRONG,
            f"SPARK_HOME has Spark {version}, the Python package is {spark}",
            f"unset SPARK_HOME, or pip install pyspark=={version}",
        )
    if scala != "2.13":
        return CheckResult("scala", WRONG, f"Scala {scala}", "the connectors of Spark 4 are made for 2.13")
    return CheckResult("scala", OK, f"Scala {scala}, Spark {version}")


def check_connector(jars: Sequence[Jar], folder: Path, in_home: Sequence[str]) -> CheckResult:
    """The jars of `headgate spark jars`, and others in Spark's home that come before them on the class path."""
    wanted = {jar.artifact: jar.version for jar in jars}
    for name in in_home:
        artifact, _, version = name.removesuffix(".jar").rpartition("-")
        if version != wanted.get(artifact, version):
            return CheckResult(
                "connector",
                WRONG,
                f"{name} lies in Spark's home; this Spark needs {artifact} {wanted[artifact]}",
                f"remove {name} from the folder jars of Spark's home",
            )
    wrong = [jar.file for jar in jars if not is_right(jar, folder / jar.file)]
    if not wrong:
        return CheckResult("connector", OK, f"{len(jars)} jars in {folder}")
    if len(wrong) == len(jars):
        return CheckResult("connector", NOTE, f"no jars in {folder}", "for the format kafka: headgate spark jars")
    return CheckResult("connector", WRONG, f"{', '.join(wrong)} missing or damaged in {folder}", "headgate spark jars")


def check_named_jars(settings: Mapping[str, str], spark: str | None) -> Iterator[CheckResult]:
    """`spark.jars` and `spark.jars.packages` of spark-defaults.conf: another Scala or another Spark."""
    for setting in ("spark.jars", "spark.jars.packages"):
        for name in filter(None, settings.get(setting, "").split(",")):
            if "_2.12" in name:
                yield CheckResult(
                    setting, WRONG, name, "this is made for Scala 2.12: name the one that ends with _2.13"
                )
            elif spark and "spark-sql-kafka" in name and spark not in name:
                yield CheckResult(setting, WRONG, name, f"this is made for another Spark: name version {spark}")


def check_worker(
    python: str, report: Mapping[str, str | None] | None, driver: str, use: str = ""
) -> Iterator[CheckResult]:
    """`report`: the versions of Python and of packages that a worker has; None if it does not run.

    `use`: the purpose of this interpreter, if not all workers.
    """
    cure = f"export PYSPARK_PYTHON={sys.executable}; for a cluster: headgate spark pack"
    if report is None:
        yield CheckResult("worker", WRONG, f"{python}{use} does not run", cure)
        return
    version = report.get("python") or "unknown"
    if version.split(".")[:2] != driver.split(".")[:2]:
        yield CheckResult("worker", WRONG, f"{python}{use} is Python {version}, the driver is {driver}", cure)
        return
    lacking = [name for name in WORKER_PACKAGES if report.get(name) is None]
    if lacking:
        yield CheckResult("worker", WRONG, f"{python}{use} has no {', '.join(lacking)}", cure)
    else:
        yield CheckResult("worker", OK, f"{python}{use}, Python {version}")


def check_push_down(settings: Mapping[str, str]) -> CheckResult:
    """Spark 4.1.1 keeps the filters of the last query of a loaded frame for its other queries: wrong rows."""
    if settings.get(PUSH_DOWN, "false").strip().lower() == "true":
        return CheckResult(
            "push-down",
            NOTE,
            f"{PUSH_DOWN}=true: Spark 4.1.1 then gives wrong rows to a second query of one load() of a Python source",
            "call load() for each query; the format headgate takes filters only with its option pushFilters=true",
        )
    return CheckResult("push-down", OK, f"{PUSH_DOWN} is off, Spark's default; the option pushFilters=true needs it")


def check_poms(repository: Path, jars: Sequence[Jar]) -> Iterator[CheckResult]:
    """Poms without jars, which an interrupted Maven leaves: Spark's Ivy takes them for whole, and fails."""
    ours = {(repository / jar.repository_path).parent for jar in jars}
    others = {folder for name in _TRANSITIVE for folder in (repository / name).glob("*/")} - ours
    is_clean = True
    for folders, state in ((ours, WRONG), (others, NOTE)):
        bare = sorted(str(folder) for folder in folders if any(folder.glob("*.pom")) and not any(folder.glob("*.jar")))
        if bare:
            is_clean = False
            found = f"{len(bare)} without a jar: {', '.join(bare[:3])}{', ...' if bare[3:] else ''}"
            cure = "spark.jars.packages may fail: use `headgate spark jars`, or remove these folders"
            yield CheckResult("poms", state, found, cure)
    if is_clean:
        yield CheckResult("poms", OK, f"none without a jar in {repository}")


def check_local_address(address: str | None, environment: Mapping[str, str]) -> CheckResult:
    """`address`: the address of the host's own name; None if the name does not resolve."""
    named = environment.get("SPARK_LOCAL_IP")
    if named:
        return CheckResult("address", OK, f"SPARK_LOCAL_IP={named}")
    if address is None:
        return CheckResult(
            "address", WRONG, "the host's name does not resolve", "export SPARK_LOCAL_IP=127.0.0.1, for local masters"
        )
    return CheckResult("address", OK, f"the host's name resolves to {address}")


def check_executors(answers: Sequence[ExecutorReport]) -> Iterator[CheckResult]:
    """What tasks in the cluster found: interpreter, packages, and each advertised address."""
    for answer in answers:
        lacking = [name for name in WORKER_PACKAGES if name != "pyspark" and answer.versions.get(name) is None]
        if lacking:
            found = f"{answer.python} of {answer.host} has no {', '.join(lacking)}"
            yield CheckResult("executor", WRONG, found, "headgate spark pack makes an archive for spark.archives")
        else:
            yield CheckResult(
                "executor", OK, f"{answer.python} of {answer.host}, Python {answer.versions.get('python')}"
            )
        for address, error in answer.errors.items():
            if error is None:
                yield CheckResult("executor", OK, f"{answer.host} reaches {address}")
            else:
                cure = f"set advertised.listeners of this broker to an address that {answer.host} reaches"
                yield CheckResult("executor", WRONG, f"{answer.host} does not reach {address}: {error}", cure)


def _first_number(version: str) -> int:
    digits = version.split(".", maxsplit=1)[0]
    return int(digits) if digits.isdecimal() else 0


# ------------------------------------------------------------------------------------------------------------- command


def main(arguments: Sequence[str]) -> int:
    """Run `headgate spark doctor <arguments>`; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="headgate spark doctor",
        description="Find what keeps Spark from working here; no JVM is started without --master.",
    )
    parser.add_argument(
        "--bootstrap-server", metavar="host:port", help="also dial the addresses that brokers advertise"
    )
    add_security_option(parser)
    parser.add_argument("--timeout", type=seconds, default=3.0, metavar="seconds", help="of each broker; default: 3")
    parser.add_argument(
        "--master", metavar="url", help="of a cluster: dial in a task on its executors; this starts a session"
    )
    add_conf_option(parser)
    parser.add_argument("--python", metavar="path", help="the workers' interpreter; default: as Spark chooses it")
    add_format_options(parser)
    options = parser.parse_args(arguments)
    if options.master and not options.bootstrap_server:
        parser.error("--master is for the addresses of brokers: name one with --bootstrap-server host:port")
    installed = find_installation(os.environ, options.python)
    findings = list(examine(installed, os.environ))
    if options.bootstrap_server:
        addresses, rows = _dial(options)
        findings += rows
        if options.master and not options.master.startswith("local"):
            findings += _ask(options, installed.worker, addresses)
    return print_result("spark doctor", result_of(findings), options, table_lines)


def _dial(options: argparse.Namespace) -> tuple[list[str], list[CheckResult]]:
    """The addresses that the brokers advertise, and whether they answer here."""
    bootstrap = options.bootstrap_server
    try:
        dialled = dial_advertised(bootstrap, options.timeout, options.security)
    except ClientError as error:
        cure = "start the broker, or name another: --bootstrap-server host:port"
        return [], [CheckResult("broker", WRONG, str(error), cure)]
    return [one.address for one in dialled], list(check_advertised(bootstrap, dialled, "executors"))


def _ask(options: argparse.Namespace, worker: str, addresses: Sequence[str]) -> Iterator[CheckResult]:
    """The findings of the executors of `--master`."""
    settings = {"spark.master": options.master, **dict(options.conf)}
    python = settings.get("spark.pyspark.python", worker)
    try:
        yield from check_executors(
            ask_executors(
                settings, python, addresses, WORKER_PACKAGES, timeout_s=options.timeout, limit_s=EXECUTORS_LIMIT_S
            )
        )
    except NoExecutor as error:
        yield CheckResult(
            "executor",
            WRONG,
            f"{options.master}, interpreter {python}: {error}",
            "the workers need free cores and memory (spark.executor.memory), the interpreter of the setting "
            "spark.pyspark.python, and a way to the driver (spark.driver.host)",
        )


def examine(installed: Installation, environment: Mapping[str, str]) -> Iterator[CheckResult]:
    """All checks of this machine."""
    jars = SETS.get(installed.spark or "", {}).get(CONNECTOR, ())
    yield check_pyspark(installed)
    yield from check_packages(installed.packages)
    yield check_java(installed.java, installed.java_home)
    if installed.spark is not None:
        yield check_scala(installed.spark, installed.home_jars)
        yield check_connector(jars, default_folder(installed.spark, environment), installed.home_jars)
    yield from check_named_jars(installed.settings, installed.spark)
    for python in dict.fromkeys((installed.worker, installed.source_worker)):
        use = "" if python == installed.worker else " of the format headgate"
        yield from check_worker(python, probe_worker(python), installed.python, use)
    yield check_push_down(installed.settings)
    yield from check_poms(installed.maven_repository, jars)
    yield check_local_address(installed.own_address, environment)
