"""Metrics of a broker: partitions, logs, requests and groups."""

from __future__ import annotations

from kraftlog.groups.states import GroupState
from kraftlog.node.metrics.family import COUNTER, GAUGE, UNTYPED, Family, single
from kraftlog.node.request_latency import quantile
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.node.metrics.family import Samples
    from kraftlog.node.node import Node
    from kraftlog.replication.counts import TopicCounts
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now

# Kafka's numbers for the states of a broker.
STARTING, RECOVERY, RUNNING, SHUTTING_DOWN = 1, 2, 3, 6


def broker_state(node: Node) -> int:
    lifecycle = node.broker_lifecycle
    assert lifecycle is not None, "only brokers have these metrics"
    if lifecycle.wants_to_leave:
        return SHUTTING_DOWN
    if lifecycle.epoch < 0:
        return STARTING
    return RUNNING if node.is_ready else RECOVERY


# Partitions --------------------------------------------------------------------------------------


def _is_under_replicated(partition: Partition) -> bool:
    return partition.leads and partition.in_sync_count < partition.replica_count


def _is_under_min_isr(partition: Partition) -> bool:
    return partition.leads and partition.in_sync_count < partition.append_config.min_insync_replicas


def _is_at_min_isr(partition: Partition) -> bool:
    return (
        partition.leads and partition.in_sync_count == partition.append_config.min_insync_replicas
    )


def _partitions(name: str, help_text: str, matches: Callable[[Partition], bool]) -> Family:
    """The number of local partitions of a kind."""
    return single(
        "kafka_server_replicamanager_" + name,
        GAUGE,
        help_text,
        lambda node, _: sum(1 for p in node.replica_manager.partitions.values() if matches(p)),
    )


def _labels(partition: Partition) -> tuple[tuple[str, str], ...]:
    return ("topic", partition.topic), ("partition", str(partition.index))


def _per_partition(
    name: str,
    help_text: str,
    value: Callable[[Node, Partition], float],
    *,
    if_leading: bool = False,
) -> Family:
    """A sample for every local partition, or for those that this broker leads."""

    def measure(node: Node, _: Now) -> Samples:
        for partition in list(node.replica_manager.partitions.values()):  # copied: read in slices
            if partition.leads or not if_leading:
                yield _labels(partition), value(node, partition)

    return Family(name, GAUGE, help_text, measure)


PARTITIONS = (
    _partitions("partitioncount", "Replicas on this broker.", lambda _: True),
    _partitions("leadercount", "Partitions led by this broker.", lambda p: p.leads),
    _partitions("offlinereplicacount", "Replicas whose log is not open.", lambda p: not p.is_open),
    _partitions(
        "underreplicatedpartitions",
        "Partitions led here whose ISR lacks a replica.",
        _is_under_replicated,
    ),
    _partitions(
        "underminisrpartitioncount",
        "Partitions led here whose ISR is smaller than min.insync.replicas.",
        _is_under_min_isr,
    ),
    _partitions(
        "atminisrpartitioncount",
        "Partitions led here whose ISR has exactly min.insync.replicas.",
        _is_at_min_isr,
    ),
    _per_partition(
        "kafka_cluster_partition_replicascount",
        "Replicas of a partition led here.",
        lambda _, p: p.replica_count,
        if_leading=True,
    ),
    _per_partition(
        "kafka_cluster_partition_insyncreplicascount",
        "Size of the ISR of a partition led here.",
        lambda _, p: p.in_sync_count,
        if_leading=True,
    ),
    _per_partition(
        "kafka_cluster_partition_underreplicated",
        "1 if the ISR lacks a replica.",
        lambda _, p: int(_is_under_replicated(p)),
        if_leading=True,
    ),
    _per_partition(
        "kafka_cluster_partition_underminisr",
        "1 if the ISR is smaller than min.insync.replicas.",
        lambda _, p: int(_is_under_min_isr(p)),
        if_leading=True,
    ),
    _per_partition(
        "kafka_cluster_partition_atminisr",
        "1 if the ISR has exactly min.insync.replicas.",
        lambda _, p: int(_is_at_min_isr(p)),
        if_leading=True,
    ),
    _per_partition("kafka_log_log_logstartoffset", "Log start offset.", lambda _, p: p.start),
    _per_partition("kafka_log_log_logendoffset", "Log end offset.", lambda _, p: p.written_end),
    _per_partition(
        "kafka_log_log_size",
        "Size of the log on disk, in bytes.",
        lambda node, p: node.logs.size_bytes(p.log),
    ),
)


# The disk ----------------------------------------------------------------------------------------

LOGS = (
    single(
        "kafka_log_logmanager_offlinelogdirectorycount",
        GAUGE,
        "Number of log directories that are offline.",
        lambda node, _: sum([it.is_offline for it in node.logs.directories]),
    ),
    Family(
        "kafka_log_logmanager_logdirectoryoffline",
        GAUGE,
        "1 if this log directory is offline.",
        lambda node, _: [
            ((("logDirectory", it.path),), int(it.is_offline)) for it in node.logs.directories
        ],
    ),
)


