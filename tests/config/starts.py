"""Files with which a Kafka broker starts, and files with which it fails.

Each case is the difference from the `PLAIN` file: `key=value` sets a key, `-key` removes one.
"""

from __future__ import annotations

#: Defaults that differ from Kafka's: ours, and Kafka's.
OWN_DEFAULTS = {
    "group.initial.rebalance.delay.ms": ("0", "3000"),
}
#: kraftlog's own keys of brokers and topics.
OWN_NAMES = frozenset({"batch.validation", "replica.lag.max.bytes"})
PLAIN = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.voters": "1@localhost:9093",
}


def properties_of_case(case: str) -> str:
    """The text of the properties file of a case."""
    pairs = dict(PLAIN)
    for change in case.split(" ; "):
        key, _, value = change.partition("=")
        if key.startswith("-"):
            del pairs[key[1:]]
        else:
            pairs[key] = value
    return "".join([f"{key}={value}\n" for key, value in pairs.items()])


ACCEPTED = """\
-controller.quorum.voters ; controller.quorum.bootstrap.servers=localhost:9093
controller.quorum.bootstrap.servers=localhost:9093
process.roles=broker ; node.id=2 ; listeners=PLAINTEXT://:9092
process.roles=controller ; listeners=CONTROLLER://:9093
process.roles=controller ; listeners=CONTROLLER://:9093 ; advertised.listeners=PLAINTEXT://a:9092
process.roles=controller ; listeners=CONTROLLER://:9093 ; advertised.listeners=CONTROLLER://a:9093
process.roles=controller ; listeners=CONTROLLER://:9093 ; inter.broker.listener.name=PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:9092,PLAINTEXT2://[::1]:9092,CONTROLLER://:9093 ; \
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PLAINTEXT2:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT://:0,CONTROLLER://:0
listeners=EXTERNAL://:9092,CONTROLLER://:9093 ; \
listener.security.protocol.map=EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT ; \
inter.broker.listener.name=EXTERNAL
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PLAINTEXT:SSL
advertised.listeners=PLAINTEXT://:9092
advertised.listeners=PLAINTEXT://a:9092,CONTROLLER://a:9093
listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://0.0.0.0:9093 ; \
advertised.listeners=PLAINTEXT://h:9092
controller.quorum.voters=1@localhost:9093,1@localhost:9094
-node.id ; broker.id=1
auto.create.topics.enable=TRUE
log.retention.ms=-1
log.retention.minutes=-5
log.cleanup.policy=compact,delete
log.cleanup.policy=compact,compact
log.cleanup.policy=
log.dirs=/tmp/a ; log.dir=/tmp/b
log.dirs=/tmp/a,/tmp/a
compression.type=gzip
broker.heartbeat.interval.ms=9000
broker.heartbeat.interval.ms=5000
group.consumer.session.timeout.ms=46000 ; group.consumer.heartbeat.interval.ms=15000 ; \
group.consumer.max.heartbeat.interval.ms=60000
group.max.session.timeout.ms=10
group.min.session.timeout.ms=2000000
metadata.log.max.snapshot.interval.ms=0
queued.max.request.bytes=0
max.connections.per.ip.overrides=1.2.3.4:5
message.max.bytes=99999999 ; replica.fetch.max.bytes=5
connections.max.idle.ms=-1
controller.quorum.auto.join.enable=true
-controller.quorum.voters ; controller.quorum.bootstrap.servers=localhost:9093 ; \
controller.quorum.auto.join.enable=true
metadata.log.dir=
default.replication.factor=0
no.such.key=1
early.start.listeners=PLAINTEXT
zookeeper.connect=localhost:2181
log.retention.bytes=-5
num.network.threads= 5
remote.log.storage.system.enable=true
group.initial.rebalance.delay.ms=-1
listeners=PLAINTEXT://:9092, CONTROLLER://:9093
listeners=plaintext://:9092,CONTROLLER://:9093
metrics.recording.level=foo
advertised.listeners=PLAINTEXT://a:0
replica.fetch.wait.max.ms=0
connection.failed.authentication.delay.ms=599999
connections.max.idle.ms=-1 ; connection.failed.authentication.delay.ms=5
group.consumer.assignors=range
max.connections.per.ip=0 ; max.connections.per.ip.overrides=a:1,b:2
""".splitlines()

