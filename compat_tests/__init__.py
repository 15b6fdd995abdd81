"""Stock clients and Spark against the installed command, over real sockets. Imports none of ours.

    make compat                                             # all of it, in four processes
    .venv/bin/pytest compat_tests -k "kcat and zstd"        # after `make install`; a family's name is in its tests' ids
    .venv/bin/pytest compat_tests -k "franz-go or sarama or kafkajs"
    HEADGATE_COMPAT_TARGET=kafka .venv/bin/pytest compat_tests    # the same tests on Apache Kafka: are they right?
    HEADGATE_KILLS=100 .venv/bin/pytest compat_tests/test_sigkill.py
    HEADGATE_COMMAND="python -m headgate" ...                # instead of the command installed beside the interpreter

    broker.py kafka_target.py apache_kafka.py   a broker process: ours, and Apache Kafka in its place
    families/                                   one driver a client family, all with the same verbs (family.py)
    matrix/                                     named clients of every age, a row each (client.py), and what they used
    java/ go/ node/                             sets of jars, and the programs that drive clients of other languages
    records.py stored.py wire.py                records compared; segment files and frames, read independently
    spark_format.py                             the Spark session of the tests, and its rows as records
    restarting.py noise.py load.py hostile.py   what goes on meanwhile: a restart, other writers, hostile bytes
    power_cut.py epochs.py pipelined.py         a log that lost records; leader epochs asked for; bursts of requests
    test_families.py test_long_poll.py test_spark.py test_spark_streaming.py test_sigkill.py test_retries.py
    test_hostile_bytes.py test_readme.py test_matrix.py test_matrix_oldest.py

A client that is not on this machine skips its tests by name, and fails them where CI=true.
"""
