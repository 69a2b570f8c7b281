"""The config keys that have an effect, each with its documentation.

Values of all other keys are checked, but change nothing; `safety` refuses settings that a node
must not ignore. A change that gives a key an effect adds it here. The text is shown by
DescribeConfigs and in docs/operate/configuration.md.
"""

from __future__ import annotations

from kraftlog.config.keys import BROKER, CLIENT_METRICS, GROUP, TOPIC, base_name

#: Keys of listeners with TLS; `listener.name.<listener>.<key>` is for one listener alone.
TLS = {
    "ssl.cipher.suites": (
        "Suites by their standard names or OpenSSL's; those of TLS 1.3 only all together."
    ),
    "ssl.client.auth": (
        "Whether clients show a certificate: none, requested or required; for SASL_SSL only if it "
        "is set for the listener."
    ),
    "ssl.enabled.protocols": "Enabled versions: TLSv1.2, TLSv1.3 or both.",
    "ssl.endpoint.identification.algorithm": (
        "https: compare the certificates of other nodes with their host names; empty: do not."
    ),
    "ssl.engine.factory.class": "Refused: Java classes cannot be used.",
    "ssl.key.password": "Password of a key in PEM.",
    "ssl.keystore.certificate.chain": "The certificates of ssl.keystore.key in PEM, its own first.",
    "ssl.keystore.key": "A private key in PEM, instead of a file.",
    "ssl.keystore.location": "File with the private key and its certificates.",
    "ssl.keystore.password": "Password of a file of PKCS#12.",
    "ssl.keystore.type": (
        "PEM or PKCS12, found by the contents if not set; JKS also stands for PKCS12, as in Java."
    ),
    "ssl.principal.mapping.rules": (
        "Rules that map the name in a client's certificate to its principal."
    ),
    "ssl.protocol": "Accepted: TLS, TLSv1.2, TLSv1.3; ssl.enabled.protocols decides.",
    "ssl.truststore.certificates": "Trusted authorities in PEM, instead of a file.",
    "ssl.truststore.location": (
        "File with the trusted authorities; by default those of the system."
    ),
    "ssl.truststore.password": "Password of a file of PKCS#12.",
    "ssl.truststore.type": "As ssl.keystore.type.",
}

