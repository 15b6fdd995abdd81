"""Every broker setting that means something here: Kafka's names, types, defaults and ranges, in one table.

Defaults are those of Apache Kafka 4.1 but for four, each with its reason in its description: `listeners`, `log.dir`, `node.id` and
`queued.max.request.bytes`. Ranges are those of 2.8 where 4.1 is narrower (`log.segment.bytes`): what worked goes on working.
`PENDING` names what is read and checked, but governs something that is not there yet.
"""
# fmt: off

from headgate.gateway.config.definition import Type

BOOLEAN, STRING, INT, SHORT = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT
LONG, DOUBLE, LIST = Type.LONG, Type.DOUBLE, Type.LIST
_FOREVER = "9223372036854775807"
_UNLIMITED = "2147483647"

Row = tuple[str, Type, str | None, str, str]

NETWORK: tuple[Row, ...] = (
    ("listeners", STRING, "PLAINTEXT://127.0.0.1:9092", "",
     ("Where to listen: NAME://host:port, separated by commas. An empty host or 0.0.0.0 means every interface, port 0 a free port."
     " The default is the loopback interface, as nothing asks a client who it is.")),
    ("advertised.listeners", STRING, None, "",
     "What clients are told to connect to, by listener. Without it, the address that the client connected to."),
    ("listener.security.protocol.map", STRING,
     "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", "", "The security protocol of each listener name."),
    ("socket.send.buffer.bytes", INT, "102400", "-1 or 1..", "SO_SNDBUF of client sockets; -1 leaves it to the system."),
    ("socket.receive.buffer.bytes", INT, "-1", "-1 or 1..",
     ("SO_RCVBUF of client sockets; -1 leaves it to the system, which lets it grow with what a client sends."
     " Kafka's default of 102400 cuts large requests into small pieces: a third of their CPU, and of their speed far away.")),
    ("socket.request.max.bytes", INT, "104857600", "1..", "The largest request; a client that announces more is disconnected."),
    ("socket.listen.backlog.size", INT, "1024", "1..",
     ("Connections that may wait to be accepted; the system has a limit of its own (net.core.somaxconn)."
     " Kafka's default is 50: a cluster's clients that come back at once then find the queue full, and try again after a second or three.")),
    ("queued.max.request.bytes", LONG, "268435456", "-1 or 1..",
     ("Memory for requests that are received or being served, over all connections; -1 means no limit."
     " Limited by default, so that clients cannot exhaust the memory of the host.")),
    ("max.connections", INT, _UNLIMITED, "0..", "Connections that may be open at a time."),
    ("max.connections.per.ip", INT, _UNLIMITED, "0..", "Connections that may be open at a time from one address."),
    ("max.connections.per.ip.overrides", STRING, "", "", "Other limits for single addresses: host:limit, separated by commas."),
    ("max.connection.creation.rate", INT, _UNLIMITED, "0..", "Connections that may be opened in a second."),
    ("connections.max.idle.ms", LONG, "600000", "", "A connection that is idle for longer is closed; 0 or less: never."),
    ("headgate.metrics.listener", STRING, "", "",
     ("Where to serve metrics for Prometheus: host:port, or a port alone on the loopback interface. Empty: nowhere."
      " Who can connect can read them: nothing is asked.")),
    ("request.timeout.ms", INT, "30000", "0..", "How long this broker waits for another one's answer."),
)

IDENTITY: tuple[Row, ...] = (
    ("node.id", INT, None, "0..", "The id of this broker, unique in a cluster. Default: broker.id, or else 0."),
    ("broker.id", INT, "-1", "-1..", "The older name of node.id; -1 means that it is not set."),
    ("broker.rack", STRING, None, "", "Where this broker stands, for consumers that prefer a near one."),
    ("controlled.shutdown.enable", BOOLEAN, "true", "", "Whether leadership is handed over before a stop."),
    ("zookeeper.connect", STRING, None, "", "The ZooKeeper servers of the cluster."),
    ("zookeeper.session.timeout.ms", INT, "18000", "1..", "Without a heartbeat for so long, ZooKeeper forgets this broker."),
    ("zookeeper.connection.timeout.ms", INT, None, "1..", "How long to wait for ZooKeeper at start."),
)

