"""The keys of topics, groups and client metrics in Kafka 4.4; `batch.validation` is kraftlog's own.

The last column has the broker keys that give the default, in order of precedence; `*60000` converts
the broker's unit. `keys` explains the other columns.
"""

from __future__ import annotations

TOPIC_TABLE = """\
batch.validation                        string header header|records batch.validation
cleanup.policy                          list delete compact|delete log.cleanup.policy
compression.gzip.level                  int -1 1..9|-1 compression.gzip.level
compression.lz4.level                   int 9 1..17 compression.lz4.level
compression.type                        string \
    producer uncompressed|zstd|lz4|snappy|gzip|producer compression.type
compression.zstd.level                  int 3 -131072..22 compression.zstd.level
delete.retention.ms                     long 86400000 0.. log.cleaner.delete.retention.ms
errors.deadletterqueue.group.enable     boolean false
file.delete.delay.ms                    long 60000 0.. log.segment.delete.delay.ms
flush.messages                          long 9223372036854775807 1.. log.flush.interval.messages
flush.ms                                long \
    9223372036854775807 0.. log.flush.interval.ms,log.flush.scheduler.interval.ms
follower.replication.throttled.replicas list '' <throttled-replicas>
index.interval.bytes                    int 4096 0.. log.index.interval.bytes
internal.segment.bytes                  int null - internal
leader.replication.throttled.replicas   list '' <throttled-replicas>
local.retention.bytes                   long -2 -2.. log.local.retention.bytes
local.retention.ms                      long -2 -2.. log.local.retention.ms
max.compaction.lag.ms                   long \
    9223372036854775807 1.. log.cleaner.max.compaction.lag.ms
max.decompressed.message.bytes          int 2147483639 1..2147483639 max.decompressed.message.bytes
max.message.bytes                       int 1048588 0.. message.max.bytes
message.timestamp.after.max.ms          long 3600000 0.. log.message.timestamp.after.max.ms
message.timestamp.before.max.ms         long \
    9223372036854775807 0.. log.message.timestamp.before.max.ms
message.timestamp.type                  string \
    CreateTime CreateTime|LogAppendTime log.message.timestamp.type
min.cleanable.dirty.ratio               double 0.5 0..1 log.cleaner.min.cleanable.ratio
min.compaction.lag.ms                   long 0 0.. log.cleaner.min.compaction.lag.ms
min.insync.replicas                     int 1 1.. min.insync.replicas
preallocate                             boolean false - log.preallocate
remote.copy.lag.bytes                   long -1 -1.. log.remote.copy.lag.bytes
remote.copy.lag.ms                      long 0 -1.. log.remote.copy.lag.ms
remote.log.copy.disable                 boolean false
remote.log.delete.on.disable            boolean false
remote.storage.enable                   boolean false
retention.bytes                         long -1 - log.retention.bytes
retention.ms                            long \
    604800000 -1.. log.retention.ms,log.retention.minutes*60000,log.retention.hours*3600000
segment.bytes                           int 1073741824 1048576.. log.segment.bytes
segment.index.bytes                     int 10485760 4.. log.index.size.max.bytes
segment.jitter.ms                       long 0 0.. log.roll.jitter.ms,log.roll.jitter.hours*3600000
segment.ms                              long 604800000 1.. log.roll.ms,log.roll.hours*3600000
unclean.leader.election.enable          boolean false - unclean.leader.election.enable
"""

GROUP_TABLE = """\
consumer.assignment.interval.ms    int 1000 0.. group.consumer.assignment.interval.ms
consumer.assignor.offload.enable   boolean \
    true - group.consumer.assignor.offload.enable internal
consumer.heartbeat.interval.ms     int 5000 1.. group.consumer.heartbeat.interval.ms
consumer.session.timeout.ms        int 45000 1.. group.consumer.session.timeout.ms
errors.deadletterqueue.copy.record.enable boolean false
errors.deadletterqueue.topic.name  string ''
share.assignment.interval.ms       int 1000 0.. group.share.assignment.interval.ms
share.assignor.offload.enable      boolean true - group.share.assignor.offload.enable internal
share.auto.offset.reset            string latest <offset-reset>
share.delivery.count.limit         int 5 2.. group.share.delivery.count.limit
share.heartbeat.interval.ms        int 5000 1.. group.share.heartbeat.interval.ms
share.isolation.level              string read_uncommitted read_committed|read_uncommitted
share.partition.max.record.locks   int 2000 100.. group.share.partition.max.record.locks
share.record.lock.duration.ms      int 30000 1000.. group.share.record.lock.duration.ms
share.renew.acknowledge.enable     boolean true
share.session.timeout.ms           int 45000 1.. group.share.session.timeout.ms
streams.acceptable.recovery.lag    long 10000 0.. group.streams.acceptable.recovery.lag internal
streams.assignment.interval.ms     int 1000 0.. group.streams.assignment.interval.ms
streams.assignor.name              string null - group.streams.assignors
streams.assignor.offload.enable    boolean \
    true - group.streams.assignor.offload.enable internal
streams.heartbeat.interval.ms      int 5000 1.. group.streams.heartbeat.interval.ms
streams.initial.rebalance.delay.ms int 3000 0.. group.streams.initial.rebalance.delay.ms
streams.num.standby.replicas       int 0 0.. group.streams.num.standby.replicas
streams.num.warmup.replicas        int 2 0.. group.streams.num.warmup.replicas internal
streams.rack.aware.assignment.tags list '' - group.streams.rack.aware.assignment.tags
streams.session.timeout.ms         int 45000 1.. group.streams.session.timeout.ms
streams.task.offset.interval.ms    int 60000 1.. group.streams.task.offset.interval.ms internal
"""

CLIENT_METRICS_TABLE = """\
interval.ms int 300000 100..3600000
match       list '' <client-match>
metrics     list ''
"""
