from __future__ import annotations

from pathlib import Path

import pytest

from headgate.spark.load.loading import load
from headgate.spark.load.output.folder import OutputFolder
from headgate.spark.load.output.planning import LoadRefused, TaskFailed
from headgate.spark.load.runners import ProcessRunner, SequentialRunner, explain
from headgate.spark.load.tests.model_log import ModelLog
from headgate.spark.load.tests.test_loading import MODEST, Listener, assert_exact


@pytest.mark.sockets
@pytest.mark.slow
def test_processes_load_without_a_jvm(tmp_path: Path) -> None:
    log, output = ModelLog.random(1), OutputFolder(tmp_path)
    load(MODEST, log, output, ProcessRunner(2), Listener())
    assert_exact(log, output)
    log.partitions[0].append(__import__("random").Random(1), "plain")
    first, last, data = log.partitions[0].batches[-1]
    log.partitions[0].batches[-1] = first, last, data[:-1] + bytes([data[-1] ^ 1])
    with pytest.raises(TaskFailed, match=r"orders-0"):
        load(MODEST, log, output, ProcessRunner(2), Listener())


def test_the_error_of_a_worker_is_found_in_its_traceback() -> None:
    text = (
        "Traceback (most recent call last):\n  File ...\n"
        "headgate.spark.load.output.planning.LoadRefused: the topic is gone\n\n\tat org.apache.spark"
    )
    assert explain(text) == "the topic is gone"
    assert explain("java.lang.OutOfMemoryError") == "java.lang.OutOfMemoryError"


def test_only_spark_writes_tables(tmp_path: Path) -> None:
    request = MODEST._replace(into="delta", table="x")
    with pytest.raises(LoadRefused, match="leave --processes out"):
        load(request, ModelLog.random(1), OutputFolder(tmp_path), SequentialRunner(), Listener())
    for runner in (SequentialRunner(), ProcessRunner(1)):
        with pytest.raises(LoadRefused, match="only Spark"):
            runner.append()