TOPICS: tuple[Row, ...] = (
    ("num.partitions", INT, "1", "1..", "Partitions of a topic that is created without saying how many."),
    ("default.replication.factor", INT, "1", "1..",
     "Replicas of a topic that is created without saying how many. On a node that stands alone it is always one."),
    ("auto.create.topics.enable", BOOLEAN, "true", "", "Whether a topic is created when a client asks for its metadata."),
    ("delete.topic.enable", BOOLEAN, "true", "", "Whether topics may be deleted."),
    ("min.insync.replicas", INT, "1", "1..", "Replicas that must be in sync for a produce request with acks=all."),
    ("unclean.leader.election.enable", BOOLEAN, "false", "", "Whether a replica that is not in sync may lead, at the cost of records."),
    ("message.max.bytes", INT, "1048588", "0..", "The largest record batch, as compressed."),
    ("compression.type", STRING, "producer", "uncompressed|zstd|lz4|snappy|gzip|producer",
     "How batches are stored; 'producer' keeps them as they came."),
    ("compression.gzip.level", INT, "-1", "-1 or 1..9", "The gzip level where compression.type is gzip; -1 is the codec's own."),
    ("compression.lz4.level", INT, "9", "1..17", "The lz4 level where compression.type is lz4."),
    ("compression.zstd.level", INT, "3", "-131072..22", "The zstd level where compression.type is zstd."),
    ("fetch.max.bytes", INT, "57671680", "1024..", "The largest answer to a fetch; one first batch may exceed it."),
    ("max.incremental.fetch.session.cache.slots", INT, "1000", "0..", "Incremental fetch sessions (KIP-227) that are kept."),
    ("max.request.partition.size.limit", INT, "2000", "1..", "Partitions in one answer to DescribeTopicPartitions."),
    ("headgate.validate.records", STRING, "header", "header|full",
     "What is checked of a batch that is produced: its header and checksum, or every record in it as well."),
)

LOG: tuple[Row, ...] = (
    ("log.dir", STRING, "data", "",
     "The data directory, if log.dirs is not set. By default below the working directory: /tmp is emptied by many systems."),
    ("log.dirs", LIST, None, "", "The data directories, separated by commas; a new partition goes to the one with the fewest of those with room."),
    ("log.segment.bytes", INT, "1073741824", "14..", "A segment file is closed at this size."),
    ("log.roll.ms", LONG, None, "1..", "A segment file is closed at this age."),
    ("log.roll.hours", INT, "168", "1..", "The same in hours, where log.roll.ms is not set."),
    ("log.roll.jitter.ms", LONG, None, "0..", "A random time of at most this length is taken off the age, so that not all roll at once."),
    ("log.roll.jitter.hours", INT, "0", "0..", "The same in hours, where log.roll.jitter.ms is not set."),
    ("log.index.size.max.bytes", INT, "10485760", "4..", "The largest offset index; a full one closes the segment."),
    ("log.index.interval.bytes", INT, "4096", "0..", "Log bytes between two entries of the offset index."),
    ("log.preallocate", BOOLEAN, "false", "", "Whether a new segment file takes its full size at once."),
    ("log.flush.interval.messages", LONG, _FOREVER, "1..", "Records after which a log is synced to disk."),
    ("log.flush.interval.ms", LONG, None, "0..", "Time after which a log is synced; default: log.flush.scheduler.interval.ms."),
    ("log.flush.scheduler.interval.ms", LONG, _FOREVER, "0..", "How often logs are looked at for a sync."),
    ("headgate.flush", STRING, "cache", "cache|commit",
     ("When records are there: 'cache', once the system has them, as in Kafka; 'commit', once the disk has them: acks=all waits for that,"
      " and so do consumers. One sync serves all that wait.")),
    ("log.flush.offset.checkpoint.interval.ms", INT, "60000", "0..", "How often the recovery points are written."),
    ("log.flush.start.offset.checkpoint.interval.ms", INT, "60000", "0..", "How often the log start offsets are written."),
    ("log.message.timestamp.type", STRING, "CreateTime", "CreateTime|LogAppendTime", "Whose time a record bears: its producer's or ours."),
    ("log.message.timestamp.before.max.ms", LONG, _FOREVER, "0..", "A record's time may be this much behind ours."),
    ("log.message.timestamp.after.max.ms", LONG, "3600000", "0..", "A record's time may be this much ahead of ours."),
    ("log.message.timestamp.difference.max.ms", LONG, None, "0..", "Both of the above, where they are not set (Kafka to 3.9)."),
    ("num.recovery.threads.per.data.dir", INT, "2", "1..", "Threads that open the logs at start."),
)

