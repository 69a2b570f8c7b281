"""The broker keys of Kafka 4.4: name, type, default, valid values, update mode.

`keys` explains the columns. A line that ends in a backslash continues in the next one. One default
differs from Kafka's: `group.initial.rebalance.delay.ms` is 3000 there. `batch.validation`,
`replica.lag.max.bytes` and the keys of `OWN_TABLE` are kraftlog's own.
"""

from __future__ import annotations

#: kraftlog's own keys; internal, so that DescribeConfigs reports only those that are set.
OWN_TABLE = """\
kraftlog.fence.on.connection.refused                        boolean true - internal
kraftlog.http.port                                          int -1 0..65535|-1 internal
kraftlog.quorum.max.failed.elections                        int 0 0.. internal
kraftlog.quorum.retry.backoff.max.ms                        int 1000 0.. internal
kraftlog.reserve.bytes                                      long 16777216 0.. internal
kraftlog.stray.delete.delay.ms                              long 604800000 0..|-1 internal
kraftlog.sync.timeout.ms                                    long -1 1..|-1 internal
"""

TABLE = """\
add.partitions.to.txn.retry.backoff.max.ms                  int 100 0..
add.partitions.to.txn.retry.backoff.ms                      int 20 1..
advertised.listeners                                        list null +
alter.config.policy.class.name                              class null
alter.log.dirs.replication.quota.window.num                 int 11 1..
alter.log.dirs.replication.quota.window.size.seconds        int 1 1..
authorizer.class.name                                       string ''
auto.create.topics.enable                                   boolean true
auto.leader.rebalance.enable                                boolean true
background.threads                                          int 10 1.. cluster
batch.validation                                            string \
    header header|records cluster
broker.heartbeat.interval.ms                                int 2000
broker.id                                                   int -1
broker.rack                                                 string null
broker.session.timeout.ms                                   int 9000
client.quota.callback.class                                 class null
compression.gzip.level                                      int -1 1..9|-1 cluster
compression.lz4.level                                       int 9 1..17 cluster
compression.type                                            string \
    producer uncompressed|zstd|lz4|snappy|gzip|producer cluster
compression.zstd.level                                      int 3 -131072..22 cluster
config.providers                                            list '' - cluster
connection.failed.authentication.delay.ms                   int 100 0..
connections.max.idle.ms                                     long 600000
connections.max.reauth.ms                                   long 0
controlled.shutdown.enable                                  boolean true
controller.listener.names                                   list required +
controller.performance.always.log.threshold.ms              long 2000 0.. internal
controller.performance.sample.period.ms                     long 60000 100.. internal
controller.quorum.append.linger.ms                          int 25 0..
controller.quorum.auto.join.enable                          boolean false
controller.quorum.bootstrap.servers                         list '' <servers>
controller.quorum.election.backoff.max.ms                   int 1000 0..
controller.quorum.election.timeout.ms                       int 1000 0..
controller.quorum.fetch.max.bytes                           int 1048576 1..
controller.quorum.fetch.snapshot.max.bytes                  int 1048576 1..
controller.quorum.fetch.timeout.ms                          int 2000 0..
controller.quorum.request.timeout.ms                        int 2000 0..
controller.quorum.retry.backoff.ms                          int 20 0..
controller.quorum.voters                                    list '' <voters>
controller.quota.window.num                                 int 11 1..
controller.quota.window.size.seconds                        int 1 1..
controller.socket.timeout.ms                                int 30000
cordoned.log.dirs                                           list '' - broker
create.topic.policy.class.name                              class null
default.replication.factor                                  int 1
delegation.token.expiry.check.interval.ms                   long 3600000 1..
delegation.token.expiry.time.ms                             long 86400000 1..
delegation.token.max.lifetime.ms                            long 604800000 1..
delegation.token.secret.key                                 password null
delete.records.purgatory.purge.interval.requests            int 1
delete.topic.enable                                         boolean true
early.start.listeners                                       list null
errors.deadletterqueue.auto.create.topics.enable            boolean false - cluster
errors.deadletterqueue.topic.name.prefix                    string dlq. - cluster
fetch.max.bytes                                             int 57671680 1024..
fetch.purgatory.purge.interval.requests                     int 1000
follower.fetch.last.tiered.offset.enable                    boolean false - cluster
follower.replication.throttled.rate                         long 9223372036854775807 0.. dynamic
group.consumer.assignment.interval.ms                       int 1000 0.. cluster
group.consumer.assignor.offload.enable                      boolean true - cluster internal
group.consumer.assignors                                    list uniform,range +
group.consumer.heartbeat.interval.ms                        int 5000 1..
group.consumer.max.assignment.interval.ms                   int 15000 0..
group.consumer.max.heartbeat.interval.ms                    int 15000 1..
group.consumer.max.session.timeout.ms                       int 60000 1..
group.consumer.max.size                                     int 2147483647 1..
group.consumer.migration.policy                             string \
    bidirectional ~disabled|downgrade|upgrade|bidirectional
group.consumer.min.assignment.interval.ms                   int 0 0..
group.consumer.min.heartbeat.interval.ms                    int 5000 1..
group.consumer.min.session.timeout.ms                       int 45000 1..
group.consumer.regex.refresh.interval.ms                    int 600000 10000.. internal
group.consumer.session.timeout.ms                           int 45000 1..
group.coordinator.append.linger.ms                          int -1 -1..
group.coordinator.background.threads                        int 2 1..
group.coordinator.cached.buffer.max.bytes                   int 1048588 524288.. cluster
group.coordinator.rebalance.protocols                       list \
    classic,consumer,streams +consumer|classic|share|streams
group.coordinator.threads                                   int 4 1..
group.initial.rebalance.delay.ms                            int 0
group.max.session.timeout.ms                                int 1800000
group.max.size                                              int 2147483647 1..
group.min.session.timeout.ms                                int 6000
group.share.assignment.interval.ms                          int 1000 0.. cluster
group.share.assignor.offload.enable                         boolean true - cluster internal
group.share.assignors                                       list simple +
group.share.delivery.count.limit                            int 5 2..10
group.share.dlq.manager.class.name                          string \
    org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager - internal
group.share.heartbeat.interval.ms                           int 5000 1..
group.share.initialize.retry.interval.ms                    int 30000 1.. internal
group.share.max.assignment.interval.ms                      int 15000 0..
group.share.max.delivery.count.limit                        int 10 5..25
group.share.max.heartbeat.interval.ms                       int 15000 1..
group.share.max.partition.max.record.locks                  int 4000 2000..10000
group.share.max.record.lock.duration.ms                     int 60000 30000..3600000
group.share.max.session.timeout.ms                          int 60000 1..
group.share.max.share.sessions                              int 2000 1..
group.share.max.size                                        int 200 1..1000
group.share.min.assignment.interval.ms                      int 0 0..
group.share.min.delivery.count.limit                        int 2 2..5
group.share.min.heartbeat.interval.ms                       int 5000 1..
group.share.min.partition.max.record.locks                  int 100 100..2000
group.share.min.record.lock.duration.ms                     int 15000 1000..30000
group.share.min.session.timeout.ms                          int 45000 1..
group.share.partition.max.record.locks                      int 2000 100..10000
group.share.persister.class.name                            string \
    org.apache.kafka.server.share.persister.DefaultStatePersister - internal
group.share.record.lock.duration.ms                         int 30000 1000..3600000
group.share.session.timeout.ms                              int 45000 1..
group.streams.acceptable.recovery.lag                       long 10000 0.. internal
group.streams.assignment.interval.ms                        int 1000 0.. cluster
group.streams.assignor.offload.enable                       boolean true - cluster internal
group.streams.assignors                                     list sticky +
group.streams.heartbeat.interval.ms                         int 5000 1..
group.streams.initial.rebalance.delay.ms                    int 3000 0..
group.streams.max.assignment.interval.ms                    int 15000 0..
group.streams.max.heartbeat.interval.ms                     int 15000 1..
group.streams.max.session.timeout.ms                        int 60000 1..
group.streams.max.size                                      int 2147483647 1..
group.streams.max.standby.replicas                          int 2 0..
group.streams.max.warmup.replicas                           int 20 0.. internal
group.streams.min.assignment.interval.ms                    int 0 0..
group.streams.min.heartbeat.interval.ms                     int 5000 1..
group.streams.min.session.timeout.ms                        int 45000 1..
group.streams.min.task.offset.interval.ms                   int 15000 1.. internal
group.streams.num.standby.replicas                          int 0 0..
group.streams.num.warmup.replicas                           int 2 0.. internal
group.streams.rack.aware.assignment.tags                    list ''
group.streams.session.timeout.ms                            int 45000 1..
group.streams.task.offset.interval.ms                       int 60000 1.. internal
group.streams.topology.description.plugin.class             class null
initial.broker.registration.timeout.ms                      int 60000
inter.broker.listener.name                                  string null
internal.metadata.delete.delay.millis                       long 60000 - internal
internal.metadata.log.segment.bytes                         int null - internal
internal.metadata.max.batch.size.in.bytes                   int 8388608 - internal
kafka.metrics.polling.interval.secs                         int 10 1..
kafka.metrics.reporters                                     list ''
leader.imbalance.check.interval.seconds                     long 300 1..
leader.replication.throttled.rate                           long 9223372036854775807 0.. dynamic
listener.security.protocol.map                              string \
    SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT - broker
listeners                                                   list PLAINTEXT://:9092 + broker
log.cleaner.backoff.ms                                      long 15000 0.. cluster
log.cleaner.dedupe.buffer.size                              long 134217728 - cluster
log.cleaner.delete.retention.ms                             long 86400000 0.. cluster
log.cleaner.enable                                          boolean true
log.cleaner.io.buffer.load.factor                           double 0.9 - cluster
log.cleaner.io.buffer.size                                  int 524288 0.. cluster
log.cleaner.io.max.bytes.per.second                         double 1.7976931348623157E308 - cluster
log.cleaner.max.compaction.lag.ms                           long 9223372036854775807 1.. cluster
log.cleaner.min.cleanable.ratio                             double 0.5 0..1 cluster
log.cleaner.min.compaction.lag.ms                           long 0 0.. cluster
log.cleaner.threads                                         int 1 0.. cluster
log.cleanup.policy                                          list delete compact|delete cluster
log.dir                                                     list /tmp/kafka-logs +
log.dir.failure.timeout.ms                                  long 30000 1..
log.dirs                                                    list null +
log.flush.interval.messages                                 long 9223372036854775807 1.. cluster
log.flush.interval.ms                                       long null - cluster
log.flush.offset.checkpoint.interval.ms                     int 60000 0..
log.flush.scheduler.interval.ms                             long 9223372036854775807
log.flush.start.offset.checkpoint.interval.ms               int 60000 0..
log.index.interval.bytes                                    int 4096 0.. cluster
log.index.size.max.bytes                                    int 10485760 4.. cluster
log.initial.task.delay.ms                                   long 30000 0.. internal
log.local.retention.bytes                                   long -2 -2.. cluster
log.local.retention.ms                                      long -2 -2.. cluster
log.message.timestamp.after.max.ms                          long 3600000 0.. cluster
log.message.timestamp.before.max.ms                         long 9223372036854775807 0.. cluster
log.message.timestamp.type                                  string \
    CreateTime CreateTime|LogAppendTime cluster
log.preallocate                                             boolean false - cluster
log.remote.copy.lag.bytes                                   long -1 -1.. cluster
log.remote.copy.lag.ms                                      long 0 -1.. cluster
log.retention.bytes                                         long -1 - cluster
log.retention.check.interval.ms                             long 300000 1..
log.retention.hours                                         int 168
log.retention.minutes                                       int null
log.retention.ms                                            long null - cluster
log.roll.hours                                              int 168 1..
log.roll.jitter.hours                                       int 0 0..
log.roll.jitter.ms                                          long null - cluster
log.roll.ms                                                 long null - cluster
log.segment.bytes                                           int 1073741824 1048576.. cluster
log.segment.delete.delay.ms                                 long 60000 0.. cluster
max.connection.creation.rate                                int 2147483647 0.. cluster
max.connections                                             int 2147483647 0.. cluster
max.connections.per.ip                                      int 2147483647 0.. cluster
max.connections.per.ip.overrides                            string '' - cluster
max.decompressed.message.bytes                              int 2147483639 1..2147483639 cluster
max.incremental.fetch.session.cache.slots                   int 1000 0..
max.request.partition.size.limit                            int 2000 1..
message.max.bytes                                           int 1048588 0.. cluster
metadata.log.dir                                            string null
metadata.log.max.record.bytes.between.snapshots             long 20971520 1..
metadata.log.max.snapshot.interval.ms                       long 3600000 0..
metadata.log.segment.bytes                                  int 1073741824 8388608..
metadata.log.segment.ms                                     long 604800000
metadata.max.idle.interval.ms                               int 500 0..
metadata.max.retention.bytes                                long 104857600
metadata.max.retention.ms                                   long 604800000
metric.reporters                                            list \
    org.apache.kafka.common.metrics.JmxReporter - cluster
metrics.num.samples                                         int 2 1..
metrics.recording.level                                     string INFO
metrics.sample.window.ms                                    long 30000 1..
min.insync.replicas                                         int 1 1.. cluster
node.id                                                     int required 0..
num.io.threads                                              int 8 1.. cluster
num.network.threads                                         int 3 1.. cluster
num.partitions                                              int 1 1..
num.recovery.threads.per.data.dir                           int 2 1.. cluster
num.replica.alter.log.dirs.threads                          int null
num.replica.fetchers                                        int 1 1.. cluster
offset.metadata.max.bytes                                   int 4096
offsets.commit.timeout.ms                                   int 5000 1..
offsets.load.buffer.size                                    int 5242880 1..
offsets.retention.check.interval.ms                         long 600000 1..
offsets.retention.minutes                                   int 10080 1..
offsets.topic.compression.codec                             int 0
offsets.topic.num.partitions                                int 50 1..
offsets.topic.replication.factor                            short 3 1..
offsets.topic.segment.bytes                                 int 104857600 1..
principal.builder.class                                     class \
    org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - broker
process.roles                                               list required +broker|controller
producer.id.expiration.check.interval.ms                    int 600000 1.. internal
producer.id.expiration.ms                                   int 86400000 1.. cluster
producer.purgatory.purge.interval.requests                  int 1000
queued.max.request.bytes                                    long -1
queued.max.requests                                         int 500 1..
quota.window.num                                            int 11 1..
quota.window.size.seconds                                   int 1 1..
remote.fetch.max.wait.ms                                    int 500 1.. cluster
remote.list.offsets.request.timeout.ms                      long 30000 1.. cluster
remote.log.index.file.cache.total.size.bytes                long 1073741824 1.. cluster
remote.log.index.file.cache.ttl.ms                          long 900000 -1.. internal
remote.log.manager.copier.thread.pool.size                  int 10 1.. cluster
remote.log.manager.copy.max.bytes.per.second                long 9223372036854775807 1.. cluster
remote.log.manager.copy.quota.window.num                    int 11 1..
remote.log.manager.copy.quota.window.size.seconds           int 1 1..
remote.log.manager.expiration.thread.pool.size              int 10 1.. cluster
remote.log.manager.fetch.max.bytes.per.second               long 9223372036854775807 1.. cluster
remote.log.manager.fetch.quota.window.num                   int 11 1..
remote.log.manager.fetch.quota.window.size.seconds          int 1 1..
remote.log.manager.follower.thread.pool.size                int 2 1.. cluster
remote.log.manager.task.interval.ms                         long 30000 1..
remote.log.manager.task.retry.backoff.max.ms                long 30000 1.. internal
remote.log.manager.task.retry.backoff.ms                    long 500 1.. internal
remote.log.manager.task.retry.jitter                        double 0.2 0..0.5 internal
remote.log.manager.thread.pool.size                         int 2 1..
remote.log.metadata.custom.metadata.max.bytes               int 128 0..
remote.log.metadata.manager.class.name                      string \
    org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager +
remote.log.metadata.manager.class.path                      string null
remote.log.metadata.manager.impl.prefix                     string rlmm.config. +
remote.log.metadata.manager.listener.name                   string null +
remote.log.reader.max.pending.tasks                         int 100 1..
remote.log.reader.threads                                   int 10 1.. cluster
remote.log.storage.manager.class.name                       string null +
remote.log.storage.manager.class.path                       string null
remote.log.storage.manager.impl.prefix                      string rsm.config. +
remote.log.storage.system.enable                            boolean false
replica.alter.log.dirs.io.max.bytes.per.second              long 9223372036854775807 0.. dynamic
replica.fetch.backoff.ms                                    int 1000 0..
replica.fetch.max.bytes                                     int 1048576 0..
replica.fetch.min.bytes                                     int 1
replica.fetch.response.max.bytes                            int 10485760 0..
replica.fetch.wait.max.ms                                   int 500
replica.high.watermark.checkpoint.interval.ms               long 5000
replica.lag.max.bytes                                       long -1 -1..
replica.lag.time.max.ms                                     long 30000
replica.selector.class                                      string null
replica.socket.receive.buffer.bytes                         int 65536
replica.socket.timeout.ms                                   int 30000
replication.quota.window.num                                int 11 1..
replication.quota.window.size.seconds                       int 1 1..
request.timeout.ms                                          int 30000
sasl.client.callback.handler.class                          class null
sasl.enabled.mechanisms                                     list GSSAPI - broker
sasl.jaas.config                                            password null - broker
sasl.kerberos.kinit.cmd                                     string /usr/bin/kinit - broker
sasl.kerberos.min.time.before.relogin                       long 60000 - broker
sasl.kerberos.principal.to.local.rules                      list DEFAULT - broker
sasl.kerberos.service.name                                  string null - broker
sasl.kerberos.ticket.renew.jitter                           double 0.05 - broker
sasl.kerberos.ticket.renew.window.factor                    double 0.8 - broker
sasl.login.callback.handler.class                           class null
sasl.login.class                                            class null
sasl.login.connect.timeout.ms                               int null
sasl.login.read.timeout.ms                                  int null
sasl.login.refresh.buffer.seconds                           short 300 - broker
sasl.login.refresh.min.period.seconds                       short 60 - broker
sasl.login.refresh.window.factor                            double 0.8 - broker
sasl.login.refresh.window.jitter                            double 0.05 - broker
sasl.login.retry.backoff.max.ms                             long 10000
sasl.login.retry.backoff.ms                                 long 100
sasl.mechanism.controller.protocol                          string GSSAPI
sasl.mechanism.inter.broker.protocol                        string GSSAPI - broker
sasl.oauthbearer.allow.unverified.audience                  boolean false
sasl.oauthbearer.allow.unverified.issuer                    boolean false
sasl.oauthbearer.assertion.algorithm                        string RS256 ~es256|rs256
sasl.oauthbearer.assertion.claim.aud                        string null
sasl.oauthbearer.assertion.claim.exp.seconds                int 300 0..86400
sasl.oauthbearer.assertion.claim.iss                        string null
sasl.oauthbearer.assertion.claim.jti.include                boolean false
sasl.oauthbearer.assertion.claim.nbf.seconds                int 60 0..3600
sasl.oauthbearer.assertion.claim.sub                        string null
sasl.oauthbearer.assertion.file                             string null
sasl.oauthbearer.assertion.private.key.file                 string null
sasl.oauthbearer.assertion.private.key.passphrase           password null
sasl.oauthbearer.assertion.template.file                    string null
sasl.oauthbearer.client.credentials.client.id               string null
sasl.oauthbearer.client.credentials.client.secret           password null
sasl.oauthbearer.clock.skew.seconds                         int 30
sasl.oauthbearer.expected.audience                          list ''
sasl.oauthbearer.expected.issuer                            string null
sasl.oauthbearer.jwks.endpoint.refresh.ms                   long 3600000
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms         long 10000
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms             long 100
sasl.oauthbearer.jwks.endpoint.url                          string null
sasl.oauthbearer.jwt.retriever.class                        class \
    org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever
sasl.oauthbearer.jwt.validator.class                        class \
    org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator
sasl.oauthbearer.scope                                      string null
sasl.oauthbearer.scope.claim.name                           string scope
sasl.oauthbearer.sub.claim.name                             string sub
sasl.oauthbearer.token.endpoint.url                         string null
sasl.server.callback.handler.class                          class null
sasl.server.max.receive.size                                int 524288
security.inter.broker.protocol                              string \
    PLAINTEXT PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL
security.providers                                          string null
server.max.startup.time.ms                                  long 9223372036854775807 0.. internal
share.coordinator.append.linger.ms                          int -1 -1..
share.coordinator.cached.buffer.max.bytes                   int 1048588 524288.. cluster
share.coordinator.cold.partition.snapshot.interval.ms       int 300000 1.. internal
share.coordinator.load.buffer.size                          int 5242880 1..
share.coordinator.snapshot.update.records.per.snapshot      int 500 0..500
share.coordinator.state.topic.compression.codec             int 0
share.coordinator.state.topic.min.isr                       short 2 1..
share.coordinator.state.topic.num.partitions                int 50 1..
share.coordinator.state.topic.prune.interval.ms             int 300000 1.. internal
share.coordinator.state.topic.replication.factor            short 3 1..
share.coordinator.state.topic.segment.bytes                 int 104857600 1..
share.coordinator.threads                                   int 1 1..
share.coordinator.write.timeout.ms                          int 5000 1..
share.fetch.purgatory.purge.interval.requests               int 1000
socket.connection.setup.timeout.max.ms                      long 30000
socket.connection.setup.timeout.ms                          long 10000
socket.listen.backlog.size                                  int 50 1..
socket.receive.buffer.bytes                                 int 102400
socket.request.max.bytes                                    int 104857600 1..
socket.send.buffer.bytes                                    int 102400
ssl.allow.dn.changes                                        boolean false
ssl.allow.san.changes                                       boolean false
ssl.cipher.suites                                           list '' - broker
ssl.client.auth                                             string \
    none required|requested|none broker
ssl.enabled.protocols                                       list TLSv1.2,TLSv1.3 - broker
ssl.endpoint.identification.algorithm                       string https - broker
ssl.engine.factory.class                                    class null - broker
ssl.key.password                                            password null - listener
ssl.keymanager.algorithm                                    string SunX509 - broker
ssl.keystore.certificate.chain                              password null - listener
ssl.keystore.key                                            password null - listener
ssl.keystore.location                                       string null - listener
ssl.keystore.password                                       password null - listener
ssl.keystore.type                                           string JKS - listener
ssl.principal.mapping.rules                                 string DEFAULT
ssl.protocol                                                string TLSv1.3 - broker
ssl.provider                                                string null - broker
ssl.secure.random.implementation                            string null - broker
ssl.trustmanager.algorithm                                  string PKIX - broker
ssl.truststore.certificates                                 password null - listener
ssl.truststore.location                                     string null - listener
ssl.truststore.password                                     password null - listener
ssl.truststore.type                                         string JKS - listener
telemetry.max.bytes                                         int 1048576 1..
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1..
transaction.max.timeout.ms                                  int 900000 1..
transaction.partition.verification.enable                   boolean true - cluster
transaction.remove.expired.transaction.cleanup.interval.ms  int 3600000 1..
transaction.state.log.load.buffer.size                      int 5242880 1..
transaction.state.log.min.isr                               int 2 1..
transaction.state.log.num.partitions                        int 50 1..
transaction.state.log.replication.factor                    short 3 1..
transaction.state.log.segment.bytes                         int 104857600 1..
transaction.two.phase.commit.enable                         boolean false
transactional.id.expiration.ms                              int 604800000 1..
unclean.leader.election.enable                              boolean false - cluster
unclean.leader.election.interval.ms                         long 300000 1.. internal
unstable.api.versions.enable                                boolean false - internal
unstable.feature.versions.enable                            boolean false - internal
"""
