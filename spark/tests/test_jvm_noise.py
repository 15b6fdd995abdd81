"""The first lines of a JVM are left out of standard error; all other lines pass."""

import os
import threading

import pytest

from headgate.spark.jvm_noise import without_jvm_noise

NOISE = b"""WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/26 23:27:46 WARN Utils: Your hostname, vm, resolves to a loopback address: 127.0.0.1; using 10.0.0.2 instead
26/11/26 23:27:46 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
Setting default log level to "WARN".
To adjust logging level use sc.setLogLevel(newLevel). For SparkR, use setLogLevel(newLevel).
26/11/26 23:27:49 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...
"""
OTHER = b"26/11/26 23:27:49 WARN Utils: Service could not bind\njava.lang.OutOfMemoryError\nno end of line"


def test_the_noise_of_a_start_is_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with without_jvm_noise():
        child = os.dup(2)
        os.write(child, NOISE + OTHER)
    os.write(2, b"own: ")
    os.write(child, b", later")
    os.close(child)
    for thread in threading.enumerate():
        if thread.name == "jvm-errors":
            thread.join(60)
    assert capfd.readouterr().err.encode().replace(b"own: ", b"") == OTHER + b", later"


def test_a_failed_start_gives_standard_error_back(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="no JVM"), without_jvm_noise():
        raise ValueError("no JVM")
    os.write(2, NOISE[:10])
    assert capfd.readouterr().err.encode() == NOISE[:10]
