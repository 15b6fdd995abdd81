"""The tables of Apache Kafka's settings (2.8 to 4.4) without effect here, with reasons, and of settings that are refused.

A name that ends in `*` is a secret. Names follow the prefix that they share.
"""
# fmt: off

# (the reason for no effect, the common prefix, the rest of each name)
GROUPS: tuple[tuple[str, str, str], ...] = (
    ("one loop serves all connections, and threads are started when they are needed", "",
     """num.network.threads num.io.threads background.threads num.replica.alter.log.dirs.threads group.coordinator.threads
     group.coordinator.background.threads share.coordinator.threads queued.max.requests"""),
    ("an event completes a waiting request, and leaves nothing to purge", "",
     """fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
     delete.records.purgatory.purge.interval.requests share.fetch.purgatory.purge.interval.requests"""),
    ("there is no KRaft quorum; the embedded metadata log needs no settings", "",
     """process.roles initial.broker.registration.timeout.ms broker.heartbeat.interval.ms broker.session.timeout.ms
     controller.listener.names early.start.listeners controller.performance.sample.period.ms controller.performance.always.log.threshold.ms
     server.max.startup.time.ms sasl.mechanism.controller.protocol metadata.max.idle.interval.ms metadata.max.retention.bytes
     metadata.max.retention.ms internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
     internal.metadata.max.fetch.size.in.bytes internal.metadata.delete.delay.millis eligible.leader.replicas.enable"""),
    ("there is no KRaft quorum; the embedded metadata log needs no settings", "metadata.log.",
     "dir max.record.bytes.between.snapshots max.snapshot.interval.ms segment.bytes segment.min.bytes segment.ms"),
    ("there is no KRaft quorum", "controller.quorum.",
     """voters bootstrap.servers election.timeout.ms fetch.timeout.ms election.backoff.max.ms append.linger.ms request.timeout.ms
     retry.backoff.ms auto.join.enable fetch.snapshot.max.bytes fetch.max.bytes"""),
    ("this is a single node: there is no traffic between brokers", "",
     """security.inter.broker.protocol inter.broker.listener.name inter.broker.protocol.version control.plane.listener.name
     controller.socket.timeout.ms socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms replica.selector.class
     follower.fetch.last.tiered.offset.enable unclean.leader.election.interval.ms controlled.shutdown.max.retries
     controlled.shutdown.retry.backoff.ms"""),
    ("a partition asks the coordinator of this broker again after 2, 4, 8 and then 20 ms, and gives up after 100 ms", "",
     "add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms"),
    ("the broker id is configured, or 0, and never generated", "", "broker.id.generation.enable reserved.broker.max.id"),
    ("ZooKeeper is reached without TLS and without ACLs, and there is no migration to KRaft", "zookeeper.",
     """clientCnxnSocket max.in.flight.requests metadata.migration.enable metadata.migration.min.batch.size set.acl sync.time.ms
     ssl.cipher.suites ssl.client.enable ssl.crl.enable ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.keystore.location
     ssl.keystore.password* ssl.keystore.type ssl.ocsp.enable ssl.protocol ssl.truststore.location ssl.truststore.password*
     ssl.truststore.type"""),
    ("only plaintext listeners are supported; any other listener is refused", "ssl.",
     """allow.dn.changes allow.san.changes cipher.suites client.auth enabled.protocols endpoint.identification.algorithm
     engine.factory.class key.password* keymanager.algorithm keystore.certificate.chain* keystore.key* keystore.location
     keystore.password* keystore.type principal.mapping.rules protocol provider secure.random.implementation trustmanager.algorithm
     truststore.certificates* truststore.location truststore.password* truststore.type"""),
    ("clients are not authenticated yet; a listener with authentication is refused", "sasl.",
     """client.callback.handler.class enabled.mechanisms jaas.config* kerberos.kinit.cmd kerberos.min.time.before.relogin
     kerberos.principal.to.local.rules kerberos.service.name kerberos.ticket.renew.jitter kerberos.ticket.renew.window.factor
     login.callback.handler.class login.class login.connect.timeout.ms login.read.timeout.ms login.refresh.buffer.seconds
     login.refresh.min.period.seconds login.refresh.window.factor login.refresh.window.jitter login.retry.backoff.max.ms
     login.retry.backoff.ms mechanism.inter.broker.protocol server.callback.handler.class server.max.receive.size"""),
    ("clients are not authenticated yet; a listener with authentication is refused", "sasl.oauthbearer.",
     """allow.unverified.audience allow.unverified.issuer assertion.algorithm assertion.claim.aud assertion.claim.exp.seconds
     assertion.claim.iss assertion.claim.jti.include assertion.claim.nbf.seconds assertion.claim.sub assertion.file
     assertion.private.key.file assertion.private.key.passphrase* assertion.template.file client.credentials.client.id
     client.credentials.client.secret* clock.skew.seconds expected.audience expected.issuer jwks.endpoint.refresh.ms
     jwks.endpoint.retry.backoff.max.ms jwks.endpoint.retry.backoff.ms jwks.endpoint.url jwt.retriever.class jwt.validator.class scope
     scope.claim.name sub.claim.name token.endpoint.url"""),
    ("clients are not authenticated yet", "",
     """connection.failed.authentication.delay.ms connections.max.reauth.ms security.providers delegation.token.expiry.check.interval.ms
     delegation.token.expiry.time.ms delegation.token.master.key* delegation.token.max.lifetime.ms delegation.token.secret.key*"""),
    ("no password can be set at run time, so none is stored", "password.encoder.",
     "cipher.algorithm iterations key.length keyfactory.algorithm old.secret* secret*"),
    ("there are no quotas yet", "",
     """quota.consumer.default quota.producer.default quota.window.num quota.window.size.seconds controller.quota.window.num
     controller.quota.window.size.seconds replication.quota.window.num replication.quota.window.size.seconds
     alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds"""),
    ("there is no JVM, hence neither JMX nor reporters in Java", "",
     """auto.include.jmx.reporter kafka.metrics.polling.interval.secs kafka.metrics.reporters metric.reporters metrics.num.samples
     metrics.recording.level metrics.sample.window.ms telemetry.max.bytes"""),
    ("records are stored as batches of version 2, and sent in the version that a client asks for", "",
     "log.message.downconversion.enable log.message.format.version"),
    ("a failed data directory takes only its own partitions offline", "", "log.dir.failure.timeout.ms cordoned.log.dirs"),
    ("maintenance begins at once", "", "log.initial.task.delay.ms"),
    ("replication is not throttled", "",
     "leader.replication.throttled.rate follower.replication.throttled.rate replica.alter.log.dirs.io.max.bytes.per.second"),
    ("batches are not decompressed", "", "max.decompressed.message.bytes"),
    ("only stable versions and features are served", "", "unstable.api.versions.enable unstable.feature.versions.enable"),
    ("a commit always waits for all in-sync replicas", "", "offsets.commit.required.acks"),
    ("the group coordinator is not Kafka's, and batches appends by itself", "group.coordinator.",
     "append.linger.ms cached.buffer.max.bytes new.enable"),
    ("the group coordinator assigns after a change, without a set interval", "group.consumer.",
     """assignment.interval.ms assignor.offload.enable max.assignment.interval.ms min.assignment.interval.ms
     regex.refresh.interval.ms"""),
    ("share groups are not served", "group.share.",
     """assignment.interval.ms assignor.offload.enable assignors delivery.count.limit dlq.manager.class.name enable heartbeat.interval.ms
     initialize.retry.interval.ms max.assignment.interval.ms max.delivery.count.limit max.groups max.heartbeat.interval.ms
     max.partition.max.record.locks max.record.lock.duration.ms max.session.timeout.ms max.share.sessions max.size
     min.assignment.interval.ms min.delivery.count.limit min.heartbeat.interval.ms min.partition.max.record.locks
     min.record.lock.duration.ms min.session.timeout.ms partition.max.record.locks persister.class.name record.lock.duration.ms
     session.timeout.ms"""),
    ("share groups are not served", "share.coordinator.",
     """append.linger.ms cached.buffer.max.bytes cold.partition.snapshot.interval.ms load.buffer.size
     snapshot.update.records.per.snapshot state.topic.compression.codec state.topic.min.isr state.topic.num.partitions
     state.topic.prune.interval.ms state.topic.replication.factor state.topic.segment.bytes write.timeout.ms"""),
    ("share groups are not served", "errors.deadletterqueue.", "auto.create.topics.enable topic.name.prefix"),
    ("streams groups are not served", "group.streams.",
     """acceptable.recovery.lag assignment.interval.ms assignor.offload.enable assignors heartbeat.interval.ms initial.rebalance.delay.ms
     max.assignment.interval.ms max.heartbeat.interval.ms max.session.timeout.ms max.size max.standby.replicas max.warmup.replicas
     min.assignment.interval.ms min.heartbeat.interval.ms min.session.timeout.ms min.task.offset.interval.ms num.standby.replicas
     num.warmup.replicas rack.aware.assignment.tags session.timeout.ms task.offset.interval.ms topology.description.plugin.class"""),
    ("there is no tiered storage", "remote.",
     """fetch.max.wait.ms list.offsets.request.timeout.ms log.index.file.cache.total.size.bytes log.index.file.cache.ttl.ms
     log.manager.copier.thread.pool.size log.manager.copy.max.bytes.per.second log.manager.copy.quota.window.num
     log.manager.copy.quota.window.size.seconds log.manager.expiration.thread.pool.size log.manager.fetch.max.bytes.per.second
     log.manager.fetch.quota.window.num log.manager.fetch.quota.window.size.seconds log.manager.follower.thread.pool.size
     log.manager.task.interval.ms log.manager.task.retry.backoff.max.ms log.manager.task.retry.backoff.ms log.manager.task.retry.jitter
     log.manager.thread.pool.size log.metadata.custom.metadata.max.bytes log.metadata.manager.class.name
     log.metadata.manager.class.path log.metadata.manager.impl.prefix log.metadata.manager.listener.name log.reader.max.pending.tasks
     log.reader.threads log.storage.manager.class.name log.storage.manager.class.path log.storage.manager.impl.prefix"""),
    ("there is no tiered storage", "log.", "local.retention.bytes local.retention.ms remote.copy.lag.bytes remote.copy.lag.ms"),
)