CLEANUP: tuple[Row, ...] = (
    ("log.retention.ms", LONG, None, "-1 or 1..", "Segments whose records are older are deleted; -1: never."),
    ("log.retention.minutes", INT, None, "-1 or 1..", "The same in minutes, where log.retention.ms is not set."),
    ("log.retention.hours", INT, "168", "-1 or 1..", "The same in hours, where neither is set."),
    ("log.retention.bytes", LONG, "-1", "-1..", "The oldest segments of a partition that is larger are deleted; -1: never."),
    ("log.retention.check.interval.ms", LONG, "300000", "1..", "How often logs are looked at for segments to roll or to delete."),
    ("log.segment.delete.delay.ms", LONG, "60000", "0..", "A deleted file stays on disk for so long."),
    ("log.min.free.bytes", LONG, "67108864", "0..",
     ("With fewer bytes free on the disk of a data directory nothing is produced into it, until there are a quarter more; all else goes on."
     " Where it is not set, a tenth of a small disk. 0: never.")),
    ("log.cleanup.policy", LIST, "delete", "compact|delete|",
     "What happens to old records: delete, compact, or both; with neither they stay."),
    ("log.cleaner.enable", BOOLEAN, "true", "", "Whether logs are compacted."),
    ("log.cleaner.threads", INT, "1", "0..", "Threads that compact logs."),
    ("log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308", "0..", "Bytes that compaction may read and write a second."),
    ("log.cleaner.dedupe.buffer.size", LONG, "134217728", "1..", "Memory for the keys of a compaction."),
    ("log.cleaner.io.buffer.size", INT, "524288", "0..", "Memory for reading and writing in a compaction."),
    ("log.cleaner.io.buffer.load.factor", DOUBLE, "0.9", "0..1", "How full the memory for keys may be."),
    ("log.cleaner.backoff.ms", LONG, "15000", "0..", "How long to wait when nothing is to be compacted."),
    ("log.cleaner.min.cleanable.ratio", DOUBLE, "0.5", "0..1", "The share of uncompacted bytes from which a log is compacted."),
    ("log.cleaner.delete.retention.ms", LONG, "86400000", "0..", "How long a deletion marker stays in a compacted log."),
    ("log.cleaner.min.compaction.lag.ms", LONG, "0", "0..", "A record is not compacted before this age."),
    ("log.cleaner.max.compaction.lag.ms", LONG, _FOREVER, "1..", "A record is compacted at this age at the latest."),
)

