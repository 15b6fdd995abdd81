"""The metrics under the names that dashboards for Apache Kafka ask for.

Three origins: kafka_exporter (danielqsj), Kafka Lag Exporter (seglo), and the JMX exporter with the rules of Strimzi's
examples, by which `kafka.server:type=ReplicaManager,name=LeaderCount` becomes `kafka_server_replicamanager_leadercount`.
Their counters are counters here; a rate is the reader's. `UNANSWERED` has the names of their dashboards that no metric
of ours answers, with the reason.
"""
# fmt: off

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.gateway.metrics.metrics_table import COUNTER, GAUGE, Row

_REQUEST: Final = {"api": "request"}
_GROUP: Final = {"group": "consumergroup"}

KAFKA_NAMES: Final = (
    # Partitions by kafka_exporter
    Row("cluster.brokers", "kafka_brokers", GAUGE, "Live brokers of the cluster, at its controller."),
    Row("broker.address", "kafka_broker_info", GAUGE, "The brokers with an address of each, at the controller."),
    Row("topic.partitions", "kafka_topic_partitions", GAUGE, "Partitions of a topic, at the leader of its partition 0."),
    Row("partition.end.offset", "kafka_topic_partition_current_offset", GAUGE, "The end for consumers: the high watermark."),
    Row("partition.start.offset", "kafka_topic_partition_oldest_offset", GAUGE, "The first offset."),
    Row("partition.leader", "kafka_topic_partition_leader", GAUGE, "The node id of the leader."),
    Row("partition.leader.is.preferred", "kafka_topic_partition_leader_is_preferred", GAUGE, "1 if the first replica leads."),
    Row("partition.replicas", "kafka_topic_partition_replicas", GAUGE, "Replicas."),
    Row("partition.in.sync.replicas", "kafka_topic_partition_in_sync_replica", GAUGE, "In-sync replicas."),
    Row("partition.under.replicated", "kafka_topic_partition_under_replicated_partition", GAUGE, "1 if a replica is not in sync."),
    # Groups by kafka_exporter, at the coordinator
    Row("group.partition.offset", "kafka_consumergroup_current_offset", GAUGE, "Committed offset.", _GROUP),
    Row("group.partition.lag.records", "kafka_consumergroup_lag", GAUGE, "Records behind it.", _GROUP),
    Row("group.topic.offset.sum", "kafka_consumergroup_current_offset_sum", GAUGE, "Sum over the partitions of a topic.", _GROUP),
    Row("group.topic.lag.records", "kafka_consumergroup_lag_sum", GAUGE, "Sum over the partitions of a topic.", _GROUP),
    Row("group.members", "kafka_consumergroup_members", GAUGE, "Members.", _GROUP),
    # Groups and partitions by Kafka Lag Exporter
    Row("group.partition.offset", "kafka_consumergroup_group_offset", GAUGE, "Committed offset."),
    Row("group.partition.lag.records", "kafka_consumergroup_group_lag", GAUGE, "Records behind it."),
    Row("group.partition.lag.seconds", "kafka_consumergroup_group_lag_seconds", GAUGE, "Age of the oldest unread record: measured, not interpolated."),
    Row("group.topic.lag.records", "kafka_consumergroup_group_topic_sum_lag", GAUGE, "Sum over the partitions of a topic."),
    Row("group.lag.sum.records", "kafka_consumergroup_group_sum_lag", GAUGE, "Sum over all partitions."),
    Row("group.lag.max.records", "kafka_consumergroup_group_max_lag", GAUGE, "The most of one partition."),
    Row("group.lag.max.seconds", "kafka_consumergroup_group_max_lag_seconds", GAUGE, "The most of one partition."),
    Row("partition.end.offset", "kafka_partition_latest_offset", GAUGE, "The end for consumers: the high watermark."),
    Row("partition.start.offset", "kafka_partition_earliest_offset", GAUGE, "The first offset."),
    # Traffic by the JMX exporter; the sample without a topic is the sum
    Row("bytes.in", "kafka_server_brokertopicmetrics_bytesin_total", COUNTER, "Bytes of appended batches."),
    Row("topic.bytes.in", "kafka_server_brokertopicmetrics_bytesin_total", COUNTER, "Bytes of appended batches."),
    Row("bytes.out", "kafka_server_brokertopicmetrics_bytesout_total", COUNTER, "Bytes of records for consumers."),
    Row("topic.bytes.out", "kafka_server_brokertopicmetrics_bytesout_total", COUNTER, "Bytes of records for consumers."),
    Row("records.in", "kafka_server_brokertopicmetrics_messagesin_total", COUNTER, "Appended records."),
    Row("topic.records.in", "kafka_server_brokertopicmetrics_messagesin_total", COUNTER, "Appended records."),
    Row("batches.in", "kafka_server_brokertopicmetrics_totalproducerequests_total", COUNTER, "Appended batches."),
    Row("topic.batches.in", "kafka_server_brokertopicmetrics_totalproducerequests_total", COUNTER, "Appended batches."),
    Row("reads.out", "kafka_server_brokertopicmetrics_totalfetchrequests_total", COUNTER, "Answers with records."),
    Row("topic.reads.out", "kafka_server_brokertopicmetrics_totalfetchrequests_total", COUNTER, "Answers with records."),
    Row("failed.produces", "kafka_server_brokertopicmetrics_failedproducerequests_total", COUNTER, "Refused partitions of Produce."),
    Row("topic.failed.produces", "kafka_server_brokertopicmetrics_failedproducerequests_total", COUNTER, "Refused partitions of Produce."),
    Row("failed.fetches", "kafka_server_brokertopicmetrics_failedfetchrequests_total", COUNTER, "Refused partitions of Fetch."),
    Row("topic.failed.fetches", "kafka_server_brokertopicmetrics_failedfetchrequests_total", COUNTER, "Refused partitions of Fetch."),
    Row("replicated.bytes.in", "kafka_server_brokertopicmetrics_replicationbytesin_total", COUNTER, "Bytes copied from leaders."),
    Row("replicated.bytes.out", "kafka_server_brokertopicmetrics_replicationbytesout_total", COUNTER, "Bytes copied by followers."),
    # Requests by the JMX exporter
    Row("requests", "kafka_network_requestmetrics_requests_total", COUNTER, "Requests by API and version.", _REQUEST),
    Row("request.errors", "kafka_network_requestmetrics_errors_total", COUNTER, "Requests refused as a whole.", _REQUEST),
    Row("listener.connections", "kafka_server_socket_server_metrics_connection_count", GAUGE, "Open connections."),
    Row("loop.idle.percent", "kafka_network_socketserver_networkprocessoravgidle_percent", GAUGE,
        "The idle share of the event loop, 0 to 1, since the reading before."),
    Row("loop.idle.percent", "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent", GAUGE,
        "The same: one loop reads and handles requests."),
    Row("disk.read.bytes", "kafka_server_kafkaserver_linux_disk_read_bytes", GAUGE, "Bytes that the disks read for this process."),
    Row("disk.written.bytes", "kafka_server_kafkaserver_linux_disk_write_bytes", GAUGE, "Bytes that the disks wrote for this process."),
    # Replicas and the controller by the JMX exporter
    Row("partitions", "kafka_server_replicamanager_partitioncount", GAUGE, "Partitions with a log here."),
    Row("partitions.led", "kafka_server_replicamanager_leadercount", GAUGE, "Partitions led here."),
    Row("partitions.under.replicated", "kafka_server_replicamanager_underreplicatedpartitions", GAUGE, "Partitions led here with replicas not in sync."),
    Row("partitions.under.min.isr", "kafka_server_replicamanager_underminisrpartitioncount", GAUGE, "Partitions led here below min.insync.replicas."),
    Row("partitions.at.min.isr", "kafka_server_replicamanager_atminisrpartitioncount", GAUGE, "Partitions led here at min.insync.replicas."),
    Row("partitions.reassigning", "kafka_server_replicamanager_reassigningpartitions", GAUGE, "Partitions led here that move."),
    Row("replicas.offline", "kafka_server_replicamanager_offlinereplicacount", GAUGE, "Replicas here that have failed."),
    Row("replica.max.lag", "kafka_server_replicafetchermanager_maxlag", GAUGE, "The most records that a replica here lacks."),
    Row("isr.shrinks", "kafka_server_replicamanager_isrshrinks_total", COUNTER, "In-sync sets that lost a replica."),
    Row("isr.expands", "kafka_server_replicamanager_isrexpands_total", COUNTER, "In-sync sets that got a replica."),
    Row("isr.refusals", "kafka_server_replicamanager_failedisrupdates_total", COUNTER, "Refused changes of in-sync sets."),
    Row("controller.active", "kafka_controller_kafkacontroller_activecontrollercount", GAUGE, "1 at the controller."),
    Row("partitions.offline", "kafka_controller_kafkacontroller_offlinepartitionscount", GAUGE, "Partitions without a leader, at the controller."),
    Row("unclean.elections", "kafka_controller_controllerstats_uncleanleaderelections_total", COUNTER, "Elections of leaders that were not in sync, at the controller."),
    Row("cluster.topics", "kafka_controller_kafkacontroller_globaltopiccount", GAUGE, "Topics, at the controller."),
    Row("cluster.partitions", "kafka_controller_kafkacontroller_globalpartitioncount", GAUGE, "Partitions, at the controller."),
    Row("disk.offline.directories", "kafka_log_logmanager_offlinelogdirectorycount", GAUGE, "Log directories whose disk fails."),
    # Partitions by the JMX exporter
    Row("partition.size.bytes", "kafka_log_log_size", GAUGE, "Bytes of the segments."),
    Row("partition.segments", "kafka_log_log_numlogsegments", GAUGE, "Segments."),
    Row("partition.start.offset", "kafka_log_log_logstartoffset", GAUGE, "The first offset."),
    Row("partition.log.end.offset", "kafka_log_log_logendoffset", GAUGE, "The end of the log."),
    Row("partition.replicas", "kafka_cluster_partition_replicascount", GAUGE, "Replicas."),
    Row("partition.in.sync.replicas", "kafka_cluster_partition_insyncreplicascount", GAUGE, "In-sync replicas."),
    Row("partition.under.replicated", "kafka_cluster_partition_underreplicated", GAUGE, "1 if a replica is not in sync."),
    Row("partition.under.min.isr", "kafka_cluster_partition_underminisr", GAUGE, "1 below min.insync.replicas."),
    Row("partition.at.min.isr", "kafka_cluster_partition_atminisr", GAUGE, "1 at min.insync.replicas."),
    Row("partition.unstable.records", "kafka_cluster_partition_laststableoffsetlag", GAUGE, "Records behind the last stable offset."),
)
"""Rows with one exposed name follow each other. Kafka's names come after ours."""

