"""The one place that says which keys do something here; all others are accepted and idle.

Whoever makes a key work adds it with a few words of its own: they are its documentation, in
DescribeConfigs and in docs/configuration.md.
"""

from __future__ import annotations

from kraftlog.config.keys import BROKER, CLIENT_METRICS, GROUP, TOPIC

_BROKER = {
    "advertised.listeners": "What clients and other brokers are told to connect to.",
    "auto.create.topics.enable": "Whether a topic is made when a client first asks for it.",
    "broker.heartbeat.interval.ms": "How often a broker tells the controller that it is there.",
    "broker.id": "The old name of node.id.",
    "broker.rack": "Where the broker stands; replicas are spread over racks.",
    "broker.session.timeout.ms": "How long a broker may be silent before it is fenced.",
    "compression.gzip.level": "As for topics, for those that say nothing of it.",
    "compression.lz4.level": "As for topics, for those that say nothing of it.",
    "compression.type": "As for topics, for those that say nothing of it.",
    "compression.zstd.level": "As for topics, for those that say nothing of it.",
    "controller.listener.names": "The listeners through which controllers are reached.",
    "controller.quorum.bootstrap.servers": "Whom a node asks who leads, when it knows no voters.",
    "controller.quorum.election.backoff.max.ms": "How long at most until the next election.",
    "controller.quorum.election.timeout.ms": "How long an election may take.",
    "controller.quorum.fetch.max.bytes": "How much of the metadata log is fetched at once.",
    "controller.quorum.fetch.timeout.ms": "How long a leader may be silent before it is replaced.",
    "controller.quorum.request.timeout.ms": "How long to wait for an answer of another controller.",
    "controller.quorum.retry.backoff.ms": "How long to wait before asking again.",
    "controller.quorum.voters": "The voters of a quorum that never changes, as id@host:port.",
    "default.replication.factor": "How many replicas a topic has when nothing is said.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "How many bytes of batches one fetch is answered with.",
    "group.initial.rebalance.delay.ms": "How long a new group waits for more; 0 if not given.",
    "group.max.session.timeout.ms": "The longest session timeout that a member may ask for.",
    "group.max.size": "How many members a group may have.",
    "group.min.session.timeout.ms": "The shortest session timeout that a member may ask for.",
    "listener.security.protocol.map": "Which security protocol each listener speaks: PLAINTEXT.",
    "listeners": "Where the node listens, as NAME://host:port.",
    "log.cleaner.backoff.ms": "How often a log is looked for that is to be compacted.",
    "log.cleaner.dedupe.buffer.size": "Memory for the keys of a pass, 200 bytes for each.",
    "log.cleaner.delete.retention.ms": "As for topics, for those that say nothing of it.",
    "log.cleaner.enable": "Whether logs are compacted.",
    "log.cleaner.max.compaction.lag.ms": "As for topics, for those that say nothing of it.",
    "log.cleaner.min.cleanable.ratio": "As for topics, for those that say nothing of it.",
    "log.cleaner.min.compaction.lag.ms": "As for topics, for those that say nothing of it.",
    "log.cleaner.threads": "0: no log is compacted; any other number: one at a time.",
    "log.cleanup.policy": "As for topics, for those that say nothing of it.",
    "log.dir": "Where logs are kept, when log.dirs is not given.",
    "log.dirs": "Where logs are kept: one directory.",
    "log.flush.interval.messages": "As for topics, for those that say nothing of it.",
    "log.index.interval.bytes": "As for topics, for those that say nothing of it.",
    "log.index.size.max.bytes": "As for topics, for those that say nothing of it.",
    "log.initial.task.delay.ms": "How long after the start they are first looked for.",
    "log.message.timestamp.after.max.ms": "As for topics, for those that say nothing of it.",
    "log.message.timestamp.before.max.ms": "As for topics, for those that say nothing of it.",
    "log.message.timestamp.type": "As for topics, for those that say nothing of it.",
    "log.retention.bytes": "As for topics, for those that say nothing of it.",
    "log.retention.check.interval.ms": "How often records that have had their time are looked for.",
    "log.retention.hours": "As for topics, for those that say nothing of it.",
    "log.retention.minutes": "As for topics, for those that say nothing of it.",
    "log.retention.ms": "As for topics, for those that say nothing of it.",
    "log.roll.hours": "As for topics, for those that say nothing of it.",
    "log.roll.ms": "As for topics, for those that say nothing of it.",
    "log.segment.bytes": "As for topics, for those that say nothing of it.",
    "max.incremental.fetch.session.cache.slots": "How many readers may have a fetch session.",
    "message.max.bytes": "As for topics, for those that say nothing of it.",
    "metadata.log.dir": "Where the metadata log is kept: the directory of the logs.",
    "metadata.log.max.record.bytes.between.snapshots": "Not given: after 10,000 records as well.",
    "metadata.log.max.snapshot.interval.ms": "After how long a snapshot is taken.",
    "min.insync.replicas": "As for topics, for those that say nothing of it.",
    "node.id": "The number of this node, of which no other node of the cluster has the same.",
    "num.partitions": "How many partitions a topic has when nothing is said.",
    "offset.metadata.max.bytes": "How much a member may note beside a committed offset.",
    "offsets.commit.timeout.ms": "How long a commit may wait to be written.",
    "offsets.retention.check.interval.ms": "How often old offsets are looked for.",
    "offsets.retention.minutes": "How long the offsets of a group without members are kept.",
    "offsets.topic.num.partitions": "How many partitions the topic of committed offsets has.",
    "offsets.topic.replication.factor": "How many replicas the topic of committed offsets has.",
    "offsets.topic.segment.bytes": "How large a segment of the topic of committed offsets grows.",
    "process.roles": "What this node is: broker, controller or both.",
    "producer.id.expiration.check.interval.ms": "How often silent producers are looked for.",
    "producer.id.expiration.ms": "How long a partition remembers a producer that is silent.",
    "socket.request.max.bytes": "How large a request may be.",
    "unclean.leader.election.enable": "As for topics, for those that say nothing of it.",
}
#: Keys of ours, of which Kafka knows nothing.
OWN = {
    "kraftlog.http.port": (
        "The port of metrics and health, on the host of the first listener; 0: any, -1: none."
    ),
}
_TOPIC = {
    "cleanup.policy": "delete: old records go; compact: the latest record of each key stays.",
    "compression.gzip.level": "How hard gzip tries, where the topic packs batches.",
    "compression.lz4.level": "How hard lz4 tries, where the topic packs batches.",
    "compression.type": "How batches are packed; producer: as they come.",
    "compression.zstd.level": "How hard zstd tries, where the topic packs batches.",
    "delete.retention.ms": "How long tombstones stay, where the policy is to compact.",
    "flush.messages": "How many records may be called written that are not on the disk yet.",
    "index.interval.bytes": "So many bytes lie between two entries of an index.",
    "max.compaction.lag.ms": "How long a record may wait for being compacted.",
    "max.message.bytes": "How large a batch may be.",
    "message.timestamp.after.max.ms": "How far in the future a record's time may lie.",
    "message.timestamp.before.max.ms": "How old a record may be when it comes.",
    "message.timestamp.type": "Whether records have their producer's time or the broker's.",
    "min.cleanable.dirty.ratio": "Which part of a log must be dirty for it to be compacted.",
    "min.compaction.lag.ms": "How long a record is safe from being compacted.",
    "min.insync.replicas": "How many in sync are enough to elect by, and for acks of all.",
    "retention.bytes": "How many bytes a log may have, where the policy is to delete.",
    "retention.ms": "How long records are kept, where the policy is to delete.",
    "segment.bytes": "How large a segment grows before the next one begins.",
    "segment.index.bytes": "How large the indexes of a segment grow.",
    "segment.ms": "How long a segment grows before the next one begins.",
    "unclean.leader.election.enable": "Whether a replica that lacks records may lead.",
}
_GROUP: dict[str, str] = {}
_CLIENT_METRICS: dict[str, str] = {}

#: Resource type -> key -> what it does.
EFFECTIVE = {TOPIC: _TOPIC, BROKER: _BROKER, GROUP: _GROUP, CLIENT_METRICS: _CLIENT_METRICS}

_IDLE = "Known to Kafka, without effect here."


def documentation(resource_type: int, name: str) -> str:
    """What a key does, in a few words."""
    return EFFECTIVE[resource_type].get(name, _IDLE)
