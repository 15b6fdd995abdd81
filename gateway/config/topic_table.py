"""The table of topic settings: Kafka's name, range, broker settings as fallbacks in order, and meaning.

Type and default come from the broker setting with the same unit (`BROKER_SYNONYMS` first), so that they cannot
differ.
"""
# fmt: off

# name -> (allowed, fallback broker settings, meaning)
ROWS: tuple[tuple[str, str, tuple[str, ...], str], ...] = (
    ("segment.bytes", "14..", ("log.segment.bytes",), "A segment file is closed at this size."),
    ("segment.ms", "1..", ("log.roll.ms", "log.roll.hours"), "A segment file is closed at this age."),
    ("segment.jitter.ms", "0..", ("log.roll.jitter.ms", "log.roll.jitter.hours"), "A random time up to this length is subtracted from segment.ms."),
    ("segment.index.bytes", "4..", ("log.index.size.max.bytes",), "The largest offset index; a full one closes the segment."),
    ("index.interval.bytes", "0..", ("log.index.interval.bytes",), "Log bytes between two entries of the offset index."),
    ("preallocate", "", ("log.preallocate",), "Whether a new segment file takes its full size at once."),
    ("flush.messages", "1..", ("log.flush.interval.messages",), "Records after which the log is synced to disk."),
    ("flush.ms", "0..", ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"), "Time after which the log is synced to disk."),
    ("headgate.flush", "cache|commit", ("headgate.flush",),
     "When records count as written: 'cache', in the system's page cache, as in Kafka; 'commit', on the disk."),
    ("headgate.fetch.isolation.default", "read_uncommitted|read_committed", ("headgate.fetch.isolation.default",),
     "What clients read that cannot ask for an isolation level: everything, or what is committed."),
    ("max.message.bytes", "0..", ("message.max.bytes",), "The largest record batch, after compression."),
    ("message.timestamp.type", "CreateTime|LogAppendTime", ("log.message.timestamp.type",), "Whether a record has its producer's time or the broker's."),
    ("message.timestamp.before.max.ms", "0..", ("log.message.timestamp.before.max.ms", "log.message.timestamp.difference.max.ms"),
     "A record's time may be this much behind the broker's."),
    ("message.timestamp.after.max.ms", "0..", ("log.message.timestamp.after.max.ms", "log.message.timestamp.difference.max.ms"),
     "A record's time may be this much ahead of the broker's."),
    ("cleanup.policy", "compact|delete|", ("log.cleanup.policy",),
     "What happens to old records: delete, compact, or both; with neither they stay."),
    ("retention.ms", "-1..", ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
     "Segments with only older records are deleted; -1: never."),
    ("retention.bytes", "-1..", ("log.retention.bytes",), "The oldest segments of a larger partition are deleted; -1: never."),
    ("headgate.retention.hold.groups", "", ("headgate.retention.hold.groups",),
     "Groups, separated by commas: what one of them has not read stays, though retention.ms or retention.bytes would delete it."),
    ("headgate.retention.hold.bytes", "-1..", ("headgate.retention.hold.bytes",),
     "The size of a partition up to which it may hold unread records; -1: as far as log.min.free.bytes allows."),
    ("headgate.retention.hold.ms", "-1..", ("headgate.retention.hold.ms",), "The age of records up to which they may be held unread; -1: any age."),
    ("delete.retention.ms", "0..", ("log.cleaner.delete.retention.ms",), "How long a deletion marker stays in a compacted log."),
    ("min.compaction.lag.ms", "0..", ("log.cleaner.min.compaction.lag.ms",), "A record is not compacted before this age."),
    ("max.compaction.lag.ms", "1..", ("log.cleaner.max.compaction.lag.ms",), "A record is compacted at this age at the latest."),
    ("min.cleanable.dirty.ratio", "0..1", ("log.cleaner.min.cleanable.ratio",), "The share of uncompacted bytes at which the log is compacted."),
    ("file.delete.delay.ms", "0..", ("log.segment.delete.delay.ms",), "How long a deleted file stays on disk."),
    ("compression.type", "uncompressed|zstd|lz4|snappy|gzip|producer", ("compression.type",),
     "How batches are stored; 'producer' keeps the producer's compression."),
    ("compression.gzip.level", "-1 or 1..9", ("compression.gzip.level",), "The gzip level if compression.type is gzip."),
    ("compression.lz4.level", "1..17", ("compression.lz4.level",), "The lz4 level if compression.type is lz4."),
    ("compression.zstd.level", "-131072..22", ("compression.zstd.level",), "The zstd level if compression.type is zstd."),
    ("min.insync.replicas", "1..", ("min.insync.replicas",), "Replicas that must be in sync for a produce request with acks=all."),
    ("unclean.leader.election.enable", "", ("unclean.leader.election.enable",), "Whether a replica that is not in sync may lead."),
)

# Accepted, because clients and tools set them; no effect here. As in `unsupported_table`: `name:type:range=default`, after `-` what
# Kafka 4.1 does not show. -> (the reason for no effect, the broker setting whose value Kafka takes)
WITHOUT_EFFECT: dict[str, tuple[str, str]] = {
    "-message.format.version": ("every record is stored in version 2", ""),
    "-message.downconversion.enable:boolean=true": ("records are always sent in the version that a client asks for", "log.message.downconversion.enable"),
    "leader.replication.throttled.replicas:list=": ("replication is not throttled", ""),
    "follower.replication.throttled.replicas:list=": ("replication is not throttled", ""),
    "local.retention.ms:long:-2..=-2": ("there is no tiered storage", "log.local.retention.ms"),
    "local.retention.bytes:long:-2..=-2": ("there is no tiered storage", "log.local.retention.bytes"),
    "remote.storage.enable:boolean=false": ("there is no tiered storage", ""),
    "remote.log.copy.disable:boolean=false": ("there is no tiered storage", ""),
    "remote.log.delete.on.disable:boolean=false": ("there is no tiered storage", ""),
    "-remote.copy.lag.ms": ("there is no tiered storage", ""),
    "-remote.copy.lag.bytes": ("there is no tiered storage", ""),
    "-max.decompressed.message.bytes": ("batches are not decompressed", ""),
    "-errors.deadletterqueue.group.enable": ("share groups are not served", ""),
    "-internal.segment.bytes": ("segment.bytes may be that small", ""),
}

# Both bounds of Kafka to 3.9 in one setting; a topic's newer settings for the single bounds win over it.
TIMESTAMP_DIFFERENCE = "message.timestamp.difference.max.ms"

# name -> (harmless values, the sentence that refuses other values)
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "remote.storage.enable": (
        ("false",), "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."),
}

# Lists of replicas have a form of their own: partition:broker, or * for all.
REPLICA_LISTS = frozenset(("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"))