FRACTIONS: Final = frozenset(row.exposed for row in KAFKA_NAMES if row.name == "loop.idle.percent")
"""Kafka's shares are fractions of 1; ours are percent."""

UNANSWERED: Final[Mapping[str, str]] = {
    "kafka_network_requestmetrics_totaltimems": "a quantile of a histogram: histogram_quantile over headgate_request_seconds_bucket",
    "kafka_server_raftmetrics_current_leader": "there is no quorum of KRaft: headgate_controller_active names the controller",
    "kafka_server_raftmetrics_current_state": "there is no quorum of KRaft",
    "kafka_server_raftmetrics_current_epoch": "there is no quorum of KRaft",
    "kafka_server_raftmetrics_current_vote": "there is no quorum of KRaft",
    "kafka_server_raftmetrics_high_watermark": "there is no quorum of KRaft",
    "kafka_server_raftmetrics_log_end_offset": "there is no quorum of KRaft",
    "kafka_server_raftmetrics_append_records_rate": "there is no quorum of KRaft",
    "kafka_server_raftmetrics_commit_latency_avg": "there is no quorum of KRaft",
    "kafka_server_raftmetrics_fetch_records_rate": "there is no quorum of KRaft",
    "kafka_server_raftchannelmetrics_incoming_byte_total": "there is no quorum of KRaft",
    "kafka_server_raftchannelmetrics_outgoing_byte_total": "there is no quorum of KRaft",
    "kafka_server_raftchannelmetrics_request_total": "there is no quorum of KRaft",
    "kafka_server_raftchannelmetrics_response_total": "there is no quorum of KRaft",
    "jvm_memory_used_bytes": "there is no JVM: process_resident_memory_bytes",
    "jvm_gc_collection_seconds_sum": "there is no JVM",
    "jvm_gc_collection_seconds_count": "there is no JVM",
    "jvm_threads_current": "there is no JVM: headgate_worker_threads",
    "container_memory_usage_bytes": "Kubernetes measures containers",
    "container_cpu_usage_seconds_total": "Kubernetes measures containers",
    "kubelet_volume_stats_available_bytes": "Kubernetes measures volumes; headgate_disk_free_bytes is the broker's own view",
}
"""Names of Strimzi's dashboards for brokers, with the reason why a broker does not answer them."""