# Traffic -----------------------------------------------------------------------------------------


def _traffic(name: str, help_text: str, value: Callable[[TopicCounts], float]) -> Family:
    """A sample for all topics together, without a label, and one per topic."""

    def measure(node: Node, _: Now) -> Samples:
        yield (), value(node.replica_manager.topic_stats.of_all_topics())
        for topic, counts in list(node.replica_manager.topic_stats.topics.items()):
            yield (("topic", topic),), value(counts)

    return Family(f"kafka_server_brokertopicmetrics_{name}_total", COUNTER, help_text, measure)


def _requests(node: Node, _: Now) -> Samples:
    for key, version, count in node.counts.requests_by_version():
        yield (("request", APIS[key].name), ("version", str(version))), count


#: The quantiles of Kafka's histograms, as its exporter writes them.
QUANTILES = ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")


def _labels_of_api(node: Node, key: int) -> Iterator[tuple[str, str]]:
    """As in Kafka, a Fetch has a second label, but the role of this node decides which.

    A broker counts all fetches as FetchConsumer, those of followers too.
    """
    yield "request", APIS[key].name
    if key == ApiKey.FETCH:
        yield "request", "FetchFollower" if node.broker_lifecycle is None else "FetchConsumer"


def _latencies(node: Node, now: Now) -> Samples:
    totals = node.counts.requests_by_api()
    for key, buckets in node.counts.latency.recent(totals, now.monotonic_ms).items():
        for label in _labels_of_api(node, key):
            for share in QUANTILES:
                yield (label, ("quantile", share)), quantile(buckets, float(share))


def _latency_counts(node: Node, _: Now) -> Samples:
    for key, count in node.counts.requests_by_api().items():
        for label in _labels_of_api(node, key):
            yield (label,), count


TRAFFIC = (
    _traffic(
        "messagesin", "Records appended by producers, counted as offsets.", lambda c: c.messages_in
    ),
    _traffic("bytesin", "Bytes appended by producers.", lambda c: c.bytes_in),
    _traffic("bytesout", "Bytes of batches returned by fetches.", lambda c: c.bytes_out),
    _traffic("totalproducerequests", "Partitions in Produce requests.", lambda c: c.produces),
    _traffic(
        "failedproducerequests",
        "Partitions refused in Produce requests.",
        lambda c: c.failed_produces,
    ),
    _traffic(
        "totalfetchrequests",
        "Partitions read for Fetch requests; a delayed fetch counts again on completion.",
        lambda c: c.fetches,
    ),
    _traffic(
        "failedfetchrequests", "Partitions refused in Fetch requests.", lambda c: c.failed_fetches
    ),
)

#: Families that controllers have as well.
REQUESTS = (
    Family(
        "kafka_network_requestmetrics_requests_total",
        COUNTER,
        "Requests by API and version, including failed ones.",
        _requests,
    ),
    Family(
        "kafka_network_requestmetrics_totaltimems",
        GAUGE,
        "Total time of recent requests in milliseconds, by quantile.",
        _latencies,
    ),
    Family(
        "kafka_network_requestmetrics_totaltimems_count",
        UNTYPED,  # a counter, which some readers would want to end in _total
        "Requests counted in the total times, by API.",
        _latency_counts,
    ),
)


# Groups ------------------------------------------------------------------------------------------


def _group_states(node: Node) -> Iterator[str]:
    if node.group_coordinators is not None:
        for shard in node.group_coordinators.shards():
            for group in shard.groups.values():
                yield group.state


def _groups(name: str, help_text: str, state: str | None) -> Family:
    return single(
        "kafka_coordinator_group_groupmetadatamanager_" + name,
        GAUGE,
        help_text,
        lambda node, _: sum(1 for each in _group_states(node) if state in {None, each}),
    )


GROUPS = (
    _groups("numgroups", "Groups coordinated by this broker.", None),
    _groups("numgroupsempty", "Groups in Empty state.", GroupState.EMPTY),
    _groups(
        "numgroupspreparingrebalance", "Groups in PreparingRebalance state.", GroupState.PREPARING
    ),
    _groups(
        "numgroupscompletingrebalance",
        "Groups in CompletingRebalance state.",
        GroupState.COMPLETING,
    ),
    _groups("numgroupsstable", "Groups in Stable state.", GroupState.STABLE),
    _groups("numgroupsdead", "Groups in Dead state.", GroupState.DEAD),
)


BROKER_STATE = (
    single(
        "kafka_server_kafkaserver_brokerstate",
        GAUGE,
        "State of the broker: 1 starting, 2 recovery, 3 running, 6 controlled shutdown.",
        lambda node, _: broker_state(node),
    ),
    single(
        "kafka_server_brokermetadatametrics_last_applied_record_offset",
        GAUGE,
        "Offset of the last metadata record applied by this broker.",
        lambda node, _: node.quorum.applied - 1,
    ),
)
FAMILIES = (*BROKER_STATE, *PARTITIONS, *LOGS, *TRAFFIC, *GROUPS)