_BROKER = {
    **TLS,
    "advertised.listeners": (
        "Addresses that clients and other brokers connect to; default: listeners."
    ),
    "authorizer.class.name": (
        "org.apache.kafka.metadata.authorizer.StandardAuthorizer: ACLs say who may do what, as "
        "docs/operate/authorization.md has it; empty: everyone may do everything."
    ),
    "auto.create.topics.enable": "Create a missing topic on first use.",
    "auto.leader.rebalance.enable": "Move leadership back to the preferred leaders.",
    "batch.validation": "Default for topics that do not set their own.",
    "broker.heartbeat.interval.ms": (
        "Interval between a broker's heartbeats to the active controller."
    ),
    "broker.id": "Former name of node.id.",
    "broker.rack": "Rack of this broker; replica placement spreads over racks.",
    "broker.session.timeout.ms": (
        "The controller fences a broker after this long without a heartbeat."
    ),
    "compression.gzip.level": "Default for topics that do not set their own.",
    "compression.lz4.level": "Default for topics that do not set their own.",
    "compression.type": "Default for topics that do not set their own.",
    "compression.zstd.level": "Default for topics that do not set their own.",
    "connections.max.idle.ms": (
        "A connection that neither sends nor receives anything for this long is closed; -1: never."
    ),
    "cordoned.log.dirs": "Data directories that take no new replicas; *: all.",
    "controller.listener.names": "Names of the controllers' listeners.",
    "controller.quorum.auto.join.enable": (
        "Let this controller become a voter by itself once it has caught up, unless it was removed."
    ),
    "controller.quorum.bootstrap.servers": (
        "Controllers to contact first, as host:port; voters come from the log."
    ),
    "controller.quorum.election.backoff.max.ms": (
        "Longest backoff before a new election after a failed one."
    ),
    "controller.quorum.election.timeout.ms": "Time to win an election before a new one starts.",
    "controller.quorum.fetch.max.bytes": "Largest response to a fetch of the metadata log.",
    "controller.quorum.fetch.snapshot.max.bytes": (
        "Largest piece of a metadata snapshot in one response."
    ),
    "controller.quorum.fetch.timeout.ms": (
        "Time without a successful fetch before a voter starts an election; at least 750, because "
        "a leader without new records responds to a fetch after 500."
    ),
    "controller.quorum.request.timeout.ms": "Time to wait for a response from another controller.",
    "controller.quorum.retry.backoff.ms": (
        "Backoff before a request to another controller is retried."
    ),
    "controller.quorum.voters": "Voters of a static quorum, as id@host:port; an id alone is "
    "enough for a voter that discovery finds.",
    "controlled.shutdown.enable": "Hand over leadership before a clean stop.",
    "default.replication.factor": "Replication factor of topics created without one.",
    "delegation.token.expiry.check.interval.ms": (
        "Interval at which the active controller removes expired delegation tokens."
    ),
    "delegation.token.expiry.time.ms": "Life of a delegation token that is not renewed.",
    "delegation.token.max.lifetime.ms": "Longest life of a delegation token, however renewed.",
    "delegation.token.secret.key": (
        "Key of all delegation tokens, the same on all brokers and controllers; without one there "
        "are no tokens."
    ),
    "delete.topic.enable": "Allow topics to be deleted.",
    "fetch.max.bytes": "Largest amount of records in one fetch response.",
    "follower.replication.throttled.rate": (
        "Bytes per second that this broker's throttled followers fetch."
    ),
    "group.consumer.assignment.interval.ms": (
        "Shortest time between two target assignments of a consumer group."
    ),
    "group.consumer.assignors": (
        "Assignors that members may ask for; the first is that of groups whose members ask for "
        "none."
    ),
    "group.consumer.heartbeat.interval.ms": (
        "Interval between the heartbeats of a member of a consumer group."
    ),
    **{
        f"group.consumer.{limit}.{name}": f"{adjective} accepted group.consumer.{name}."
        for name in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
        for limit, adjective in (("max", "Largest"), ("min", "Smallest"))
    },
    "group.consumer.max.size": "Largest number of members in a consumer group.",
    "group.consumer.migration.policy": (
        "Which groups may change their protocol while they have members: upgrade, from classic to "
        "consumer; downgrade, back; bidirectional; disabled."
    ),
    "group.consumer.regex.refresh.interval.ms": (
        "Longest time for which resolved regular expressions of a consumer group are used."
    ),
    "group.consumer.session.timeout.ms": (
        "Time without a heartbeat after which a member of a consumer group is removed."
    ),
    "group.coordinator.rebalance.protocols": (
        "Group protocols that this broker serves; consumer needs group.version=1 too."
    ),
    "group.initial.rebalance.delay.ms": "Wait for further members of a new group.",
    "group.max.session.timeout.ms": "Longest session timeout a group member may request.",
    "group.max.size": "Largest number of members in a group.",
    "group.min.session.timeout.ms": "Shortest session timeout a group member may request.",
    "inter.broker.listener.name": (
        "Listener for traffic between brokers; max.connections does not limit it if there is "
        "another listener for clients."
    ),
    "leader.replication.throttled.rate": (
        "Bytes per second that this broker sends to throttled followers."
    ),
    "leader.imbalance.check.interval.seconds": "Interval between preferred leader elections.",
    "listener.security.protocol.map": (
        "Security protocol of each listener: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."
    ),
    "listeners": "Addresses to listen on, as NAME://host:port.",
    "log.cleaner.backoff.ms": "Pause between checks for logs to compact.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys of a compaction, 200 bytes per key.",
    "log.cleaner.delete.retention.ms": "Default for topics that do not set their own.",
    "log.cleaner.enable": "Compact logs whose cleanup.policy includes compact.",
    "log.cleaner.max.compaction.lag.ms": "Default for topics that do not set their own.",
    "log.cleaner.min.cleanable.ratio": "Default for topics that do not set their own.",
    "log.cleaner.min.compaction.lag.ms": "Default for topics that do not set their own.",
    "log.cleaner.threads": "0 turns compaction off; otherwise one log is compacted at a time.",
    "log.cleanup.policy": "Default for topics that do not set their own.",
    "log.dir": "Data directory, if log.dirs is not set.",
    "log.dirs": "Data directories; new replicas go to the one with the fewest.",
    "log.flush.interval.messages": "Default for topics that do not set their own.",
    "log.index.interval.bytes": "Default for topics that do not set their own.",
    "log.index.size.max.bytes": "Default for topics that do not set their own.",
    "log.initial.task.delay.ms": "Delay after start before retention and checkpoints first run.",
    "log.message.timestamp.after.max.ms": "Default for topics that do not set their own.",
    "log.message.timestamp.before.max.ms": "Default for topics that do not set their own.",
    "log.message.timestamp.type": "Default for topics that do not set their own.",
    "log.retention.bytes": "Default for topics that do not set their own.",
    "log.retention.check.interval.ms": (
        "Interval between checks for records to delete by retention."
    ),
    "log.retention.hours": "Default for topics that do not set their own.",
    "log.retention.minutes": "Default for topics that do not set their own.",
    "log.retention.ms": "Default for topics that do not set their own.",
    "log.roll.hours": "Default for topics that do not set their own.",
    "log.roll.ms": "Default for topics that do not set their own.",
    "log.segment.bytes": "Default for topics that do not set their own.",
    "max.incremental.fetch.session.cache.slots": "Largest number of fetch sessions.",
    "max.connection.creation.rate": (
        "Most new connections per second to the brokers' listeners, and to each of them; others "
        "wait."
    ),
    "max.connections": "Most connections to the brokers' listeners; others wait until one ends.",
    "max.connections.per.ip": "Most connections from one address; others are closed.",
    "max.connections.per.ip.overrides": (
        "Other limits for some addresses, as address:number; names are not looked up."
    ),
    "message.max.bytes": "Default for topics that do not set their own.",
    "metadata.log.dir": "Directory of the metadata log; default: the first of log.dirs.",
    "metadata.log.max.record.bytes.between.snapshots": (
        "Bytes of records since the latest snapshot after which the next is taken. If this key is "
        "not set, also after 10,000 records, or as many as the latest snapshot has if that is more."
    ),
    "metadata.log.max.snapshot.interval.ms": "Longest time between snapshots of the metadata log.",
    "min.insync.replicas": "Default for topics that do not set their own. With eligible leader "
    "replicas the value of the active controller's file is stored for the cluster, and brokers' "
    "files no longer count: a broker logs it if its file says otherwise.",
    "node.id": "Id of this node, unique in the cluster.",
    "num.partitions": "Number of partitions of topics created without one.",
    "num.replica.fetchers": "Connections on which a follower fetches from one leader.",
    "offset.metadata.max.bytes": "Largest metadata string of a committed offset.",
    "offsets.commit.timeout.ms": "Time for an offset commit to be written before it fails.",
    "offsets.retention.check.interval.ms": "Interval between checks for expired offsets.",
    "offsets.retention.minutes": "Time that the offsets of a group without members are kept.",
    "offsets.topic.num.partitions": "Number of partitions of __consumer_offsets.",
    "offsets.topic.replication.factor": "Replication factor of __consumer_offsets; the default "
    "is lowered to the number of brokers.",
    "offsets.topic.segment.bytes": "Segment size of __consumer_offsets.",
    "connection.failed.authentication.delay.ms": "Time after which a refused login is answered.",
    "connections.max.reauth.ms": ("Time after which a client of SASL must log in again; 0: never."),
    "process.roles": "Roles of this node: broker, controller or both.",
    "producer.id.expiration.check.interval.ms": "Interval between checks for expired producer ids.",
    "producer.id.expiration.ms": "Time that a partition remembers an inactive producer id.",
    "replica.fetch.backoff.ms": "Longest pause before a follower retries a partition or leader.",
    "replica.fetch.max.bytes": "Bytes of one partition in a follower's fetch; if not given, up to "
    "4 MiB where few partitions share a response.",
    "replica.fetch.min.bytes": "Bytes for which a follower's fetch waits.",
    "replica.fetch.response.max.bytes": "Bytes of one response to a follower's fetch.",
    "replica.fetch.wait.max.ms": "Longest wait of a follower's fetch for new records.",
    "replica.high.watermark.checkpoint.interval.ms": "Interval between writes of high watermarks.",
    "replica.lag.max.bytes": (
        "Bytes by which a follower may lag before it leaves the ISR; -1: any. A key of kraftlog."
    ),
    "replica.lag.time.max.ms": "Time after which a follower that has not caught up leaves the ISR.",
    "replica.selector.class": (
        "RackAwareReplicaSelector: a consumer reads from an in-sync follower in its own rack."
    ),
    "alter.log.dirs.replication.quota.window.num": (
        "Windows over which the rate of moves between log directories is measured."
    ),
    "alter.log.dirs.replication.quota.window.size.seconds": (
        "Length of a window over which the rate of moves between log directories is measured."
    ),
    "replica.alter.log.dirs.io.max.bytes.per.second": (
        "Bytes per second that replicas are copied at between log directories."
    ),
    "controller.quota.window.num": (
        "Windows whose changes of partitions a client may make at once under its quota."
    ),
    "controller.quota.window.size.seconds": (
        "Length of a window of the quotas for changes of partitions."
    ),
    "quota.window.num": "Windows over which the rate of a client is measured for its quota.",
    "quota.window.size.seconds": (
        "Length of a window over which the rate of a client is measured for its quota."
    ),
    "replication.quota.window.num": "Windows over which the rate of a throttle is measured.",
    "replication.quota.window.size.seconds": (
        "Length of a window over which the rate of a throttle is measured."
    ),
    "replica.socket.timeout.ms": "Time after which a follower's fetch counts as failed.",
    "queued.max.request.bytes": (
        "Memory for requests and unsent responses of all connections; beyond it, connections that "
        "use more than 64 KiB are not read. -1: 128 MiB."
    ),
    "sasl.enabled.mechanisms": "Mechanisms by which clients log in: PLAIN, SCRAM-SHA-256 and "
    "-512, OAUTHBEARER.",
    "sasl.jaas.config": (
        "Only as listener.name.<listener>.<mechanism>.sasl.jaas.config: PLAIN's users "
        "(user_alice=…), and the username and password by which this node logs in at others."
    ),
    "sasl.mechanism.controller.protocol": "Mechanism by which nodes log in at controllers: PLAIN.",
    "sasl.mechanism.inter.broker.protocol": "Mechanism by which brokers log in at each other.",
    "sasl.oauthbearer.allow.unverified.audience": (
        "Whether tokens for anyone are accepted, instead of those for the expected audience."
    ),
    "sasl.oauthbearer.allow.unverified.issuer": (
        "Whether tokens of any issuer are accepted, if a key of the JWKS has signed them."
    ),
    "sasl.oauthbearer.clock.skew.seconds": (
        "Time by which the clock of the issuer of tokens may differ from this node's."
    ),
    "sasl.oauthbearer.expected.audience": "Audiences; a token must be for one of them.",
    "sasl.oauthbearer.expected.issuer": "Issuer that a token must name.",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "Interval between requests for the keys.",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": (
        "Longest time until a failed request for the keys is repeated."
    ),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": (
        "Time until a failed request for the keys is repeated the first time."
    ),
    "sasl.oauthbearer.jwks.endpoint.url": (
        "Where the public keys that sign tokens are (a JWKS): file:///PATH or https://…"
    ),
    "sasl.oauthbearer.jwt.validator.class": "DefaultJwtValidator or BrokerJwtValidator of Kafka.",
    "sasl.oauthbearer.scope.claim.name": "Claim that has the scopes of a token.",
    "sasl.oauthbearer.sub.claim.name": "Claim that has the user's name.",
    "sasl.server.callback.handler.class": (
        "Only as listener.name.<listener>.oauthbearer.sasl.server.callback.handler.class: "
        "Kafka's OAuthBearerValidatorCallbackHandler, which OAUTHBEARER needs."
    ),
    "sasl.server.max.receive.size": (
        "Largest request of a client that has not logged in; more than 65536 counts as that."
    ),
    "security.inter.broker.protocol": (
        "Security protocol of the listener between brokers; also names that listener."
    ),
    "socket.request.max.bytes": "Largest request.",
    "unclean.leader.election.enable": "Default for topics that do not set their own.",
}
#: The broker keys that count for one listener, or one mechanism of it, too:
#: `listener.name.<listener>.[<mechanism>.]<key>`.
OF_LISTENERS = frozenset(
    (
        *TLS,
        "connections.max.reauth.ms",
        "max.connection.creation.rate",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.oauthbearer.allow.unverified.audience",
        "sasl.oauthbearer.allow.unverified.issuer",
        "sasl.oauthbearer.clock.skew.seconds",
        "sasl.oauthbearer.expected.audience",
        "sasl.oauthbearer.expected.issuer",
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope.claim.name",
        "sasl.oauthbearer.sub.claim.name",
        "sasl.server.callback.handler.class",
        "sasl.server.max.receive.size",
    )
)
#: kraftlog's own broker keys, those of `broker_keys.OWN_TABLE`.
OWN = {
    "kraftlog.fence.on.connection.refused": (
        "Whether the controller fences a broker whose connection ends and that refuses another, "
        "without waiting for `broker.session.timeout.ms`."
    ),
    "kraftlog.http.port": (
        "Port of metrics and health, on the host of the first listener; 0: any free port, -1: off."
    ),
    "kraftlog.quorum.max.failed.elections": (
        "A controller that has lost this many elections in a row stops; with 0 it goes on trying."
    ),
    "kraftlog.quorum.retry.backoff.max.ms": (
        "Longest backoff before a request to another controller is retried; a broker waits 100 ms "
        "at most."
    ),
    "kraftlog.reserve.bytes": (
        "Disk space kept in reserve for the metadata log, so that a full disk does not stop the "
        "node; 0: none."
    ),
    "kraftlog.stray.delete.delay.ms": (
        "Delete a stray partition when a running broker has had no replica of it for this long; "
        "-1: never, as in Kafka."
    ),
    "kraftlog.sync.timeout.ms": (
        "When a sync that requests wait for (flush.messages) takes longer, other replicas lead "
        "the partitions of that log directory; -1: half of replica.lag.time.max.ms."
    ),
}
_TOPIC = {
    "batch.validation": (
        "header: check a produced batch's header and CRC, and that its size and codec fit its "
        "records; records: decompress it and check every record, as Kafka does. A key of kraftlog."
    ),
    "cleanup.policy": (
        "delete: delete records by retention; compact: keep the latest record per key."
    ),
    "compression.gzip.level": "gzip level, if compression.type is gzip.",
    "compression.lz4.level": "lz4 level, if compression.type is lz4.",
    "compression.type": "Compression of stored batches; producer keeps the producer's.",
    "compression.zstd.level": "zstd level, if compression.type is zstd.",
    "delete.retention.ms": "Time that tombstones are kept in a compacted topic.",
    "flush.messages": "Number of unflushed records that forces a flush before a produce response.",
    "follower.replication.throttled.replicas": (
        "Followers under the throttle, as partition:broker,… or *."
    ),
    "leader.replication.throttled.replicas": (
        "Leaders under the throttle, as partition:broker,… or *."
    ),
    "index.interval.bytes": "Bytes of records between two index entries.",
    "max.compaction.lag.ms": "Longest time a record may stay uncompacted.",
    "max.message.bytes": "Largest record batch.",
    "message.timestamp.after.max.ms": "Furthest a record's timestamp may lie in the future.",
    "message.timestamp.before.max.ms": "Furthest a record's timestamp may lie in the past.",
    "message.timestamp.type": (
        "CreateTime: timestamps of the producer; LogAppendTime: of the broker."
    ),
    "min.cleanable.dirty.ratio": "Share of uncompacted bytes at which a log is compacted.",
    "min.compaction.lag.ms": "Shortest time a record stays uncompacted.",
    "min.insync.replicas": "Smallest ISR for which acks=all succeeds.",
    "retention.bytes": (
        "Size of a partition above which its oldest segments are deleted; -1: unlimited."
    ),
    "retention.ms": "Age at which segments are deleted; -1: unlimited.",
    "segment.bytes": "Size at which a segment is rolled.",
    "segment.index.bytes": "Largest size of a segment's index files.",
    "segment.ms": "Age at which a segment is rolled.",
    "unclean.leader.election.enable": (
        "Allow a replica outside the ISR to become leader, which can lose records."
    ),
}
_GROUP = {
    "consumer.assignment.interval.ms": (
        "Shortest time between two target assignments of this consumer group."
    ),
    "consumer.heartbeat.interval.ms": "Interval between the heartbeats of a member.",
    "consumer.session.timeout.ms": (
        "Time without a heartbeat after which a member is removed; for members that join or send a "
        "heartbeat from then on."
    ),
}
_CLIENT_METRICS: dict[str, str] = {}

#: Resource type -> key -> documentation.
EFFECTIVE = {TOPIC: _TOPIC, BROKER: _BROKER, GROUP: _GROUP, CLIENT_METRICS: _CLIENT_METRICS}
#: The same with kraftlog's own broker keys.
DOCUMENTED = {**EFFECTIVE, BROKER: _BROKER | OWN}

_NO_EFFECT = "Accepted for compatibility with Kafka; has no effect."


def documentation(resource_type: int, name: str) -> str:
    """The documentation of a key, or a sentence that it has no effect."""
    return DOCUMENTED[resource_type].get(name_with_effect(name), _NO_EFFECT)


def name_with_effect(name: str) -> str:
    """The plain key of a listener override that has an effect, or the name itself."""
    base = base_name(name)
    return base if base in OF_LISTENERS else name