# Plugins' settings: every name with one of these prefixes.
PREFIXES: dict[str, str] = {
    "rsm.config.": "there is no tiered storage",
    "rlmm.config.": "there is no tiered storage",
    "listener.name.": "listeners are plaintext only and have no such settings of their own",
    "config.providers.": "there are no providers of secrets",
}

# Settings that Kafka, and above all its tools, change at run time. The last three are never in a file.
CLUSTER_WIDE = frozenset(
    """
    background.threads num.io.threads num.network.threads log.local.retention.bytes log.local.retention.ms metric.reporters
    leader.replication.throttled.rate follower.replication.throttled.rate replica.alter.log.dirs.io.max.bytes.per.second
    """.split()  # noqa: SIM905 - a line for each name would fill a page
)

_JAVA = "names a Java class, which cannot be loaded here"

# name -> (harmless values, the reason to refuse other values and what to do)
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "authorizer.class.name": (("",), "access control is not supported yet; to ignore the setting would open the broker to everyone; remove the setting"),
    "principal.builder.class": (
        ("", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"), f"{_JAVA}; remove the setting"),
    "create.topic.policy.class.name": (("",), f"{_JAVA}: topics would be created against that policy; remove the setting"),
    "alter.config.policy.class.name": (("",), f"{_JAVA}: settings would be changed against that policy; remove the setting"),
    "client.quota.callback.class": (("",), f"{_JAVA}: clients would have no quotas; remove the setting"),
    "config.providers": (("",), "there are no providers of secrets: ${...} would not be replaced; write the values, and remove the setting"),
    "remote.log.storage.system.enable": (("false",), "there is no tiered storage: records that were moved there could not be read; remove the setting"),
    "port": ((), "Kafka 3.0 removed it; write listeners=PLAINTEXT://:<port>"),
    "host.name": (("",), "Kafka 3.0 removed it; write listeners=PLAINTEXT://<host>:9092"),
    "advertised.host.name": (("",), "Kafka 3.0 removed it; write advertised.listeners=PLAINTEXT://<host>:9092"),
    "advertised.port": ((), "Kafka 3.0 removed it; write advertised.listeners=PLAINTEXT://<host>:<port>"),
}