REPLICATION: tuple[Row, ...] = (
    ("replica.lag.time.max.ms", LONG, "30000", "1..", "A follower that has not caught up for so long leaves the ISR."),
    ("replica.socket.timeout.ms", INT, "30000", "1..", "How long a follower waits for its leader."),
    ("replica.socket.receive.buffer.bytes", INT, "65536", "-1 or 1..", "SO_RCVBUF of a follower's sockets."),
    ("replica.fetch.max.bytes", INT, "1048576", "0..", "Bytes a partition that a follower asks for."),
    ("replica.fetch.wait.max.ms", INT, "500", "0..", "How long a follower's fetch may wait for records."),
    ("replica.fetch.backoff.ms", INT, "1000", "0..", "How long a follower waits after an error."),
    ("replica.fetch.min.bytes", INT, "1", "0..", "Bytes that a follower's fetch waits for."),
    ("replica.fetch.response.max.bytes", INT, "10485760", "0..", "The largest answer to a follower."),
    ("num.replica.fetchers", INT, "1", "1..", "Fetching tasks for each other broker."),
    ("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", "1..", "How often the high watermarks are written to disk."),
    ("auto.leader.rebalance.enable", BOOLEAN, "true", "", "Whether leadership goes back to the preferred replica by itself."),
    ("leader.imbalance.check.interval.seconds", LONG, "300", "1..", "How often that is looked at."),
    ("leader.imbalance.per.broker.percentage", INT, "10", "0..", "The imbalance from which it is done."),
)

GROUPS: tuple[Row, ...] = (
    ("group.initial.rebalance.delay.ms", INT, "3000", "0..", "How long a new group waits for more members."),
    ("group.min.session.timeout.ms", INT, "6000", "0..", "The shortest session timeout that a member may ask for."),
    ("group.max.session.timeout.ms", INT, "1800000", "0..", "The longest session timeout that a member may ask for."),
    ("group.max.size", INT, _UNLIMITED, "1..", "Members in a group."),
    ("group.coordinator.rebalance.protocols", LIST, "classic,consumer,streams", "consumer|classic|share|streams", "Kinds of groups."),
    ("group.consumer.session.timeout.ms", INT, "45000", "1..", "Session timeout of members under KIP-848."),
    ("group.consumer.min.session.timeout.ms", INT, "45000", "1..", "Its lower bound for a group's own setting."),
    ("group.consumer.max.session.timeout.ms", INT, "60000", "1..", "Its upper bound for a group's own setting."),
    ("group.consumer.heartbeat.interval.ms", INT, "5000", "1..", "Heartbeat interval of members under KIP-848."),
    ("group.consumer.min.heartbeat.interval.ms", INT, "5000", "1..", "Its lower bound for a group's own setting."),
    ("group.consumer.max.heartbeat.interval.ms", INT, "15000", "1..", "Its upper bound for a group's own setting."),
    ("group.consumer.max.size", INT, _UNLIMITED, "1..", "Members in a group under KIP-848."),
    ("group.consumer.assignors", LIST, "uniform,range", "", "Assignors of the broker, the first being the default."),
    ("group.consumer.migration.policy", STRING, "bidirectional",
     "bidirectional|upgrade|downgrade|disabled|BIDIRECTIONAL|UPGRADE|DOWNGRADE|DISABLED", "Which way groups may change between classic and KIP-848."),
    ("offset.metadata.max.bytes", INT, "4096", "0..", "The longest text that may go with a committed offset."),
    ("offsets.commit.timeout.ms", INT, "5000", "1..", "How long a commit waits for its replicas."),
    ("offsets.load.buffer.size", INT, "5242880", "1..", "Bytes read at a time when committed offsets are loaded."),
    ("offsets.retention.minutes", INT, "10080", "1..", "Offsets of an empty group are kept for so long."),
    ("offsets.retention.check.interval.ms", LONG, "600000", "1..", "How often expired offsets are looked for."),
    ("offsets.topic.replication.factor", SHORT, "3", "1..",
     "Replicas of __consumer_offsets, which is made when a client first asks for a coordinator. On a node that stands alone it is always one."),
    ("offsets.topic.num.partitions", INT, "50", "1..", "Partitions of __consumer_offsets."),
    ("offsets.topic.segment.bytes", INT, "104857600", "1..", "Segment size of __consumer_offsets."),
    ("offsets.topic.compression.codec", INT, "0", "0..4", "Codec of __consumer_offsets, by its number."),
)

