"""The tables of Apache Kafka's settings (0.8 to 4.4) without effect here, with reasons, and of settings that are refused.

A setting is written `name:type:range=default`. Without a type it is a string, `name*` is a secret. Type and default are those
of Kafka 4.1; after `-` comes a setting that DescribeConfigs of 4.1 does not show: an older, a newer, or an internal one, or one
of a plug-in. The range is given where Kafka changes the setting at run time. Names follow the prefix that they share.
"""
# fmt: off

# (the reason for no effect, the common prefix, the rest of each name with type and default)
GROUPS: tuple[tuple[str, str, str], ...] = (
    ("one loop serves all connections, and threads are started when they are needed", "",
     """num.network.threads:int:1..=3 num.io.threads:int:1..=8 background.threads:int:1..=10 num.replica.alter.log.dirs.threads:int
     group.coordinator.threads:int=4 -group.coordinator.background.threads share.coordinator.threads:int=1 queued.max.requests:int=500"""),
    ("an event completes a waiting request, and leaves nothing to purge", "",
     """fetch.purgatory.purge.interval.requests:int=1000 producer.purgatory.purge.interval.requests:int=1000
     delete.records.purgatory.purge.interval.requests:int=1 share.fetch.purgatory.purge.interval.requests:int=1000"""),
    ("there is no KRaft quorum; the embedded metadata log needs no settings", "",
     """process.roles:list initial.broker.registration.timeout.ms:int=60000 broker.heartbeat.interval.ms:int=2000 broker.session.timeout.ms:int=9000
     controller.listener.names early.start.listeners -controller.performance.sample.period.ms:long=60000
     -controller.performance.always.log.threshold.ms:long=2000 -server.max.startup.time.ms:long=9223372036854775807
     sasl.mechanism.controller.protocol=GSSAPI metadata.max.idle.interval.ms:int=500 metadata.max.retention.bytes:long=104857600
     metadata.max.retention.ms:long=604800000 -internal.metadata.log.segment.bytes:int -internal.metadata.max.batch.size.in.bytes:int=8388608
     -internal.metadata.max.fetch.size.in.bytes:int=8388608 -internal.metadata.delete.delay.millis:long=60000
     -eligible.leader.replicas.enable:boolean=false"""),
    ("there is no KRaft quorum; the embedded metadata log needs no settings", "metadata.log.",
     """dir max.record.bytes.between.snapshots:long=20971520 max.snapshot.interval.ms:long=3600000 segment.bytes:int=1073741824 -segment.min.bytes:int=8388608
     segment.ms:long=604800000"""),
    ("there is no KRaft quorum", "controller.quorum.",
     """voters:list= bootstrap.servers:list= election.timeout.ms:int=1000 fetch.timeout.ms:int=2000 election.backoff.max.ms:int=1000 append.linger.ms:int=25
     request.timeout.ms:int=2000 retry.backoff.ms:int=20 -auto.join.enable -fetch.snapshot.max.bytes -fetch.max.bytes"""),
    ("brokers tell each other which versions they have", "", "-inter.broker.protocol.version=3.9-IV0"),
    ("a broker has one order of the controller at a time, on the listener of the brokers", "",
     "-controller.message.queue.size:int -control.plane.listener.name"),
    ("a request between brokers has its time-out from before the connection on", "",
     "socket.connection.setup.timeout.ms:long=10000 socket.connection.setup.timeout.max.ms:long=30000"),
    ("consumers read from leaders, and nothing is tiered", "",
     "replica.selector.class -follower.fetch.last.tiered.offset.enable"),
    ("an unclean election follows at once where it is enabled", "", "-unclean.leader.election.interval.ms:long=300000"),
    ("a partition asks the coordinator of this broker again after 2, 4, 8 and then 20 ms, and gives up after 100 ms", "",
     "add.partitions.to.txn.retry.backoff.max.ms:int=100 add.partitions.to.txn.retry.backoff.ms:int=20"),
    ("the broker id is configured, or 0, and never generated", "",
     "-broker.id.generation.enable:boolean=true -reserved.broker.max.id:int=1000"),
    ("there is no migration to KRaft, and the connection to ZooKeeper is no class of Java", "zookeeper.",
     """-clientCnxnSocket -max.in.flight.requests:int=10 -metadata.migration.enable:boolean=false -metadata.migration.min.batch.size:int=200
     -sync.time.ms:int=2000 -ssl.protocol=TLSv1.2"""),
    ("a follower leaves the ISR by time alone, by replica.lag.time.max.ms", "", "-replica.lag.max.messages:long"),
    ("OpenSSL does TLS, not a provider of Java", "ssl.",
     "keymanager.algorithm=SunX509 provider secure.random.implementation trustmanager.algorithm=PKIX"),
    ("a login takes the present password, ticket or token; nothing is renewed in between", "sasl.",
     """client.callback.handler.class:class kerberos.kinit.cmd=/usr/bin/kinit kerberos.min.time.before.relogin:long=60000
     kerberos.ticket.renew.jitter:double=0.05 kerberos.ticket.renew.window.factor:double=0.8 login.callback.handler.class:class login.class:class
     login.connect.timeout.ms:int login.read.timeout.ms:int login.refresh.buffer.seconds:short=300 login.refresh.min.period.seconds:short=60
     login.refresh.window.factor:double=0.8 login.refresh.window.jitter:double=0.05 login.retry.backoff.max.ms:long=10000 login.retry.backoff.ms:long=100"""),
    ("a JAAS line is of a listener and a mechanism: write listener.name.<listener>.<mechanism>.sasl.jaas.config", "sasl.", "jaas.config*"),
    ("tokens are checked by the settings that docs/security.md names; assertions are not made", "sasl.oauthbearer.",
     """-allow.unverified.audience -allow.unverified.issuer assertion.algorithm=RS256 assertion.claim.aud assertion.claim.exp.seconds:int=300
     assertion.claim.iss assertion.claim.jti.include:boolean=false assertion.claim.nbf.seconds:int=60 assertion.claim.sub assertion.file
     assertion.private.key.file assertion.private.key.passphrase* assertion.template.file
     jwt.retriever.class:class=org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
     jwt.validator.class:class=org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator"""),
    ("clients are not authenticated yet", "",
     """security.providers"""),
    ("no password can be set at run time, so none is stored", "password.encoder.",
     "-cipher.algorithm=AES/CBC/PKCS5Padding -iterations:int=4096 -key.length:int=128 -keyfactory.algorithm -old.secret* -secret*"),
    ("set the default of clients by kafka-configs --entity-type clients --entity-default", "",
     "-quota.consumer.default:long=9223372036854775807 -quota.producer.default:long=9223372036854775807"),
    ("there is no JVM, hence neither JMX nor reporters in Java", "",
     """-metrics.jmx.include -metrics.jmx.exclude -metrics.jmx.whitelist -metrics.jmx.blacklist -kafka.csv.metrics.dir -kafka.csv.metrics.reporter.enabled:boolean=false
     -auto.include.jmx.reporter:boolean=true kafka.metrics.polling.interval.secs:int=10 kafka.metrics.reporters:list=
     metric.reporters:list=org.apache.kafka.common.metrics.JmxReporter metrics.num.samples:int=2 metrics.recording.level=INFO
     metrics.sample.window.ms:long=30000 telemetry.max.bytes:int=1048576"""),
    ("records are stored as batches of version 2, and sent in the version that a client asks for", "",
     "-log.message.downconversion.enable:boolean=true -log.message.format.version=3.0-IV1"),
    ("a failed data directory takes only its own partitions offline", "",
     "log.dir.failure.timeout.ms:long=30000 -cordoned.log.dirs"),
    ("maintenance begins at once", "",
     "-log.initial.task.delay.ms:long=30000"),
    ("replication is not throttled", "",
     """-leader.replication.throttled.rate:long:0.. -follower.replication.throttled.rate:long:0.. -replica.alter.log.dirs.io.max.bytes.per.second:long:0..
     replication.quota.window.num:int=11 replication.quota.window.size.seconds:int=1 alter.log.dirs.replication.quota.window.num:int=11
     alter.log.dirs.replication.quota.window.size.seconds:int=1"""),
    ("batches are not decompressed", "",
     "-max.decompressed.message.bytes"),
    ("only stable versions and features are served", "",
     "-unstable.api.versions.enable:boolean=false -unstable.feature.versions.enable:boolean=false"),
    ("a commit always waits for all in-sync replicas", "",
     "-offsets.commit.required.acks:short=-1"),
    ("the group coordinator is not Kafka's, and batches appends by itself", "group.coordinator.",
     "append.linger.ms:int=5 -cached.buffer.max.bytes -new.enable:boolean=false"),
    ("the group coordinator assigns after a change, without a set interval", "group.consumer.",
     """-assignment.interval.ms -assignor.offload.enable -max.assignment.interval.ms -min.assignment.interval.ms -regex.refresh.interval.ms:int=600000"""),
    ("share groups are not served", "group.share.",
     """-assignment.interval.ms -assignor.offload.enable assignors:list=simple delivery.count.limit:int=5 -dlq.manager.class.name -enable:boolean=false
     heartbeat.interval.ms:int=5000 -initialize.retry.interval.ms -max.assignment.interval.ms -max.delivery.count.limit -max.groups:short=10
     max.heartbeat.interval.ms:int=15000 -max.partition.max.record.locks max.record.lock.duration.ms:int=60000 max.session.timeout.ms:int=60000
     max.share.sessions:int=2000 max.size:int=200 -min.assignment.interval.ms -min.delivery.count.limit min.heartbeat.interval.ms:int=5000
     -min.partition.max.record.locks min.record.lock.duration.ms:int=15000 min.session.timeout.ms:int=45000 partition.max.record.locks:int=2000
     -persister.class.name=org.apache.kafka.server.share.persister.DefaultStatePersister record.lock.duration.ms:int=30000 session.timeout.ms:int=45000"""),
    ("share groups are not served", "share.coordinator.",
     """append.linger.ms:int=5 -cached.buffer.max.bytes -cold.partition.snapshot.interval.ms:int=300000 load.buffer.size:int=5242880
     snapshot.update.records.per.snapshot:int=500 state.topic.compression.codec:int=0 state.topic.min.isr:short=2 state.topic.num.partitions:int=50
     -state.topic.prune.interval.ms:int=300000 state.topic.replication.factor:short=3 state.topic.segment.bytes:int=104857600 write.timeout.ms:int=5000"""),
    ("share groups are not served", "errors.deadletterqueue.",
     "-auto.create.topics.enable -topic.name.prefix"),
    ("streams groups are not served", "group.streams.",
     """-acceptable.recovery.lag -assignment.interval.ms -assignor.offload.enable -assignors heartbeat.interval.ms:int=5000 -initial.rebalance.delay.ms
     -max.assignment.interval.ms max.heartbeat.interval.ms:int=15000 max.session.timeout.ms:int=60000 max.size:int=2147483647 max.standby.replicas:int=2
     -max.warmup.replicas -min.assignment.interval.ms min.heartbeat.interval.ms:int=5000 min.session.timeout.ms:int=45000 -min.task.offset.interval.ms
     num.standby.replicas:int=0 -num.warmup.replicas -rack.aware.assignment.tags session.timeout.ms:int=45000 -task.offset.interval.ms
     -topology.description.plugin.class"""),
    ("there is no tiered storage", "remote.",
     """fetch.max.wait.ms:int:1..=500 list.offsets.request.timeout.ms:long:1..=30000 log.index.file.cache.total.size.bytes:long:1..=1073741824
     -log.index.file.cache.ttl.ms log.manager.copier.thread.pool.size:int:-1..=10 log.manager.copy.max.bytes.per.second:long:1..=9223372036854775807
     log.manager.copy.quota.window.num:int=11 log.manager.copy.quota.window.size.seconds:int=1 log.manager.expiration.thread.pool.size:int:-1..=10
     log.manager.fetch.max.bytes.per.second:long:1..=9223372036854775807 log.manager.fetch.quota.window.num:int=11
     log.manager.fetch.quota.window.size.seconds:int=1 -log.manager.follower.thread.pool.size log.manager.task.interval.ms:long=30000
     -log.manager.task.retry.backoff.max.ms:long=30000 -log.manager.task.retry.backoff.ms:long=500 -log.manager.task.retry.jitter:double=0.2
     log.manager.thread.pool.size:int=2 log.metadata.custom.metadata.max.bytes:int=128
     log.metadata.manager.class.name=org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager log.metadata.manager.class.path
     log.metadata.manager.impl.prefix=rlmm.config. log.metadata.manager.listener.name log.reader.max.pending.tasks:int=100 log.reader.threads:int:1..=10
     log.storage.manager.class.name log.storage.manager.class.path log.storage.manager.impl.prefix=rsm.config."""),
    ("there is no tiered storage", "log.",
     "local.retention.bytes:long:-2..=-2 local.retention.ms:long:-2..=-2 -remote.copy.lag.bytes -remote.copy.lag.ms"),
)

