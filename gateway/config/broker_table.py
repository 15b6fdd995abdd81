"""The table of broker settings that have a meaning here: Kafka's names, types, defaults, ranges and meanings.

Defaults come from Apache Kafka 4.1, with four exceptions whose descriptions give the reasons: `listeners`,
`log.dir`, `node.id` and `queued.max.request.bytes`. Ranges come from 2.8 where 4.1 is narrower
(`log.segment.bytes`), so that old values stay legal. `PENDING` names settings that are read and checked, but whose
feature does not exist yet.
"""
# fmt: off

from collections.abc import Mapping
from typing import Any

from headgate.gateway.config.addresses import parse_limits, parse_networks
from headgate.gateway.config.definition import TextForm, Type, split_list
from headgate.gateway.config.http.http_addresses import HttpAddress
from headgate.gateway.config.http.spark_checkpoints import parse_checkpoints
from headgate.gateway.config.listeners import Listener
from headgate.gateway.config.offset_store import StorePattern
from headgate.protocol.security.secret import Secret

BOOLEAN, STRING, INT, SHORT = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT
LONG, DOUBLE, LIST, PASSWORD = Type.LONG, Type.DOUBLE, Type.LIST, Type.PASSWORD
_FOREVER = "9223372036854775807"
_UNLIMITED = "2147483647"

SettingRow = tuple[str, Type, str | None, str, str]


def row(type_: Type, default: str | None, allowed: str, documentation: str) -> Any:
    """One setting without its name, which is the attribute's with dots."""
    return type_, default, allowed, documentation


