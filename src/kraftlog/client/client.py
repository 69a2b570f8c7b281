"""`Client`: the public interface of this package.

    from kraftlog import Client

    with Client("localhost:9092") as client:
        client.create_topic("demo", partitions=3)
        client.produce("demo", "a value", key="a key")
        for record in client.consume("demo", start="beginning", until_end=True):
            print(record.value)

Every call blocks until it succeeds, is refused, or `timeout_s` has passed. Use a client in one
thread.
"""

from __future__ import annotations

from kraftlog.client import arguments
from kraftlog.client.cluster import ANY
from kraftlog.client.connected import ConnectedToCluster
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from kraftlog.client.configs import ConfigValue, Setting
    from kraftlog.client.consumer import Consumer
    from kraftlog.client.groups import Group, GroupOffset, ListedGroup
    from kraftlog.client.model import FoundOffset, PartitionName, Topic
    from kraftlog.client.nodes import ClusterDescription, Features, Quorum
    from kraftlog.client.producer import Headers, Producer
    from kraftlog.client.reader import OnReset
    from kraftlog.client.reassignments import Reassignment
    from kraftlog.errors import RefusedError
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.api_versions import ApiVersionsResponse
    from kraftlog.wire.messages.describe_log_dirs import DescribeLogDirsResult
    from kraftlog.wire.schema import Message