# Plugins' settings: every name with one of these prefixes.
PREFIXES: dict[str, str] = {
    "rsm.config.": "there is no tiered storage",
    "rlmm.config.": "there is no tiered storage",
    "authorizer.zookeeper.": "the authorizer uses the connection to zookeeper.connect",
    "cruise.control.metrics.": "there is no JVM, hence neither JMX nor reporters in Java",
}

OF_LISTENERS_REASON = "listeners have no such settings of their own"

# Settings that Kafka, and above all its tools, change at run time. The rates are never in a file.
CLUSTER_WIDE = frozenset(
    """
    background.threads num.io.threads num.network.threads log.local.retention.bytes log.local.retention.ms metric.reporters
    log.message.downconversion.enable remote.fetch.max.wait.ms remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.reader.threads
    leader.replication.throttled.rate follower.replication.throttled.rate replica.alter.log.dirs.io.max.bytes.per.second
    """.split()  # noqa: SIM905 - a line for each name would fill a page
)

# Settings that Kafka changes for one broker, not for all, at run time.
PER_BROKER = frozenset(
    """
    principal.builder.class sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    ssl.engine.factory.class ssl.keymanager.algorithm ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm
    """.split()  # noqa: SIM905 - as above
)

# Settings of a listener that Kafka changes for all brokers too.
OF_LISTENERS_CLUSTER_WIDE = frozenset(("max.connections", "max.connection.creation.rate", "num.network.threads"))