class Settings:
    """The settings as attributes of `BrokerConfig`; None only where a setting has no default."""

    # Network
    listeners: tuple[Listener, ...] = row(STRING, "PLAINTEXT://127.0.0.1:9092", "",
     ("Where to listen: NAME://host:port, separated by commas. An empty host or 0.0.0.0 means every interface, port 0 a free port."
     " The default is the loopback interface, as clients are not authenticated."))
    advertised_listeners: tuple[Listener, ...] = row(STRING, None, "",
     "The address of each listener that clients should connect to. Default: the address that the client connected to.")
    listener_security_protocol_map: Mapping[str, str] = row(STRING,
     "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", "", "The security protocol of each listener name.")
    inter_broker_listener_name: str | None = row(STRING, None, "",
     ("The listener by which brokers reach each other; the controller's orders are served there alone."
      " Default: the listener with the name of security.inter.broker.protocol, or else the first one."))
    security_inter_broker_protocol: str = row(STRING, "PLAINTEXT", "PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL",
     "The security protocol between brokers, if inter.broker.listener.name is not set.")
    socket_send_buffer_bytes: int = row(INT, "102400", "-1 or 1..", "SO_SNDBUF of client sockets; -1 leaves it to the system.")
    socket_receive_buffer_bytes: int = row(INT, "-1", "-1 or 1..",
     ("SO_RCVBUF of client sockets; -1 leaves it to the system, which grows it with a client's traffic."
     " Kafka's default of 102400 cuts large requests into small pieces, which costs a third of their CPU time, and of their speed over long distances."))
    socket_request_max_bytes: int = row(INT, "104857600", "1..", "The largest request; a client that announces more is disconnected.")
    socket_listen_backlog_size: int = row(INT, "1024", "1..",
     ("Connections that may wait to be accepted; the system has a limit of its own (net.core.somaxconn)."
     " Kafka's default is 50: when a cluster's clients reconnect at once, the queue is full, and they retry after one to three seconds."))
    queued_max_request_bytes: int = row(LONG, "268435456", "-1 or 1..",
     ("Memory for requests that are received or being served, over all connections; -1 means no limit."
     " Limited by default, so that clients cannot exhaust the memory of the host."))
    max_connections: int = row(INT, _UNLIMITED, "0..",
     ("Connections that may be open at a time; more are refused, but on the listener between brokers: for one there, the idlest other one ends."
      " A listener may have a limit of its own too, listener.name.<name>.max.connections."))
    max_connections_per_ip: int = row(INT, _UNLIMITED, "0..", "Connections that may be open at a time from one address.")
    max_connections_per_ip_overrides: str = row(STRING, "", "", "Other limits for single addresses: host:limit, separated by commas.")
    max_connection_creation_rate: int = row(INT, _UNLIMITED, "0..",
     ("Connections that may be opened in a second; then a listener accepts none for a while. It does not hold for the listener between brokers."
      " A listener may have a rate of its own too, listener.name.<name>.max.connection.creation.rate."))
    headgate_max_connections_unauthenticated: int = row(INT, "2000", "1..",
     ("Connections whose clients have not finished their TLS handshake, login or PROXY header; at most half of those that may be open."
      " For a new one, the oldest of those ends whose client has been waited for a second; without such a one, the new one is refused."))
    headgate_proxy_trusted: tuple[str, ...] = row(LIST, "", "",
     ("The networks of proxies, such as 10.0.0.0/8. Each connection from there has to begin with a PROXY header (version 1 or 2), whose client counts in its place;"
      " a PROXY header from elsewhere is refused."))
    quota_window_num: int = row(INT, "11", "1..", "Windows over which the rates of clients with quotas are measured, the present one included.")
    quota_window_size_seconds: int = row(INT, "1", "1..", "The length of such a window; request_percentage throttles for one window at most.")
    controller_quota_window_num: int = row(INT, "11", "1..", "Windows whose mutations a client may make at once; more begin a debt.")
    controller_quota_window_size_seconds: int = row(INT, "1", "1..", "The length of such a window.")
    connections_max_idle_ms: int = row(LONG, "600000", "", "A connection that is idle for longer is closed; 0 or less: never.")
    headgate_http_listeners: tuple[HttpAddress, ...] = row(STRING, "http://127.0.0.1:9644", "",
     ("Where to serve metrics, health and JSON for tools: http://host:port on the loopback interface, https://host:port anywhere, separated by commas."
      " Empty: nowhere. https needs a key store (listener.name.http.ssl.*), and answers users who may Describe the cluster."))
    headgate_console_listeners: tuple[HttpAddress, ...] = row(STRING, "http://127.0.0.1:9080", "",
     ("Where the page of the console is served, http://host:port on the loopback interface, separated by commas; empty: nowhere."
      " It is a process of its own, which the first visit starts (pip install 'headgate[console]')."))
    headgate_console_write: bool = row(BOOLEAN, "false", "",
     "Whether visitors of the console may change the cluster, each as the own login allows; without it the console only reads.")
    headgate_console_http: tuple[str, ...] = row(LIST, "", "",
     "HTTP listeners of other brokers on this machine, http://127.0.0.1:port, separated by commas: the console shows these brokers as it shows its own.")
    headgate_console_schemas: str = row(STRING, "", "",
     "Schemas of Avro for the console's messages: a folder with <id>.avsc and <subject>.avsc, or a registry with Confluent's API (http://...).")
    headgate_console_descriptor_set: str = row(STRING, "", "",
     "Message types of Protobuf for the console's messages: a file of protoc --include_imports --descriptor_set_out=file.")
    headgate_metrics_detail: str = row(STRING, "partition", "broker|topic|partition",
     "How finely metrics are shown: broker (sums alone), topic, or partition (the most samples).")
    headgate_metrics_listener: tuple[HttpAddress, ...] = row(STRING, "", "",
     ("The older name of headgate.http.listeners, for one release: host:port, or a port alone on the loopback interface."
      " listener.name.metrics.* are older names of listener.name.http.*."))
    headgate_log_format: str = row(STRING, "text", "text|json", "The format of log lines on stderr: text, or one JSON object a line.")
    headgate_census: bool = row(BOOLEAN, "true", "",
     "Whether this broker counts which versions of APIs each client uses, and keeps the counts in the topic __headgate_census.")
    headgate_census_max_rows: int = row(INT, "10000", "1..", "The most clients in the census of this broker; then the one seen longest ago makes room.")
    headgate_census_interval_ms: int = row(LONG, "60000", "100..",
     "How often counts are taken from open connections, and new clients and versions are written to the topic. Counts of known ones are written once an hour.")
    headgate_request_log_slow_ms: int = row(LONG, "-1", "-1..",
     ("Log each request that takes so long or longer, with its stages: received, waited for memory, handled, parked and for what, written, sent."
      " The wait that a client asks for (for records, for members of its group) does not count; -1: none."))
    headgate_request_log_one_of: int = row(INT, "0", "0..", "Log one of so many requests, with its stages; 0: none.")
    headgate_lag_interval_ms: int = row(LONG, "10000", "100..", "How often the lag of groups is measured, while an HTTP listener serves it.")
    headgate_spark_checkpoints: tuple[str, ...] = row(LIST, "", "",
     ("Checkpoints of Spark's streaming queries on this machine, name:/directory, separated by commas: their lag is shown as that of groups spark:<name>."))
    request_timeout_ms: int = row(INT, "30000", "0..", "How long this broker waits for another broker's response.")

    # TLS: each also for one listener, listener.name.<listener>.<setting>
    ssl_keystore_type: str = row(STRING, "JKS", "",
     "The format of the key store: PEM or PKCS12. JKS, Kafka's default, means what the file has; a file of Java's own format is refused.")
    ssl_keystore_location: str | None = row(STRING, None, "",
     "The key store of a listener: a private key, its certificate, and the certificates above that one, in this order.")
    ssl_keystore_password: Secret | None = row(PASSWORD, None, "", "The password of a key store of type PKCS12.")
    ssl_keystore_key: Secret | None = row(PASSWORD, None, "", "The private key itself, as PEM, in place of a file.")
    ssl_keystore_certificate_chain: Secret | None = row(PASSWORD, None, "", "The certificates of ssl.keystore.key, as PEM.")
    ssl_key_password: Secret | None = row(PASSWORD, None, "", "The password of an encrypted private key in PEM.")
    ssl_truststore_type: str = row(STRING, "JKS", "", "The format of the trust store, as ssl.keystore.type.")
    ssl_truststore_location: str | None = row(STRING, None, "", "The trust store: certificates of the authorities that sign those of clients.")
    ssl_truststore_password: Secret | None = row(PASSWORD, None, "", "The password of a trust store of type PKCS12.")
    ssl_truststore_certificates: Secret | None = row(PASSWORD, None, "", "The trusted certificates themselves, as PEM, in place of a file.")
    ssl_client_auth: str = row(STRING, "none", "required|requested|none",
     ("Whether clients have to show a certificate (required), may (requested), or are not asked. On a SASL_SSL listener only"
      " listener.name.<listener>.ssl.client.auth counts, as in Kafka."))
    ssl_protocol: str = row(STRING, "TLSv1.3", "", "A name of Java's; it has no effect beside ssl.enabled.protocols.")
    ssl_enabled_protocols: tuple[str, ...] = row(LIST, "TLSv1.2,TLSv1.3", "", "The versions of TLS; older ones than TLSv1.2 are not served.")
    ssl_cipher_suites: tuple[str, ...] = row(LIST, "", "",
     "The cipher suites, by their names in Java; empty: those that OpenSSL holds for secure. Some suites of TLSv1.3 alone need Python 3.15.")
    ssl_endpoint_identification_algorithm: str = row(STRING, "https", "",
     "Whether this broker checks the host names of other brokers in their certificates: https, or empty for no.")
    ssl_principal_mapping_rules: str = row(STRING, "DEFAULT", "",
     ("How the name of a client's certificate becomes its principal: RULE:pattern/replacement/[LU], separated by commas, and DEFAULT, the whole name."
      " Patterns have RE2's syntax."))
    ssl_allow_dn_changes: bool = row(BOOLEAN, "false", "", "Whether a new certificate may have another name than the one before it.")
    ssl_allow_san_changes: bool = row(BOOLEAN, "false", "", "Whether a new certificate may lack host names of the one before it.")
    headgate_ssl_optional: bool = row(BOOLEAN, "false", "",
     "Whether listeners with TLS serve clients without TLS too, on the same port: for the time in which clients move.")

    # SASL: most also for one listener, listener.name.<listener>.<setting>, or listener.name.<listener>.<mechanism>.<setting>
    sasl_enabled_mechanisms: tuple[str, ...] = row(LIST, "GSSAPI", "",
     "The mechanisms by which clients may log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI.")
    sasl_mechanism_inter_broker_protocol: str = row(STRING, "GSSAPI", "",
     ("The mechanism by which brokers log in to each other. Its user and password are in the JAAS line of the listener between brokers:"
      " listener.name.<listener>.<mechanism>.sasl.jaas.config."))
    sasl_kerberos_service_name: str | None = row(STRING, None, "", "The first part of the brokers' principals in Kerberos, for logins between brokers.")
    sasl_oauthbearer_token_endpoint_url: str | None = row(STRING, None, "",
     "Where brokers get the tokens for logins between them: an address of https, or a file (file:///...).")
    sasl_oauthbearer_client_credentials_client_id: str | None = row(STRING, None, "", "The name of the brokers at the server of tokens.")
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = row(PASSWORD, None, "", "Their secret there.")
    sasl_oauthbearer_scope: str | None = row(STRING, None, "", "The scope that they ask for.")
    sasl_server_max_receive_size: int = row(INT, "524288", "1..", "The largest frame before a client has logged in, in bytes.")
    sasl_kerberos_principal_to_local_rules: tuple[str, ...] = row(LIST, "DEFAULT", "",
     "How names of Kerberos become user names, as auth_to_local of krb5.conf. Patterns have RE2's syntax.")
    sasl_oauthbearer_jwks_endpoint_url: str | None = row(STRING, None, "",
     "Where the keys for signatures of bearer tokens are: an address of https, or of a file (file:///...).")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = row(LONG, "3600000", "1..", "How long keys are used before they are fetched again.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms: int = row(LONG, "100", "1..", "How long to wait after a failed fetch of keys, at first.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms: int = row(LONG, "10000", "1..", "How long to wait after failed fetches of keys at most.")
    sasl_oauthbearer_expected_audience: tuple[str, ...] | None = row(LIST, None, "", "The audiences of bearer tokens, of which a token must have one.")
    sasl_oauthbearer_expected_issuer: str | None = row(STRING, None, "", "The issuer that a bearer token must have.")
    sasl_oauthbearer_clock_skew_seconds: int = row(INT, "30", "0..", "How much the clocks of a provider of tokens and of this broker may differ.")
    sasl_oauthbearer_scope_claim_name: str = row(STRING, "scope", "", "The claim of a bearer token with its scopes.")
    sasl_oauthbearer_sub_claim_name: str = row(STRING, "sub", "", "The claim of a bearer token that names the principal.")
    headgate_sasl_oauthbearer_unsecured: bool = row(BOOLEAN, "false", "",
     "Whether bearer tokens without a signature (or, with a key set, those of HMAC) log in. Anyone can make such a token: for tests alone.")
    headgate_sasl_plain_store: str = row(STRING, "jaas", "jaas|scram",
     "Where the passwords of PLAIN are: in the JAAS line of the listener, or behind the SCRAM credentials of users, with no password in a file.")
    connections_max_reauth_ms: int = row(LONG, "0", "", "How long a login is valid; a client has to log in again before that (KIP-368). 0 or less: as long as its credential.")
    connection_failed_authentication_delay_ms: int = row(INT, "100", "0..", "How long a refused login waits for its answer and the end of its connection.")
    headgate_authentication_timeout_ms: int = row(LONG, "10000", "1..", "How long a TLS handshake and a login may take together before the connection is closed.")

    # Identity
    node_id: int = row(INT, None, "0..", "The id of this broker, unique in a cluster. Default: broker.id, or else 0.")
    broker_id: int = row(INT, "-1", "-1..", "The older name of node.id; -1 means that it is not set.")
    broker_rack: str | None = row(STRING, None, "", "The rack of this broker, for consumers that prefer a near broker.")
    controlled_shutdown_enable: bool = row(BOOLEAN, "true", "", "Whether leadership is handed over before a stop.")
    controlled_shutdown_max_retries: int = row(INT, "3", "", "How often the controller is asked to move the leads before a stop.")
    controlled_shutdown_retry_backoff_ms: int = row(LONG, "5000", "", "How long to wait before the controller is asked again.")
    zookeeper_connect: str | None = row(STRING, None, "",
     ("Where the metadata of the cluster are: ZooKeeper's servers and a path in it, host:port,host:port/path. Without it, this broker keeps its metadata itself."
      " Clients of the 0.8 age need it: they look for brokers there, and keep offsets there."))
    zookeeper_session_timeout_ms: int = row(INT, "18000", "1..", "ZooKeeper forgets this broker after this time without a heartbeat.")
    zookeeper_connection_timeout_ms: int | None = row(INT, None, "1..", "How long to wait for ZooKeeper at a start. Default: zookeeper.session.timeout.ms.")
    zookeeper_ssl_client_enable: bool = row(BOOLEAN, "false", "", "Whether ZooKeeper is reached over TLS.")
    zookeeper_ssl_keystore_location: str | None = row(STRING, None, "",
     "The certificate of this broker for ZooKeeper, with its key: a file in PEM or PKCS12.")
    zookeeper_ssl_keystore_password: Secret | None = row(PASSWORD, None, "", "Its password.")
    zookeeper_ssl_keystore_type: str | None = row(STRING, None, "", "Its format: PEM or PKCS12. Default: by the ending of its name.")
    zookeeper_ssl_truststore_location: str | None = row(STRING, None, "", "The authorities of ZooKeeper's certificate. Default: those of the system.")
    zookeeper_ssl_truststore_password: Secret | None = row(PASSWORD, None, "", "Its password.")
    zookeeper_ssl_truststore_type: str | None = row(STRING, None, "", "Its format, as zookeeper.ssl.keystore.type.")
    zookeeper_ssl_enabled_protocols: tuple[str, ...] | None = row(LIST, None, "", "The versions of TLS; empty: TLSv1.2 and TLSv1.3.")
    zookeeper_ssl_cipher_suites: tuple[str, ...] | None = row(LIST, None, "", "The cipher suites, as ssl.cipher.suites.")
    zookeeper_ssl_endpoint_identification_algorithm: str = row(STRING, "HTTPS", "",
     "Whether the host name of ZooKeeper is checked in its certificate: HTTPS, or empty for no.")
    zookeeper_set_acl: bool = row(BOOLEAN, "false", "",
     "Whether new nodes are for this broker's name in ZooKeeper alone, to write; users, configs of brokers and tokens to read too.")
    headgate_zookeeper_sasl_jaas_config: Secret | None = row(PASSWORD, None, "",
     ('The login at ZooKeeper: org.apache.zookeeper.server.auth.DigestLoginModule required username="..." password="...";. Kafka has it in the section'
      " Client of the JVM's own file."))
    headgate_zookeeper_groups_max: int = row(INT, "10000", "0..",
     "The maximum of groups in ZooKeeper that ListGroups and DescribeGroups show beside the coordinator's; 0: none.")

    headgate_offsets_store: tuple[StorePattern, ...] = row(STRING, "separate", "",
     ("Where the offsets of groups are that have no headgate.offsets.store of their own: separate (OffsetCommit 0 in ZooKeeper, later versions in the"
      " coordinator), dual:zookeeper or dual:kafka (both have every commit; at the beginning this side leads), or kafka (the coordinator alone)."
      " For some groups: pattern=store, separated by commas; the first pattern that matches counts."))

    # Topics
    num_partitions: int = row(INT, "1", "1..", "Partitions of a topic that is created without a number of partitions.")
    default_replication_factor: int = row(INT, "1", "1..",
     "Replicas of a topic that is created without a replication factor. On a single node it is always one.")
    auto_create_topics_enable: bool = row(BOOLEAN, "true", "", "Whether a topic is created when a client asks for its metadata.")
    delete_topic_enable: bool = row(BOOLEAN, "true", "", "Whether topics may be deleted.")
    min_insync_replicas: int = row(INT, "1", "1..", "Replicas that must be in sync for a produce request with acks=all.")
    unclean_leader_election_enable: bool = row(BOOLEAN, "false", "", "Whether a replica that is not in sync may lead, which can lose records.")
    message_max_bytes: int = row(INT, "1048588", "0..", "The largest record batch, after compression.")
    compression_type: str = row(STRING, "producer", "uncompressed|zstd|lz4|snappy|gzip|producer",
     "How batches are stored; 'producer' keeps the producer's compression.")
    compression_gzip_level: int = row(INT, "-1", "-1 or 1..9", "The gzip level if compression.type is gzip; -1 is the codec's own.")
    compression_lz4_level: int = row(INT, "9", "1..17", "The lz4 level if compression.type is lz4.")
    compression_zstd_level: int = row(INT, "3", "-131072..22", "The zstd level if compression.type is zstd.")
    fetch_max_bytes: int = row(INT, "57671680", "1024..", "The largest fetch response; a first batch alone may exceed it.")
    headgate_fetch_isolation_default: str = row(STRING, "read_uncommitted", "read_uncommitted|read_committed",
     ("What clients read that cannot ask for an isolation level (Fetch 0-3, ListOffsets 0-1): 'read_committed' ends before the first open transaction and"
      " leaves aborted records out. A listener's own value, listener.name.<name>.headgate.fetch.isolation.default, counts before that of a topic."))
    max_incremental_fetch_session_cache_slots: int = row(INT, "1000", "0..", "The maximum number of incremental fetch sessions (KIP-227).")
    max_request_partition_size_limit: int = row(INT, "2000", "1..", "The maximum number of partitions in one DescribeTopicPartitions response.")
    headgate_validate_records: str = row(STRING, "header", "header|full",
     "The checks of a produced batch: 'header', its header and checksum; 'full', every record as well.")

    # Access control
    authorizer_class_name: str = row(STRING, "", "",
     ("What decides what clients may do: org.apache.kafka.metadata.authorizer.StandardAuthorizer or kafka.security.authorizer.AclAuthorizer, by the ACLs"
      " of the cluster, or python:module:Class. Without a class clients may do everything."))
    super_users: frozenset[str] = row(STRING, "", "", "Principals that may do everything, separated by semicolons, as in User:admin;User:broker.")
    allow_everyone_if_no_acl_found: bool = row(BOOLEAN, "false", "", "Whether clients may do everything with a resource that has no ACL.")
    headgate_authorizer_mode: str = row(STRING, "enforce", "enforce|observe",
     "Whether the authorizer refuses requests: 'observe' refuses none, and counts and logs what would be refused.")
    headgate_audit_log: str | None = row(STRING, None, "",
     "A file that gets a JSON line for each login, each refusal of the authorizer, and each change of topics, configs, ACLs, users, quotas and tokens by a client.")

    # Delegation tokens
    delegation_token_secret_key: Secret | None = row(PASSWORD, None, "",
     "The key from which the secrets of delegation tokens are made, the same on all brokers of a cluster. Without a key there are no tokens.")
    delegation_token_master_key: Secret | None = row(PASSWORD, None, "", "The older name of delegation.token.secret.key.")
    delegation_token_max_lifetime_ms: int = row(LONG, "604800000", "1..", "How long after its creation a delegation token may be renewed at most.")
    delegation_token_expiry_time_ms: int = row(LONG, "86400000", "1..", "How long a delegation token is valid after its creation, and after each renewal.")
    delegation_token_expiry_check_interval_ms: int = row(LONG, "3600000", "1..", "How often expired delegation tokens are deleted.")

    # Log
    log_dir: str = row(STRING, "data", "",
     "The data directory, if log.dirs is not set. The default is below the working directory, because many systems empty /tmp.")
    log_dirs: tuple[str, ...] | None = row(LIST, None, "", "The data directories, separated by commas; a new partition goes to the directory with the fewest partitions, among those with free space.")
    log_segment_bytes: int = row(INT, "1073741824", "14..", "A segment file is closed at this size.")
    log_roll_ms: int | None = row(LONG, None, "1..", "A segment file is closed at this age.")
    log_roll_hours: int = row(INT, "168", "1..", "The same in hours, if log.roll.ms is not set.")
    log_roll_jitter_ms: int | None = row(LONG, None, "0..", "A random time up to this length is subtracted from the age, so that not all logs roll at once.")
    log_roll_jitter_hours: int = row(INT, "0", "0..", "The same in hours, if log.roll.jitter.ms is not set.")
    log_index_size_max_bytes: int = row(INT, "10485760", "4..", "The largest offset index; a full one closes the segment.")
    log_index_interval_bytes: int = row(INT, "4096", "0..", "Log bytes between two entries of the offset index.")
    log_preallocate: bool = row(BOOLEAN, "false", "", "Whether a new segment file takes its full size at once.")
    log_flush_interval_messages: int = row(LONG, _FOREVER, "1..", "Records after which a log is synced to disk.")
    log_flush_interval_ms: int | None = row(LONG, None, "0..", "Time after which a log is synced; default: log.flush.scheduler.interval.ms.")
    log_flush_scheduler_interval_ms: int = row(LONG, _FOREVER, "0..", "How often logs are checked for a sync.")
    headgate_flush: str = row(STRING, "cache", "cache|commit",
     ("When records count as written: 'cache', in the system's page cache, as in Kafka; 'commit', on the disk: acks=all waits for the disk,"
      " and so do consumers. One sync serves all waiting requests."))
    log_flush_offset_checkpoint_interval_ms: int = row(INT, "60000", "0..", "How often the recovery points are written.")
    log_flush_start_offset_checkpoint_interval_ms: int = row(INT, "60000", "0..", "How often the log start offsets are written.")
    log_message_timestamp_type: str = row(STRING, "CreateTime", "CreateTime|LogAppendTime", "Whether a record has its producer's time or the broker's.")
    log_message_timestamp_before_max_ms: int = row(LONG, _FOREVER, "0..", "A record's time may be this much behind the broker's.")
    log_message_timestamp_after_max_ms: int = row(LONG, "3600000", "0..", "A record's time may be this much ahead of the broker's.")
    log_message_timestamp_difference_max_ms: int | None = row(LONG, None, "0..", "Both bounds above, if they are not set (Kafka to 3.9).")
    num_recovery_threads_per_data_dir: int = row(INT, "2", "1..", "Threads that open the logs at start.")

    # Cleanup
    log_retention_ms: int | None = row(LONG, None, "-1 or 1..", "Segments with only older records are deleted; -1: never.")
    log_retention_minutes: int | None = row(INT, None, "-1 or 1..", "The same in minutes, if log.retention.ms is not set.")
    log_retention_hours: int = row(INT, "168", "-1 or 1..", "The same in hours, if neither is set.")
    log_retention_bytes: int = row(LONG, "-1", "-1..", "The oldest segments of a larger partition are deleted; -1: never.")
    headgate_retention_hold_groups: tuple[str, ...] = row(LIST, "", "",
     ("Groups, separated by commas: retention keeps what one of them has not read, in every topic without a value of its own; a group without an offset has read"
      " nothing. Better set for single topics: in a topic that a group never reads it holds everything."))
    headgate_retention_hold_bytes: int = row(LONG, "-1", "-1..",
     "The size of a partition up to which it may hold unread records; -1: as far as log.min.free.bytes allows.")
    headgate_retention_hold_ms: int = row(LONG, "-1", "-1..", "The age of records up to which they may be held unread; -1: any age.")
    log_retention_check_interval_ms: int = row(LONG, "300000", "1..", "How often logs are checked for segments to roll or to delete.")
    log_segment_delete_delay_ms: int = row(LONG, "60000", "0..", "How long a deleted file stays on disk.")
    log_min_free_bytes: int = row(LONG, "67108864", "0..",
     ("With less free space on a data directory's disk, the broker refuses records for that directory, until a quarter more is free; all else continues."
     " If it is not set, the limit is at most a tenth of the disk. 0: never."))
    log_cleanup_policy: tuple[str, ...] = row(LIST, "delete", "compact|delete|",
     "What happens to old records: delete, compact, or both; with neither they stay.")
    log_cleaner_enable: bool = row(BOOLEAN, "true", "", "Whether logs are compacted.")
    log_cleaner_threads: int = row(INT, "1", "0..", "Threads that compact logs.")
    log_cleaner_io_max_bytes_per_second: float = row(DOUBLE, "1.7976931348623157E308", "0..", "Bytes per second that compaction may read and write.")
    log_cleaner_dedupe_buffer_size: int = row(LONG, "134217728", "1..", "Memory for the keys of a compaction.")
    log_cleaner_io_buffer_size: int = row(INT, "524288", "0..", "Memory for reading and writing in a compaction.")
    log_cleaner_io_buffer_load_factor: float = row(DOUBLE, "0.9", "0..1", "How full the memory for keys may be.")
    log_cleaner_backoff_ms: int = row(LONG, "15000", "0..", "How long to wait when there is nothing to compact.")
    log_cleaner_min_cleanable_ratio: float = row(DOUBLE, "0.5", "0..1", "The share of uncompacted bytes at which a log is compacted.")
    log_cleaner_delete_retention_ms: int = row(LONG, "86400000", "0..", "How long a deletion marker stays in a compacted log.")
    log_cleaner_min_compaction_lag_ms: int = row(LONG, "0", "0..", "A record is not compacted before this age.")
    log_cleaner_max_compaction_lag_ms: int = row(LONG, _FOREVER, "1..", "A record is compacted at this age at the latest.")

    # Replication
    replica_lag_time_max_ms: int = row(LONG, "30000", "1..", "A follower leaves the ISR when it has not caught up for this time.")
    replica_socket_timeout_ms: int = row(INT, "30000", "1..", "How long a follower waits for its leader.")
    replica_socket_receive_buffer_bytes: int = row(INT, "65536", "-1 or 1..", "SO_RCVBUF of a follower's sockets.")
    replica_fetch_max_bytes: int = row(INT, "1048576", "0..", "Bytes of each partition that a follower asks for.")
    replica_fetch_wait_max_ms: int = row(INT, "500", "0..", "How long a follower's fetch may wait for records.")
    replica_fetch_backoff_ms: int = row(INT, "1000", "0..", "How long a follower waits after an error, at most; after the first one 50 ms.")
    replica_fetch_min_bytes: int = row(INT, "1", "0..", "Bytes that a follower's fetch waits for.")
    replica_fetch_response_max_bytes: int = row(INT, "10485760", "0..", "The largest response to a follower.")
    num_replica_fetchers: int = row(INT, "1", "1..", "Fetching tasks for each other broker.")
    replica_high_watermark_checkpoint_interval_ms: int = row(LONG, "5000", "1..", "How often the high watermarks are written to disk.")
    controller_socket_timeout_ms: int = row(INT, "30000", "", "How long the controller waits for a broker, and a broker that stops for the controller.")
    auto_leader_rebalance_enable: bool = row(BOOLEAN, "true", "", "Whether leadership returns to the preferred replica automatically.")
    leader_imbalance_check_interval_seconds: int = row(LONG, "300", "1..", "How often the leader imbalance is checked.")
    leader_imbalance_per_broker_percentage: int = row(INT, "10", "0..", "The imbalance, in percent, at which leadership returns.")

    # Groups
    group_initial_rebalance_delay_ms: int = row(INT, "3000", "0..", "How long a new group waits for more members.")
    group_min_session_timeout_ms: int = row(INT, "6000", "0..", "The shortest session timeout that a member may ask for.")
    group_max_session_timeout_ms: int = row(INT, "1800000", "0..", "The longest session timeout that a member may ask for.")
    group_max_size: int = row(INT, _UNLIMITED, "1..", "Members in a group.")
    group_coordinator_rebalance_protocols: tuple[str, ...] = row(LIST, "classic,consumer,streams", "consumer|classic|share|streams", "The group protocols that this broker serves.")
    group_consumer_session_timeout_ms: int = row(INT, "45000", "1..", "Session timeout of members under KIP-848.")
    group_consumer_min_session_timeout_ms: int = row(INT, "45000", "1..", "The lower bound of a group's own session timeout.")
    group_consumer_max_session_timeout_ms: int = row(INT, "60000", "1..", "The upper bound of a group's own session timeout.")
    group_consumer_heartbeat_interval_ms: int = row(INT, "5000", "1..", "Heartbeat interval of members under KIP-848.")
    group_consumer_min_heartbeat_interval_ms: int = row(INT, "5000", "1..", "The lower bound of a group's own heartbeat interval.")
    group_consumer_max_heartbeat_interval_ms: int = row(INT, "15000", "1..", "The upper bound of a group's own heartbeat interval.")
    group_consumer_max_size: int = row(INT, _UNLIMITED, "1..", "Members in a group under KIP-848.")
    group_consumer_assignors: tuple[str, ...] = row(LIST, "uniform,range", "", "Assignors of the broker; the first is the default.")
    group_consumer_migration_policy: str = row(STRING, "bidirectional",
     "bidirectional|upgrade|downgrade|disabled|BIDIRECTIONAL|UPGRADE|DOWNGRADE|DISABLED", "In which direction groups may change between classic and KIP-848.")
    offset_metadata_max_bytes: int = row(INT, "4096", "0..", "The longest metadata text of a committed offset.")
    offsets_commit_timeout_ms: int = row(INT, "5000", "1..", "How long an offset commit waits for the replicas.")
    offsets_load_buffer_size: int = row(INT, "5242880", "1..", "Bytes read at a time when committed offsets are loaded.")
    offsets_retention_minutes: int = row(INT, "10080", "1..", "How long the offsets of an empty group are kept.")
    offsets_retention_check_interval_ms: int = row(LONG, "600000", "1..", "How often expired offsets are searched for.")
    offsets_topic_replication_factor: int = row(SHORT, "3", "1..",
     "Replicas of __consumer_offsets, which is created when a client first asks for a coordinator. On a single node it is always one.")
    offsets_topic_num_partitions: int = row(INT, "50", "1..", "Partitions of __consumer_offsets.")
    offsets_topic_segment_bytes: int = row(INT, "104857600", "1..", "Segment size of __consumer_offsets.")
    offsets_topic_compression_codec: int = row(INT, "0", "0..4", "Codec of __consumer_offsets, by its number.")

    # Transactions
    producer_id_expiration_ms: int = row(INT, "86400000", "1..", "A partition forgets a producer after this time without a write.")
    producer_id_expiration_check_interval_ms: int = row(INT, "600000", "1..", "How often expired producers are searched for.")
    transactional_id_expiration_ms: int = row(INT, "604800000", "1..", "A transactional id without an open transaction is forgotten after this time without use.")
    transaction_max_timeout_ms: int = row(INT, "900000", "1..", "The longest transaction.timeout.ms that a producer may ask for; the coordinator aborts a transaction after its timeout.")
    transaction_state_log_replication_factor: int = row(SHORT, "3", "1..", "Replicas of __transaction_state, which is created when a client first asks for a coordinator. On a single node it is always one.")
    transaction_state_log_num_partitions: int = row(INT, "50", "1..", "Partitions of __transaction_state. It has no effect once the topic exists.")
    transaction_state_log_min_isr: int = row(INT, "2", "1..", "min.insync.replicas of __transaction_state, at most its replicas. On a single node it is always one.")
    transaction_state_log_segment_bytes: int = row(INT, "104857600", "1..", "Segment size of __transaction_state.")
    transaction_state_log_load_buffer_size: int = row(INT, "5242880", "1..", "Bytes read at a time when transactions are loaded.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = row(INT, "10000", "1..", "How often transactions that are older than their timeout are searched for.")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = row(INT, "3600000", "1..", "How often expired transactional ids are searched for.")
    transaction_partition_verification_enable: bool = row(BOOLEAN, "true", "", "Whether a partition verifies that a transaction includes it (KIP-890).")
    transaction_two_phase_commit_enable: bool = row(BOOLEAN, "false", "", "Whether a client may keep a transaction prepared (KIP-939).")


ROWS: tuple[SettingRow, ...] = tuple(
    (name.replace("_", "."), *columns) for name, columns in vars(Settings).items() if isinstance(columns, tuple)
)
for _name, *_ in ROWS:  # Python reads a value of an instance faster if the class does not have the attribute
    delattr(Settings, _name.replace(".", "_"))

# A name, or a prefix that ends in a dot -> what is missing. The longest match counts.
PENDING: dict[str, str] = {
    "transaction.two.phase.commit.enable": "a client cannot keep a transaction prepared yet",
    "replica.socket.receive.buffer.bytes": "a follower leaves the buffers of its sockets to the system",
    "num.replica.fetchers": "one connection to each leader fetches all its partitions",
    "log.flush.offset.checkpoint.interval.ms": "recovery points are written together with high watermarks",
    "log.flush.start.offset.checkpoint.interval.ms": "log start offsets are written together with high watermarks",
    "log.preallocate": "files grow as they are written",
}

# Settings with a form of their own.
FORMS: Mapping[str, TextForm] = {
    "headgate.spark.checkpoints": TextForm(lambda text: parse_checkpoints(split_list(text)), "a list of name:/directory, as in orders:/data/orders/checkpoint"),
    "max.connections.per.ip.overrides": TextForm(parse_limits, "host:limit, separated by commas, as in 192.0.2.1:100"),
    "headgate.proxy.trusted": TextForm(lambda text: parse_networks(split_list(text)), "a list of networks, as in 10.0.0.0/8,192.0.2.1"),
}

# Settings that a listener may have a value of its own for: listener.name.<listener in lower case>.<setting>.
_OF_BEARER = tuple(row[0] for row in ROWS if row[0].startswith("sasl.oauthbearer."))
OF_LISTENERS = frozenset(
    ("headgate.fetch.isolation.default", "headgate.ssl.optional", "headgate.proxy.trusted", "connections.max.reauth.ms",
     "max.connections", "max.connection.creation.rate",
     *(row[0] for row in ROWS if row[0].startswith(("ssl.", "sasl.", "headgate.sasl."))))
) - {"sasl.mechanism.inter.broker.protocol"}

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
# Settings that a mechanism of a listener may have a value of its own for: listener.name.<listener>.<mechanism>.<setting>.
OF_MECHANISMS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("sasl.jaas.config", "sasl.server.callback.handler.class", "connections.max.reauth.ms"), MECHANISMS),
    **dict.fromkeys(_OF_BEARER, ("OAUTHBEARER",)),
}