REFUSED = """\
-listeners
-node.id
-process.roles
-controller.listener.names
-controller.quorum.voters
process.roles=broker
process.roles=broker ; listeners=PLAINTEXT://:9092
process.roles=broker ; node.id=2 ; listeners=PLAINTEXT://:9092 ; -controller.listener.names
process.roles=broker ; node.id=2
process.roles=controller
process.roles=controller ; node.id=7 ; listeners=CONTROLLER://:9093
process.roles=observer
process.roles=
process.roles=broker,broker
listeners=PLAINTEXT://:9092
listeners=PLAINTEXT://:9092,CONTROLLER://:9092
listeners=PLAINTEXT://:9092,PLAINTEXT://:9094,CONTROLLER://:9093
listeners=PLAINTEXT://127.0.0.1:9092,OTHER://127.0.0.1:9092,CONTROLLER://:9093 ; \
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT
listeners=PLAINTEXT:9092,CONTROLLER://:9093
listeners=PLAINTEXT://:x,CONTROLLER://:9093
listeners=EXTERNAL://:9092,CONTROLLER://:9093
listeners=EXTERNAL://:9092,CONTROLLER://:9093 ; \
listener.security.protocol.map=EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT ; security.inter.broker.protocol=PLAINTEXT
inter.broker.listener.name=NOPE
inter.broker.listener.name=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:NOPE
listener.security.protocol.map=PLAINTEXT
advertised.listeners=PLAINTEXT://0.0.0.0:9092
advertised.listeners=SSL://a:9092
advertised.listeners=PLAINTEXT://a:9092,PLAINTEXT://b:9092
listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093
controller.listener.names=CONTROLLER,SECOND
controller.listener.names=PLAINTEXT
controller.listener.names=
controller.quorum.voters=2@localhost:9093
controller.quorum.voters=localhost:9093
controller.quorum.voters=1@localhost:x
controller.quorum.voters=1@0.0.0.0:0
broker.id=2
node.id=-1
num.partitions=0
num.partitions=x
num.partitions=99999999999
auto.create.topics.enable=yes
log.retention.ms=0
log.retention.hours=0
log.roll.ms=0
log.roll.jitter.ms=-1
log.segment.bytes=100
log.cleaner.min.cleanable.ratio=1.5
log.cleaner.min.cleanable.ratio=abc
log.cleanup.policy=shrink
log.dirs=
compression.type=brotli
compression.gzip.level=0
compression.gzip.level=10
replica.fetch.wait.max.ms=40000
replica.lag.time.max.ms=100
replica.socket.timeout.ms=100
offsets.commit.timeout.ms=0
group.consumer.session.timeout.ms=100000
group.consumer.heartbeat.interval.ms=1
queued.max.request.bytes=10
max.connections.per.ip=0
offsets.topic.compression.codec=9
ssl.client.auth=maybe
sasl.enabled.mechanisms=PLAIN ; security.inter.broker.protocol=SASL_PLAINTEXT
controller.quorum.election.timeout.ms=-1
process.roles=broker ; node.id=2 ; listeners=PLAINTEXT://:9092 ; -controller.quorum.voters ; \
controller.quorum.bootstrap.servers=localhost:9093 ; \
controller.quorum.auto.join.enable=true
unclean.leader.election.enable=
log.message.timestamp.type=Create
early.start.listeners=NOPE
cordoned.log.dirs=/x
advertised.listeners=
log.message.timestamp.before.max.ms=-1
min.insync.replicas=0
group.coordinator.rebalance.protocols=consumer
metadata.log.segment.bytes=100
log.cleaner.dedupe.buffer.size=100 ; log.cleaner.threads=10
controller.quorum.voters=
-controller.quorum.voters ; controller.quorum.bootstrap.servers=localhost
-controller.quorum.voters ; controller.quorum.bootstrap.servers=
listeners=PLAINTEXT://:9092,CONTROLLER://:9093,SSL://:9094 ; advertised.listeners=PLAINTEXT://a:9092
controller.quorum.voters=1@localhost:9093 ; node.id=1 ; \
advertised.listeners=PLAINTEXT://localhost:9092,SSL://a:9000
max.connections.per.ip.overrides=1.2.3.4
max.connections.per.ip.overrides=a:b
connection.failed.authentication.delay.ms=600000
connections.max.idle.ms=5
group.consumer.assignors=uniform,no.such.Class
group.share.assignors=range
group.streams.num.standby.replicas=3
group.share.max.share.sessions=100
group.consumer.min.session.timeout.ms=60001
group.share.heartbeat.interval.ms=15000 ; group.share.session.timeout.ms=15000 ; \
group.share.min.session.timeout.ms=1
""".splitlines()
