"""The table of exposed metrics: internal name, Prometheus name, type and meaning.

Names follow the conventions of Prometheus: a prefix, the unit as the last word, `_total` behind a counter's name.
"""
# fmt: off

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

COUNTER, GAUGE, HISTOGRAM = "counter", "gauge", "histogram"


class Row(NamedTuple):
    """One metric. `labels`: the exposed names of those labels that have another name here."""

    name: str
    exposed: str
    type: str
    help: str
    labels: Mapping[str, str] = MappingProxyType({})


METRICS = (
    Row("requests", "headgate_requests_total", COUNTER, "Requests by API and version."),
    Row("request.errors", "headgate_request_errors_total", COUNTER, "Requests refused as a whole, by API and error."),
    Row("request.seconds", "headgate_request_seconds", HISTOGRAM,
        "Time from a request to its response, waits included, for one in 64 requests of an API (and for the first ones)."),
    Row("row.errors", "headgate_row_errors_total", COUNTER,
        "Topics, partitions, groups and other parts of requests that were refused while the rest was processed, by error."),
    Row("authorizer.observed", "headgate_authorizer_observed_refusals_total", COUNTER,
        "Operations that headgate.authorizer.mode=observe allowed and the ACLs would refuse, by operation and resource type."),
    Row("audit.lines", "headgate_audit_lines_total", COUNTER, "Lines written to headgate.audit.log."),
    Row("audit.lines.lost", "headgate_audit_lines_lost_total", COUNTER, "Lines that headgate.audit.log lost, as its disk refused them or was too slow."),
    Row("bytes.in", "headgate_in_bytes_total", COUNTER, "Bytes of record batches that producers and this broker appended, all topics."),
    Row("records.in", "headgate_in_records_total", COUNTER, "Records of these batches."),
    Row("batches.in", "headgate_in_batches_total", COUNTER, "These batches."),
    Row("bytes.out", "headgate_out_bytes_total", COUNTER, "Bytes of records that consumers were answered with, all topics."),
    Row("reads.out", "headgate_out_reads_total", COUNTER, "Partitions with records in answers to consumers."),
    Row("replicated.bytes.in", "headgate_replicated_in_bytes_total", COUNTER, "Bytes that this broker copied from leaders."),
    Row("replicated.bytes.out", "headgate_replicated_out_bytes_total", COUNTER, "Bytes that followers copied from this broker."),
    Row("failed.produces", "headgate_failed_produces_total", COUNTER, "Refused partitions of Produce."),
    Row("failed.fetches", "headgate_failed_fetches_total", COUNTER, "Refused partitions of Fetch."),
    Row("topic.bytes.in", "headgate_topic_in_bytes_total", COUNTER, "Bytes of appended batches, by topic."),
    Row("topic.records.in", "headgate_topic_in_records_total", COUNTER, "Appended records, by topic."),
    Row("topic.bytes.out", "headgate_topic_out_bytes_total", COUNTER, "Bytes of records for consumers, by topic."),
    Row("topic.failed.produces", "headgate_topic_failed_produces_total", COUNTER, "Refused partitions of Produce, by topic."),
    Row("topic.failed.fetches", "headgate_topic_failed_fetches_total", COUNTER, "Refused partitions of Fetch, by topic."),
    Row("topic.partitions", "headgate_topic_partitions", GAUGE, "Partitions of a topic, at the leader of its partition 0."),
    Row("partition.bytes.in", "headgate_partition_in_bytes_total", COUNTER, "Bytes of appended batches, by partition."),
    Row("partition.records.in", "headgate_partition_in_records_total", COUNTER, "Appended records, by partition."),
    Row("partition.bytes.out", "headgate_partition_out_bytes_total", COUNTER, "Bytes of records for consumers, by partition."),
    Row("partition.size.bytes", "headgate_partition_size_bytes", GAUGE, "Size of the segments of a partition led here."),
    Row("partition.start.offset", "headgate_partition_start_offset", GAUGE, "First offset of a partition led here."),
    Row("partition.end.offset", "headgate_partition_end_offset", GAUGE, "High watermark of a partition led here: consumers read up to it."),
    Row("partition.unstable.records", "headgate_partition_unstable_records", GAUGE,
        "Records behind the last stable offset: read_committed consumers wait for the end of a transaction."),
    Row("loop.cpu.seconds", "headgate_loop_cpu_seconds_total", COUNTER, "CPU time of the event loop's thread."),
    Row("loop.idle.percent", "headgate_loop_idle_percent", GAUGE, "Share of time in which the event loop did not compute, since the reading before."),
    Row("worker.threads", "headgate_worker_threads", GAUGE, "Worker threads."),
    Row("worker.running", "headgate_worker_running", GAUGE, "Works in these threads, waiting ones included."),
    Row("memory.request.bytes", "headgate_memory_request_bytes", GAUGE, "Bytes of queued.max.request.bytes in use by requests that are received."),
    Row("memory.parsed.bytes", "headgate_memory_parsed_bytes", GAUGE, "Bytes of queued.max.request.bytes in use by parsed large requests."),
    Row("conversions.waiting.bytes", "headgate_conversions_waiting_bytes", GAUGE, "Bytes that wait for a conversion between formats."),
    Row("listener.connections", "headgate_listener_connections", GAUGE, "Open connections, by listener."),
    Row("disk.read.bytes", "headgate_disk_read_bytes_total", COUNTER, "Bytes that this process had the disks read (Linux)."),
    Row("disk.written.bytes", "headgate_disk_written_bytes_total", COUNTER, "Bytes that this process had the disks write (Linux)."),
    Row("controller.active", "headgate_controller_active", GAUGE, "Whether this broker is the cluster's controller: 1, or 0."),
    Row("cluster.brokers", "headgate_cluster_brokers", GAUGE, "Live brokers of the cluster, at its controller; 0 at others."),
    Row("cluster.topics", "headgate_cluster_topics", GAUGE, "Topics of the cluster, at its controller; 0 at others."),
    Row("cluster.partitions", "headgate_cluster_partitions", GAUGE, "Partitions of the cluster, at its controller; 0 at others."),
    Row("requests.parked", "headgate_requests_parked", GAUGE, "Requests that wait: for records, for a disk, for members of a group."),
    Row("quota.throttled", "headgate_quota_throttled_total", COUNTER, "Throttled requests and refused connections, by quota."),
    Row("quota.throttle.seconds", "headgate_quota_throttle_seconds_total", COUNTER, "The sum of throttle times, by quota."),
    Row("quota.clients", "headgate_quota_clients", GAUGE, "Clients, users and addresses whose usage counts against a quota now."),
    Row("transactions.aborted", "headgate_transactions_aborted_total", COUNTER,
        "Transactions that the coordinator has aborted, by reason: overdue, or replaced by another producer with the id."),
    Row("transactions.ending", "headgate_transactions_ending", GAUGE, "Decided transactions that do not have all their markers yet."),
    Row("connections", "headgate_connections", GAUGE, "Open connections."),
    Row("tls.certificate.expiry.days", "headgate_tls_certificate_expiry_days", GAUGE,
        "Days until the first certificate of a listener's key store expires, by listener; negative afterwards."),
    Row("partitions", "headgate_partitions", GAUGE, "Partitions with a log here."),
    Row("partitions.led", "headgate_partitions_led", GAUGE, "Partitions that this broker leads (Kafka: LeaderCount)."),
    Row("partitions.under.replicated", "headgate_partitions_under_replicated", GAUGE,
        "Partitions led here with replicas that are not in sync (Kafka: UnderReplicatedPartitions)."),
    Row("partitions.reassigning", "headgate_partitions_reassigning", GAUGE,
        "Partitions led here that are moved to other brokers (Kafka: ReassigningPartitions)."),
    Row("partitions.under.min.isr", "headgate_partitions_under_min_isr", GAUGE,
        "Partitions led here with fewer in-sync replicas than min.insync.replicas: they refuse acks=all (Kafka: UnderMinIsrPartitionCount)."),
    Row("partitions.at.min.isr", "headgate_partitions_at_min_isr", GAUGE,
        "Partitions led here with as many in-sync replicas as min.insync.replicas (Kafka: AtMinIsrPartitionCount)."),
    Row("partitions.offline", "headgate_partitions_offline", GAUGE,
        "Partitions of the cluster without a leader, at its controller; 0 at other brokers (Kafka: OfflinePartitionsCount)."),
    Row("replicas.offline", "headgate_replicas_offline", GAUGE,
        "Replicas here that other brokers have to replace, as a disk or a log has failed (Kafka: OfflineReplicaCount)."),
    Row("replica.max.lag", "headgate_replica_max_lag", GAUGE,
        "The most committed records of a leader that a replica here lacks (Kafka: MaxLag of ReplicaFetcherManager)."),
    Row("follower.max.lag", "headgate_follower_max_lag", GAUGE,
        "The most records of a partition led here that each follower lacks, by the follower's last fetch."),
    Row("leader.elections", "headgate_leader_elections_total", COUNTER,
        "How often this broker began to lead a partition in a leader epoch; summed over all brokers Kafka's LeaderElectionRateAndTimeMs."),
    Row("isr.shrinks", "headgate_isr_shrinks_total", COUNTER, "In-sync sets of partitions led here that lost a replica (Kafka: IsrShrinksPerSec)."),
    Row("isr.expands", "headgate_isr_expands_total", COUNTER, "In-sync sets of partitions led here that got a replica (Kafka: IsrExpandsPerSec)."),
    Row("isr.refusals", "headgate_isr_refusals_total", COUNTER,
        "Changes of in-sync sets that were refused, as a newer state was stored (Kafka: FailedIsrUpdatesPerSec)."),
    Row("compaction.runs", "headgate_compaction_runs_total", COUNTER, "Successful compactions."),
    Row("compaction.failures", "headgate_compaction_failures_total", COUNTER, "Failed compactions, and failed searches for logs to compact."),
    Row("compaction.read.bytes", "headgate_compaction_read_bytes_total", COUNTER, "Bytes that compaction has read."),
    Row("compaction.written.bytes", "headgate_compaction_written_bytes_total", COUNTER, "Bytes that compaction has written."),
    Row("compaction.records.kept", "headgate_compaction_records_kept_total", COUNTER, "Records that compaction has kept."),
    Row("compaction.records.dropped", "headgate_compaction_records_dropped_total", COUNTER, "Records that compaction has removed."),
    Row("compaction.dirty.percent", "headgate_compaction_dirty_percent", GAUGE, "The highest dirty ratio of a log, at the last check of all logs."),
    Row("compaction.delay.seconds", "headgate_compaction_delay_seconds", GAUGE,
        "How long the most overdue log has waited beyond max.compaction.lag.ms, at the last check."),
    Row("compaction.last.look.seconds", "headgate_compaction_last_look_seconds", GAUGE, "Time since the last check of all logs."),
    Row("compaction.last.run.seconds", "headgate_compaction_last_run_seconds", GAUGE, "How long the last compaction took."),
    Row("compaction.buffer.percent", "headgate_compaction_buffer_percent", GAUGE, "The part of the dedupe buffer that the last compaction used."),
    Row("compaction.uncleanable.partitions", "headgate_compaction_uncleanable_partitions", GAUGE, "Damaged logs that compaction leaves alone."),
    Row("compaction.uncleanable.bytes", "headgate_compaction_uncleanable_bytes", GAUGE, "The size of these logs."),
    Row("disk.free.bytes", "headgate_disk_free_bytes", GAUGE, "Free space of the fullest log directory."),
    Row("disk.full.directories", "headgate_disk_full_directories", GAUGE, "Log directories with less than log.min.free.bytes."),
    Row("disk.offline.directories", "headgate_disk_offline_directories", GAUGE, "Log directories whose disk fails all writes."),
    Row("disk.hung.directories", "headgate_disk_hung_directories", GAUGE, "Log directories whose disk does not respond."),
    Row("disk.unsynced.logs", "headgate_disk_unsynced_logs", GAUGE, "Logs that accept no records until a failed sync is repaired."),
    Row("retention.holding.partitions", "headgate_retention_holding_partitions", GAUGE,
        "Partitions whose expired segments stay because a group of headgate.retention.hold.groups has not read them."),
    Row("disk.deleted.files", "headgate_disk_deleted_files", GAUGE, "Files and directories that are deleted, but still on the disk."),
    Row("opening.partitions", "headgate_opening_partitions", GAUGE, "Partitions that the start of the broker opens."),
    Row("opening.partitions.left", "headgate_opening_partitions_left", GAUGE, "Partitions that are not open yet."),
    Row("opening.bytes", "headgate_opening_bytes", GAUGE, "Bytes that the start scans, because the last stop was not clean."),
    Row("opening.bytes.left", "headgate_opening_left_bytes", GAUGE, "Bytes that are not scanned yet."),
    Row("opening.seconds.left", "headgate_opening_left_seconds", GAUGE, "The expected time until all partitions are open."),
)
