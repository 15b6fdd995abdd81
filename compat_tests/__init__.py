"""Stock clients and Spark against the installed command, over real sockets. Imports none of ours.

    make compat                                             # all of it, in four processes
    .venv/bin/pytest compat_tests -k "kcat and zstd"        # after `make install`; a family's name is in its tests' ids
    .venv/bin/pytest compat_tests -k "franz-go or sarama or kafkajs"
    HEADGATE_COMPAT_TARGET=kafka .venv/bin/pytest compat_tests    # the same tests on Apache Kafka: are they right?
    HEADGATE_KILLS=100 .venv/bin/pytest compat_tests/storage/test_sigkill.py
    HEADGATE_COMMAND="python -m headgate" ...                # instead of the command installed beside the interpreter

    harness/                the broker as a process, Kafka in its place, ZooKeeper, frames, stored files, waits
    families/ groups/       one driver a client family, all with the same verbs (family.py); members of groups
    matrix/                 named clients of every age, a row each (client.py), and what they used
    transactions/           idempotent producers, transactions, Kafka Streams, across kills
    storage/                kills, power cuts, full disks, starts, data directories of Apache Kafka
    network/ hostile/       many connections, pipelines, half closes; hostile bytes and clients, lying batches
    tools/                  `headgate` on the command line, Kafka's own tools, the README
    zookeeper/              real ZooKeepers, consumers and tools of the 0.8 age, migration
    spark/                  Spark's kafka format and ours, loads, the exactly-once sink, pipelines
    java/ go/ node/         sets of jars, and the programs that drive clients of other languages
    spark_versions/         locks of other versions of Spark

A client that is not on this machine skips its tests by name, and fails them where CI=true.
"""