# Pairs of settings: the first may not exceed the second.
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
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
)

# Settings that Kafka can change at run time, for all brokers. `listeners` and `listener.security.protocol.map`, which
# Kafka can change for one broker, need a restart here.
CLUSTER_WIDE = frozenset(
    """
    message.max.bytes compression.type compression.gzip.level compression.lz4.level compression.zstd.level max.connections.per.ip
    max.connections.per.ip.overrides max.connections max.connection.creation.rate num.replica.fetchers unclean.leader.election.enable
    log.cleaner.threads log.cleaner.io.max.bytes.per.second log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.size
    log.cleaner.io.buffer.load.factor log.cleaner.backoff.ms log.cleaner.min.cleanable.ratio log.cleaner.delete.retention.ms
    log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms log.segment.bytes log.roll.ms log.roll.jitter.ms log.retention.ms
    log.retention.bytes log.cleanup.policy log.index.size.max.bytes log.index.interval.bytes log.flush.interval.messages
    log.segment.delete.delay.ms log.min.free.bytes log.flush.interval.ms log.preallocate num.recovery.threads.per.data.dir min.insync.replicas
    log.message.timestamp.type log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms log.message.timestamp.difference.max.ms
    transaction.partition.verification.enable producer.id.expiration.ms headgate.flush headgate.fetch.isolation.default
    headgate.retention.hold.groups headgate.retention.hold.bytes headgate.retention.hold.ms headgate.request.log.slow.ms
    headgate.request.log.one.of
    """.split()  # noqa: SIM905 - a line for each name would fill a page
)

# Settings that Kafka can change at run time for one broker, not for all.
PER_BROKER = frozenset(
    """
    ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.protocol sasl.enabled.mechanisms
    sasl.kerberos.principal.to.local.rules sasl.mechanism.inter.broker.protocol sasl.kerberos.service.name
    """.split()  # noqa: SIM905 - as above
)

# Settings that Kafka can change at run time for one listener of one broker.
PER_LISTENER = frozenset(
    """
    ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """.split()  # noqa: SIM905 - as above
)