_JAVA = "names a Java class, which cannot be loaded here"
_OF_KAFKA = "org.apache.kafka.common.security."
# Kafka's own handlers of logins, whose rules this broker has
_CALLBACK_HANDLERS = (
    f"{_OF_KAFKA}oauthbearer.OAuthBearerValidatorCallbackHandler",
    f"{_OF_KAFKA}oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    f"{_OF_KAFKA}plain.internals.PlainServerCallbackHandler",
    f"{_OF_KAFKA}scram.internals.ScramServerCallbackHandler",
)

# name with type and default -> (harmless values, the reason to refuse other values and what to do)
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "principal.builder.class:class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder": (
        ("", "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"), f"{_JAVA}; remove the setting"),
    "ssl.engine.factory.class:class": (("",), f"{_JAVA}: clients would be trusted against its rules; remove the setting"),
    "sasl.server.callback.handler.class:class": (
        ("", *_CALLBACK_HANDLERS), f"{_JAVA}: clients would log in against its rules; PLAIN, SCRAM and OAUTHBEARER need none; remove the setting"),
    "create.topic.policy.class.name:class": (("",), f"{_JAVA}: topics would be created against that policy; remove the setting"),
    "alter.config.policy.class.name:class": (("",), f"{_JAVA}: settings would be changed against that policy; remove the setting"),
    "client.quota.callback.class:class": (("",), f"{_JAVA}: clients would have no quotas; remove the setting"),
    "-zookeeper.ssl.crl.enable:boolean=false": (("false",), "revoked certificates of ZooKeeper are not looked up; remove the setting"),
    "-zookeeper.ssl.ocsp.enable:boolean=false": (("false",), "revoked certificates of ZooKeeper are not looked up; remove the setting"),
    "remote.log.storage.system.enable:boolean=false": (("false",), "there is no tiered storage: records that were moved there could not be read; remove the setting"),
    "-port:int=9092": ((), "Kafka 3.0 removed it; write listeners=PLAINTEXT://:<port>"),
    "-host.name=": (("",), "Kafka 3.0 removed it; write listeners=PLAINTEXT://<host>:9092"),
    "-advertised.host.name": (("",), "Kafka 3.0 removed it; write advertised.listeners=PLAINTEXT://<host>:9092"),
    "-advertised.port:int": ((), "Kafka 3.0 removed it; write advertised.listeners=PLAINTEXT://<host>:<port>"),
}