TRANSACTIONS: tuple[Row, ...] = (
    ("producer.id.expiration.ms", INT, "86400000", "1..", "A partition forgets a producer that has not written for so long."),
    ("producer.id.expiration.check.interval.ms", INT, "600000", "1..", "How often that is looked at."),
    ("transactional.id.expiration.ms", INT, "604800000", "1..", "A transactional id is forgotten after this time without use."),
    ("transaction.max.timeout.ms", INT, "900000", "1..", "The longest transaction timeout that a producer may ask for."),
    ("transaction.state.log.replication.factor", SHORT, "3", "1..", "Replicas of __transaction_state."),
    ("transaction.state.log.num.partitions", INT, "50", "1..", "Partitions of __transaction_state."),
    ("transaction.state.log.min.isr", INT, "2", "1..", "min.insync.replicas of __transaction_state."),
    ("transaction.state.log.segment.bytes", INT, "104857600", "1..", "Segment size of __transaction_state."),
    ("transaction.state.log.load.buffer.size", INT, "5242880", "1..", "Bytes read at a time when transactions are loaded."),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", "1..", "How often overdue transactions are aborted."),
    ("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", "1..", "How often expired ids are removed."),
    ("transaction.partition.verification.enable", BOOLEAN, "true", "", "Whether a partition asks if a transaction has it (KIP-890)."),
    ("transaction.two.phase.commit.enable", BOOLEAN, "false", "", "Whether a client may keep a transaction prepared (KIP-939)."),
)

ROWS: tuple[Row, ...] = NETWORK + IDENTITY + TOPICS + LOG + CLEANUP + REPLICATION + GROUPS + TRANSACTIONS

_ALONE = "this node stands alone: clusters are not there yet"
_NO_TRANSACTIONS = "transactions are not served yet"

# A name, or the beginning of names where it ends in a dot -> what is missing. The longest that fits counts.
PENDING: dict[str, str] = {
    "transaction.": _NO_TRANSACTIONS,
    "transactional.": _NO_TRANSACTIONS,
    "replica.": _ALONE,
    "replica.high.watermark.checkpoint.interval.ms": "",
    "num.replica.fetchers": _ALONE,
    "auto.leader.rebalance.enable": _ALONE,
    "leader.imbalance.": _ALONE,
    "zookeeper.": _ALONE,
    "request.timeout.ms": _ALONE,
    "unclean.leader.election.enable": _ALONE,
    "controlled.shutdown.enable": _ALONE,
    "log.flush.offset.checkpoint.interval.ms": "recovery points are written when high watermarks are",
    "log.flush.start.offset.checkpoint.interval.ms": "log start offsets are written when high watermarks are",
    "log.preallocate": "files grow as they are written",
    "max.connections.per.ip.overrides": "max.connections.per.ip is the same for all addresses",
    "max.connection.creation.rate": "the rate of new connections is not limited yet",
}

# Pairs of settings of which the first may not exceed the second.
ORDERED: tuple[tuple[str, str], ...] = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
)

# What Kafka can change while it runs: for one broker alone, or for all. The former need another start here.
PER_BROKER = frozenset(("listeners", "listener.security.protocol.map"))
CLUSTER_WIDE = frozenset(
    """
    message.max.bytes compression.type compression.gzip.level compression.lz4.level compression.zstd.level max.connections.per.ip
    max.connections.per.ip.overrides max.connections max.connection.creation.rate num.replica.fetchers unclean.leader.election.enable
    log.cleaner.threads log.cleaner.io.max.bytes.per.second log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.size
    log.cleaner.io.buffer.load.factor log.cleaner.backoff.ms log.cleaner.min.cleanable.ratio log.cleaner.delete.retention.ms
    log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms log.segment.bytes log.roll.ms log.roll.jitter.ms log.retention.ms
    log.retention.bytes log.cleanup.policy log.index.size.max.bytes log.index.interval.bytes log.flush.interval.messages
    log.segment.delete.delay.ms log.min.free.bytes log.flush.interval.ms log.preallocate num.recovery.threads.per.data.dir min.insync.replicas
    log.message.timestamp.type log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms
    transaction.partition.verification.enable producer.id.expiration.ms headgate.flush
    """.split()  # noqa: SIM905 - a name a string would be a page
)