class Client(ConnectedToCluster):
    """A client of the cluster with these bootstrap `servers` ("host:port,host:port").

    `controllers=True`: the servers are controllers, which describe and change the cluster and its
    quorum but serve no topics. `security`: the properties of TLS and SASL that Kafka's clients
    take, such as `{"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", ...}`.
    """

    def __init__(
        self,
        servers: str = "127.0.0.1:9092",
        *,
        timeout_s: float = 30.0,
        client_id: str = "kraftlog",
        controllers: bool = False,
        security: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(servers, client_id, timeout_s, controllers=controllers, security=security)

    def request(
        self, api: str | int, version: int | None, message: Message, *, broker: int = ANY
    ) -> Message:
        """Send any request, in any version (None: the newest that both sides support)."""
        from kraftlog.client.versions import api_named
        from kraftlog.wire.apis import APIS

        api_found = APIS[api] if isinstance(api, int) else api_named(api)
        if not isinstance(message, api_found.request()):
            expected = api_found.request().__name__
            raise TypeError(f"message {message!r}: expected a {expected} of kraftlog.wire.messages")
        return self.cluster.call(message, api_found.response(), broker=broker, version=version)

    # Topics

    def topics(self, *, linearizable: bool = False) -> list[Topic]:
        """All topics of the cluster.

        A linearizable read includes every change that was acknowledged before it, whichever node of
        kraftlog serves it; other reads may be stale. The same holds for other methods with this
        parameter.
        """
        return self.cluster.all_topics(linearizable=linearizable)

    def describe_topic(self, name: str, *, linearizable: bool = False) -> Topic:
        names = [arguments.text("topic", name)]
        return self.describe_topics(names, linearizable=linearizable)[0]

    def describe_topics(
        self, names: Sequence[str], page_size: int = 2000, *, linearizable: bool = False
    ) -> list[Topic]:
        """Several topics, in the given order; `page_size` counts partitions."""
        from kraftlog.client import topics

        checked_names = arguments.texts("names", names)
        return topics.describe(self.cluster, checked_names, page_size, linearizable=linearizable)

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        configs: Mapping[str, ConfigValue] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; -1 means the cluster's default. `assignment`: brokers by partition."""
        from kraftlog.client import topics

        topics.create(
            self.cluster,
            arguments.text("topic", name),
            partitions=arguments.number("partitions", partitions, -1),
            replication_factor=arguments.number(
                "replication_factor", replication_factor, -1, 2**15 - 1
            ),
            configs=arguments.mapping("configs", configs or {}, '{"retention.ms": 60_000}'),
            assignment=arguments.mapping("assignment", assignment or {}, "{0: [1, 2]}"),
            validate_only=validate_only,
        )

    def delete_topic(self, name: str) -> None:
        from kraftlog.client import topics

        topics.delete(self.cluster, arguments.text("topic", name))

    def create_partitions(
        self, name: str, count: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Increase the partitions of a topic to `count`."""
        from kraftlog.client import topics

        arguments.number("count", count, 1)
        topics.add_partitions(self.cluster, arguments.text("topic", name), count, assignment)

    def remove_partitions(self, name: str, count: int) -> None:
        """Remove the last partitions of a topic, with their records: `count` are left."""
        from kraftlog.client import topics

        arguments.number("count", count, 1)
        topics.remove_last_partitions(self.cluster, arguments.text("topic", name), count)

    def reassign_partitions(
        self,
        targets: Mapping[PartitionName, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> dict[PartitionName, RefusedError]:
        """Move partitions to these brokers (None: cancel); return the refused ones."""
        from kraftlog.client import reassignments

        arguments.mapping("targets", targets, '{("a-topic", 0): [1, 2]}')
        may_change = allow_replication_factor_change
        return reassignments.alter(self.cluster, targets, may_change_factor=may_change)

    def reassignments(self) -> dict[PartitionName, Reassignment]:
        """The ongoing reassignments of partitions."""
        from kraftlog.client import reassignments

        return reassignments.ongoing(self.cluster)

    def elect_preferred_leaders(
        self, partitions: Iterable[PartitionName]
    ) -> dict[PartitionName, RefusedError]:
        """Make the preferred (first) replica of each partition its leader; return the failures."""
        from kraftlog.client import reassignments

        names = arguments.partition_names("partitions", partitions)
        return reassignments.elect(self.cluster, names)

    def elect_unclean_leaders(
        self, partitions: Iterable[PartitionName]
    ) -> dict[PartitionName, RefusedError]:
        """Give each partition without a leader one that may lack records; return the failures."""
        from kraftlog.client import reassignments

        names = arguments.partition_names("partitions", partitions)
        return reassignments.elect(self.cluster, names, reassignments.UNCLEAN)

    def delete_records(self, offsets: Mapping[PartitionName, int]) -> dict[PartitionName, int]:
        """Delete records before these offsets (-1: all); return the log start offsets."""
        from kraftlog.client import topics

        return topics.delete_records_before(
            self.cluster, arguments.partition_offsets("offsets", offsets, -1)
        )

    def offsets(
        self,
        topic: str,
        spec: str | int = "latest",
        partitions: Iterable[int] | None = None,
    ) -> dict[int, FoundOffset]:
        """Offsets of partitions: `spec` is "earliest", "latest", "max-timestamp" or a timestamp."""
        from kraftlog.client import offsets

        timestamp = offsets.timestamp_of(spec)
        arguments.text("topic", topic)
        if partitions is None:
            partitions = [each.index for each in self.cluster.topic(topic).partitions]
        partitions = arguments.numbers("partitions", partitions)
        timestamps = {(topic, index): timestamp for index in partitions}
        return {name[1]: result for name, result in offsets.find(self.cluster, timestamps).items()}

    # Records

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
        compression: str = "none",
    ) -> tuple[int, int]:
        """Write one record; return its partition and offset. For many, see `producer`."""
        arguments.text("topic", topic)
        if partition is not None:
            arguments.number("partition", partition)
        if timestamp_ms is not None:
            arguments.number("timestamp_ms", timestamp_ms, -1, arguments.MAX_INT64)
        producer = self.producer(compression=compression)
        name = producer.send(
            topic,
            value,
            key=key,
            partition=partition,
            headers=headers,
            timestamp_ms=timestamp_ms,
        )
        producer.flush()
        return name[1], producer.last_base_offsets[name]

    def producer(
        self,
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = True,
        batch_size: int = 128 << 10,
        acknowledged: Callable[[int], None] | None = None,
    ) -> Producer:
        """A producer for many records: `with client.producer() as p: p.send(topic, value)`.

        `acknowledged` is called with the number of records of each acknowledged batch.
        """
        from kraftlog.client.producer import Producer

        return Producer(
            self.cluster,
            acks=acks,
            compression=compression,
            is_idempotent=idempotent,
            batch_size=arguments.number("batch_size", batch_size),
            acknowledged=acknowledged,
        )

    def consume(
        self,
        topics: str | Sequence[str],
        start: str | int = "end",
        *,
        at_ms: int | None = None,
        partitions: Iterable[int] | None = None,
        group: str | None = None,
        timeout_s: float | None = None,
        until_end: bool = False,
        isolation: str = "read_uncommitted",
        auto_commit: bool = True,
        reset: str | None = None,
        on_reset: OnReset | None = None,
    ) -> Consumer:
        """Iterate over records from `start`, or from the first one not older than `at_ms`.

        With a `group`, partitions that have a committed offset start there instead. The iteration
        ends after `timeout_s` without a record; with `until_end`, at the log end that
        was current at the start. If an offset is out of range, the iteration continues at `reset`,
        "beginning" or "end" (default: the end, unless `start` is "beginning"), and `on_reset` is
        called with the partition, that offset and the new one.
        """
        from kraftlog.client.consumer import Consumer, StartPosition

        if at_ms is not None:
            arguments.number("at_ms", at_ms, 0, arguments.MAX_INT64)
        return Consumer(
            self.cluster,
            arguments.texts("topics", [topics] if isinstance(topics, str) else topics),
            start=StartPosition(start, at_ms, reset),
            partitions=None if partitions is None else arguments.numbers("partitions", partitions),
            group=None if group is None else arguments.text("group", group),
            timeout_s=None if timeout_s is None else arguments.seconds("timeout_s", timeout_s),
            until_end=until_end,
            isolation=isolation,
            auto_commit=auto_commit,
            on_reset=on_reset,
        )

    # Groups

    def groups(self) -> list[ListedGroup]:
        from kraftlog.client import groups

        return groups.list_all(self.cluster)

    def describe_group(self, name: str) -> Group:
        from kraftlog.client import groups

        return groups.describe(self.cluster, arguments.text("group", name))

    def delete_group(self, name: str) -> None:
        from kraftlog.client import groups

        groups.delete(self.cluster, arguments.text("group", name))

    def committed(
        self, group: str, partitions: Iterable[PartitionName] | None = None
    ) -> dict[PartitionName, GroupOffset]:
        """The committed offsets of a group."""
        from kraftlog.client import groups

        if partitions is not None:
            partitions = arguments.partition_names("partitions", partitions)
        return groups.committed(self.cluster, arguments.text("group", group), partitions)

    def reset_offsets(self, group: str, offsets: Mapping[PartitionName, int]) -> None:
        """Set the offsets of a group without members: `{("a-topic", 0): 42}`."""
        from kraftlog.client import groups

        checked_offsets = arguments.partition_offsets("offsets", offsets)
        groups.commit(self.cluster, arguments.text("group", group), checked_offsets)

    def delete_offsets(
        self, group: str, partitions: Sequence[PartitionName]
    ) -> dict[PartitionName, int]:
        """Delete committed offsets; return the error code of each, 0 for success."""
        from kraftlog.client import groups

        names = arguments.partition_names("partitions", partitions)
        return groups.delete_offsets(self.cluster, arguments.text("group", group), names)

    # Configs

    def describe_configs(
        self, kind: str, name: str = "", *, linearizable: bool = False
    ) -> list[Setting]:
        """The configs of a resource; `kind` is one of topics, brokers, groups, …"""
        from kraftlog.client import configs

        resource_type = configs.resource_type_of(kind)
        return configs.describe(self.cluster, resource_type, [name], linearizable=linearizable)[
            name
        ]

    def alter_configs(
        self,
        kind: str,
        name: str,
        changes: Mapping[str, ConfigValue | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set or delete (None) some configs, and leave the others as they are."""
        from kraftlog.client import configs

        resource_type = configs.resource_type_of(kind)
        arguments.mapping("changes", changes, '{"retention.ms": 60_000}')
        configs.alter(self.cluster, resource_type, name, changes, validate_only=validate_only)

    def config_resources(self, kind: str, *, linearizable: bool = False) -> list[str]:
        """The names of the groups or client metrics that have configs; of other kinds, all."""
        from kraftlog.client import configs

        return configs.resources_with_configs(
            self.cluster, configs.resource_type_of(kind), linearizable=linearizable
        )

    # The cluster

    def describe_cluster(
        self, *, fenced: bool = False, linearizable: bool = False
    ) -> ClusterDescription:
        """The cluster id and the brokers; `fenced` includes fenced ones."""
        from kraftlog.client import nodes

        return nodes.describe(self.cluster, fenced=fenced, linearizable=linearizable)

    def unregister_broker(self, broker: int) -> None:
        from kraftlog.client import nodes

        nodes.unregister(self.cluster, arguments.number("broker", broker))

    def unregister_controller(self, controller: int) -> None:
        """Remove a controller's registration; one that runs registers again."""
        from kraftlog.client import nodes

        nodes.unregister_controller(self.cluster, arguments.number("controller", controller))

    def api_versions(self, broker: int = ANY) -> ApiVersionsResponse:
        from kraftlog.client import nodes

        return nodes.api_versions(self.cluster, broker)

    def features(self, broker: int = ANY) -> Features:
        from kraftlog.client import nodes

        return nodes.features(self.cluster, broker)

    def update_features(
        self, levels: Mapping[str, int], *, upgrade_type: int = 1, validate_only: bool = False
    ) -> None:
        """Update feature levels; type 1: upgrade, 2: safe downgrade, 3: unsafe downgrade."""
        from kraftlog.client import nodes

        arguments.mapping("levels", levels, '{"metadata.version": 30}')
        nodes.update_levels(
            self.cluster, levels, upgrade_type=upgrade_type, validate_only=validate_only
        )

    def log_dirs(
        self, brokers: Sequence[int] | None = None
    ) -> dict[int, tuple[DescribeLogDirsResult, ...]]:
        """The log directories of some brokers, or of all, with their replicas."""
        from kraftlog.client import nodes

        if brokers is None:
            brokers = [each.id for each in self.describe_cluster().brokers]
        return nodes.log_dirs(self.cluster, arguments.numbers("brokers", brokers))

    def move_replicas(
        self, targets: Mapping[tuple[str, int, int], str]
    ) -> dict[tuple[str, int, int], RefusedError]:
        """Move replicas, by topic, partition and broker, to other log directories of their brokers.

        Returns the refused ones. While a move is under way, `log_dirs` shows a future replica.
        """
        from kraftlog.client import directory_moves

        arguments.mapping("targets", targets, '{("topic", 0, 1): "/disk2"}')
        return directory_moves.begin(self.cluster, targets)

    def describe_quorum(self) -> Quorum:
        from kraftlog.client import nodes

        return nodes.quorum(self.cluster)

    def add_voter(
        self, voter: int, directory: Uuid, listeners: Sequence[tuple[str, str, int]]
    ) -> None:
        """Add a controller to the voters; listeners are (name, host, port)."""
        from kraftlog.client import voter_plans

        voter_plans.add(self.cluster, voter, directory, listeners)

    def voter_directory(self, voter: int, directory: Uuid | None = None) -> Uuid:
        """The directory id of a voter, which must be `directory` if that is given.

        Raises ConfigError without such a voter, or if its directory id is not recorded.
        """
        from kraftlog.client import nodes

        return nodes.voter_directory(self.cluster, voter, directory)

    def remove_voter(self, voter: int, directory: Uuid) -> None:
        from kraftlog.client import nodes

        nodes.remove_voter(self.cluster, voter, directory)

    def reassign_voters(self, targets: Sequence[int] | None) -> None:
        """Move the quorum to these voters, one by one; None cancels an unfinished move.

        Returns once the targets are committed, not when the quorum has reached them;
        `describe_quorum` shows them until then.
        """
        from kraftlog.client import nodes

        nodes.reassign_voters(self.cluster, targets)
