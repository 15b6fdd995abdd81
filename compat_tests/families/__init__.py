"""One driver a client family, all with the same verbs; see `family.py`."""

from __future__ import annotations

from compat_tests.families.aiokafka_client import Aiokafka
from compat_tests.families.confluent import Confluent
from compat_tests.families.console import Console
from compat_tests.families.family import AsksOffsets, Family
from compat_tests.families.java_client import JavaClient
from compat_tests.families.json_lines import FranzGo, Kafkajs, Sarama
from compat_tests.families.kafka_python import KafkaPython
from compat_tests.families.kcat import Kcat

__all__ = ["FAMILIES", "AsksOffsets", "Family"]

FAMILIES: tuple[type[Family], ...] = (
    Confluent,
    KafkaPython,
    Aiokafka,
    JavaClient,
    Console,
    Kcat,
    FranzGo,
    Sarama,
    Kafkajs,
)
