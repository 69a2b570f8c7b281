"""`Cluster`: finds the right broker for a request, and retries the request if it fails.

Retriable errors are retried until the deadline; between attempts, cached leaders and coordinators
are dropped. A cluster that was never reached fails at once, because the address may be wrong.
"""

from __future__ import annotations

from kraftlog.client.connection import Connection, usable
from kraftlog.client.deadline import Deadline
from kraftlog.client.model import (
    NO_LEADER,
    Broker,
    Topic,
    parse_servers,
    partition_from_response,
)
from kraftlog.client.versions import api_of
from kraftlog.errors import (
    RETRIABLE,
    ClientError,
    EndpointTypeError,
    ErrorCode,
    RefusedError,
    UnreachableError,
    UnsupportedApiError,
)
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import TypeVar

    from kraftlog.client.model import PartitionName
    from kraftlog.client.security import Security
    from kraftlog.wire.messages.metadata import MetadataResponseTopic
    from kraftlog.wire.schema import Message

    M = TypeVar("M", bound=Message)
    T = TypeVar("T")

#: Targets of a request; no broker has these ids.
ANY = -1
CONTROLLER = -2
#: The pause between two attempts of a request.
BACKOFF_S = 0.1
#: How long brokers may take to apply the creation of a topic or a change to it.
TOPIC_WAIT_S = 10.0
#: Endpoint types of DescribeCluster.
BROKERS, CONTROLLERS = 1, 2

#: Error codes that are retried: Kafka's retriable ones, without those that callers handle.
#: After REBOOTSTRAP_REQUIRED the client starts again from the bootstrap servers.
RETRIED = RETRIABLE - {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
} | {ErrorCode.REBOOTSTRAP_REQUIRED}
#: For fetches these as well: the leader has moved, or does not know the topic yet.
FETCH_RETRIED = RETRIED | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
#: APIs of partition leaders. For these UNKNOWN_TOPIC_OR_PARTITION is retried, because a new leader
#: may not have applied the metadata yet. If the topic was deleted, the next metadata response shows
#: that.
LEADER_APIS = {"DeleteRecords", "ListOffsets", "Produce"}


def is_retriable(error: RefusedError) -> bool:
    """Whether a request may be retried after this error code."""
    is_unknown = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return error.code in RETRIED or (is_unknown and error.api in LEADER_APIS)


class ErrorContext:
    """The API and broker of a request; turns error codes into exceptions."""

    def __init__(self, api: str, broker: str) -> None:
        self.api = api
        self.broker = broker

    def check(self, code: int, subject: str = "", message: str | None = None) -> None:
        if code:
            raise self.error(code, subject, message)

    def error(self, code: int, subject: str = "", message: str | None = None) -> RefusedError:
        return RefusedError(
            code, api=self.api, broker=self.broker, subject=subject, message=message
        )


class Cluster:
    """Connections and cached metadata; not thread-safe."""

    def __init__(
        self,
        servers: str,
        *,
        client_id: str,
        timeout_s: float,
        is_controllers: bool = False,
        security: Security | None = None,
    ) -> None:
        self.servers = parse_servers(servers)
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.security = security
        #: Whether the bootstrap servers are controllers.
        self.is_controllers = is_controllers
        self.brokers: dict[int, Broker] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self._topics: dict[str, Topic] = {}
        self._coordinators: dict[str, int] = {}
        self._connections: dict[int, Connection] = {}
        #: Whether any server has responded yet.
        self.was_reached = False
        #: The address of a broker that may be cut off from the others; it is tried last.
        self._avoided = ""

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        return Deadline(self.timeout_s if timeout_s is None else timeout_s)

    # Requests

    def call(
        self,
        request: Message,
        response_type: type[M],
        *,
        broker: int = ANY,
        version: int | None = None,
        deadline: Deadline | None = None,
        check: Callable[[M, ErrorContext], None] | None = None,
    ) -> M:
        """Send a request to a broker, ANY or CONTROLLER; retry until `check` raises no error."""
        limit = deadline or self.deadline()

        def attempt() -> M:
            chosen = self.controller(limit) if broker == CONTROLLER else broker
            connection = self.connection(chosen, limit)
            response = connection.call(request, limit, version)
            assert isinstance(response, response_type)
            if check is not None:
                try:
                    check(response, self.error_context(api_of(request).name, chosen))
                except RefusedError as error:
                    if error.code == ErrorCode.REQUEST_TIMED_OUT and broker == ANY:
                        self._avoid(connection)
                    raise
            return response

        return self.retry(attempt, limit)

    def retry(self, attempt: Callable[[], T], deadline: Deadline) -> T:
        """Retry `attempt` until it succeeds, fails for good, or the deadline passes.

        The last error is raised. But if the last attempt has sent no request, an earlier refusal is
        raised, as it says more.
        """
        failure: ClientError | None = None
        while True:
            try:
                return attempt()
            except UnreachableError as error:
                if error.was_sent or not isinstance(failure, RefusedError):
                    failure = error
                if not self.was_reached:
                    raise failure from None
            except RefusedError as error:
                if not is_retriable(error):
                    raise
                failure = error
            self.drop_cache()
            deadline.pause(BACKOFF_S)
            if deadline.is_over:
                raise failure

    def drop_cache(self) -> None:
        """Drop cached leaders and coordinators, which may have moved."""
        self._topics.clear()
        self._coordinators.clear()
        self.controller_id = -1

    def _rebootstrap(self) -> None:
        """Forget the brokers: one of the addresses leads to another broker or cluster now."""
        self.close()
        self.drop_cache()
        self.brokers.clear()
        self.cluster_id = None

    # Connections

    def connection(self, broker: int, deadline: Deadline) -> Connection:
        """An open connection to a broker; to any broker for ANY."""
        if broker == ANY:
            return self._any_connection(deadline)
        connection = usable(self._connections.get(broker))
        if connection is not None:
            return connection
        if broker not in self.brokers:
            self.refresh((), deadline)
        opened = self._connections[broker] = self.open_connection(broker, deadline)
        return opened

    def open_connection(self, broker: int, deadline: Deadline) -> Connection:
        """Open a new connection to a broker; callers whose requests wait long keep their own."""
        node = self.brokers.get(broker)
        if node is None:
            raise UnreachableError(f"broker {broker} is not in the cluster")
        return self._connect(broker, node.host, node.port, deadline)

    def _connect(self, node_id: int, host: str, port: int, deadline: Deadline) -> Connection:
        """Connect to a node, which refuses if it is another one (KIP-1242)."""
        try:
            return Connection(
                host,
                port,
                self.client_id,
                deadline,
                security=self.security,
                cluster_id=self.cluster_id,
                node_id=node_id,
            )
        except RefusedError as error:
            if error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self._rebootstrap()
            raise

    def _any_connection(self, deadline: Deadline) -> Connection:
        for node_id, connection in list(self._connections.items()):
            if usable(connection) is not None:
                return connection
            del self._connections[node_id]
        brokers = [(each.id, each.host, each.port) for each in self.brokers.values()]
        # The node id of a bootstrap server is not known yet, so ANY stands for it.
        bootstrap_servers = [(ANY, host, port) for host, port in self.servers]
        failures = []
        wrong: EndpointTypeError | None = None
        for node_id, host, port in sorted(
            brokers + bootstrap_servers,
            key=lambda server: f"{server[1]}:{server[2]}" == self._avoided,
        ):
            try:
                opened = self._connect(node_id, host, port, deadline)
            except UnreachableError as error:
                failures.append(str(error))
                continue
            try:
                self._check_endpoint_type(opened)
            except EndpointTypeError as error:
                wrong = wrong or error
                continue
            self._connections[node_id] = opened
            self.was_reached = True
            return opened
        if wrong is not None:
            raise wrong
        raise UnreachableError("no broker responds: " + "; ".join(dict.fromkeys(failures)))

    def _check_endpoint_type(self, connection: Connection) -> None:
        """Close the connection to a controller if brokers are expected, and the other way round.

        Some requests are served by both, but with different meanings.
        """
        is_broker = ApiKey.METADATA in connection.served
        is_controller = ApiKey.BROKER_HEARTBEAT in connection.served and not is_broker
        if is_broker if self.is_controllers else is_controller:
            connection.close()
            raise EndpointTypeError(connection.address, is_controller=is_controller)

    def _avoid(self, connection: Connection) -> None:
        """Prefer other brokers from now on: this one may be cut off from them."""
        connection.close()
        self._avoided = connection.address

    def broker_text(self, broker: int) -> str:
        node = self.brokers.get(broker)
        if node is not None:
            return f"broker {broker} at {node.address}"
        connection = self._connections.get(broker)
        return connection.address if connection is not None else "any broker"

    # Metadata

    def controller(self, deadline: Deadline) -> int:
        """The id of the controller; ANY if the metadata does not list it."""
        if self.controller_id < 0:
            self.refresh((), deadline)
        return self.controller_id if self.controller_id in self.brokers else ANY

    def refresh(
        self,
        names: Iterable[str] | None,
        deadline: Deadline,
        *,
        may_create: bool = False,
        linearizable: bool = False,
    ) -> Sequence[MetadataResponseTopic]:
        """Refresh brokers and these topics (None: all); return the topics."""
        if self.is_controllers:
            self._refresh_controllers(deadline)
            return ()
        requested = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(
            topics=requested, allow_auto_topic_creation=may_create, linearizable=linearizable
        )
        connection = self.connection(ANY, deadline)
        response = connection.call(request, deadline)
        assert isinstance(response, MetadataResponse)
        if response.error_code:
            self._avoid(connection)
            if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
                self._rebootstrap()
            raise ErrorContext("Metadata", connection.address).error(response.error_code)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            each.node_id: Broker(each.node_id, each.host, each.port, each.rack)
            for each in response.brokers
        }
        if names is None:
            self._topics.clear()
        for topic in response.topics:
            if topic.error_code:
                self._topics.pop(topic.name or "", None)
            else:
                self._topics[topic.name or ""] = _read_topic(topic)
        return response.topics

    def _refresh_controllers(self, deadline: Deadline) -> None:
        from kraftlog.wire.messages.describe_cluster import (
            DescribeClusterRequest,
            DescribeClusterResponse,
        )

        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
        )
        connection = self.connection(ANY, deadline)
        response = connection.call(request, deadline)
        assert isinstance(response, DescribeClusterResponse)
        context = ErrorContext("DescribeCluster", connection.address)
        context.check(response.error_code, message=response.error_message)
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            each.broker_id: Broker(each.broker_id, each.host, each.port)
            for each in response.brokers
        }

    def topic(
        self, name: str, deadline: Deadline | None = None, *, may_create: bool = False
    ) -> Topic:
        """A topic, from the cache if possible; raises RefusedError if it does not exist."""
        if self.is_controllers:
            raise UnsupportedApiError("a controller does not serve topics; connect to a broker")
        limit = deadline or self.deadline()
        creation_deadline = Deadline(min(TOPIC_WAIT_S, limit.left_s()))

        def attempt() -> Topic:
            cached = self._topics.get(name)
            if cached is not None:
                return cached
            for result in self.refresh([name], limit, may_create=may_create):
                if result.error_code:
                    is_unknown = result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    may_appear = may_create and is_unknown and not creation_deadline.is_over
                    code = ErrorCode.LEADER_NOT_AVAILABLE if may_appear else result.error_code
                    raise ErrorContext("Metadata", "any broker").error(code, f"topic {name}")
            return self._topics[name]

        return self.retry(attempt, limit)

    def all_topics(
        self, deadline: Deadline | None = None, *, linearizable: bool = False
    ) -> list[Topic]:
        """Every topic, by name."""
        limit = deadline or self.deadline()
        self.retry(lambda: self.refresh(None, limit, linearizable=linearizable), limit)
        return [self._topics[name] for name in sorted(self._topics)]

    def leader(self, topic: str, partition: int, deadline: Deadline) -> int:
        """The leader of a partition; raises a retriable error if there is none."""
        partitions = self.topic(topic, deadline).partitions
        for candidate in partitions:
            if candidate.index == partition:
                if candidate.leader == NO_LEADER or candidate.leader not in self.brokers:
                    raise ErrorContext("Metadata", "any broker").error(
                        ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}"
                    )
                return candidate.leader
        raise ErrorContext("Metadata", "any broker").error(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{topic}-{partition}",
            f"the topic has {len(partitions)} partitions",
        )

    def per_leader(
        self,
        partitions: Iterable[PartitionName],
        call_leader: Callable[[int, list[PartitionName]], None],
        deadline: Deadline,
    ) -> None:
        """Call `call_leader` for each leader with its partitions; after an error retry them all."""

        def attempt() -> None:
            by_leader: dict[int, list[PartitionName]] = {}
            for name in partitions:
                by_leader.setdefault(self.leader(*name, deadline), []).append(name)
            for broker, names in by_leader.items():
                call_leader(broker, names)

        self.retry(attempt, deadline)

    def error_context(self, api: str, broker: int) -> ErrorContext:
        return ErrorContext(api, self.broker_text(broker))

    def coordinator(self, group: str, deadline: Deadline) -> int:
        """The coordinator of a group."""
        from kraftlog.wire.messages.find_coordinator import (
            FindCoordinatorRequest,
            FindCoordinatorResponse,
        )

        cached = self._coordinators.get(group)
        if cached is not None:
            return cached

        def check(response: FindCoordinatorResponse, context: ErrorContext) -> None:
            context.check(response.error_code, f"group {group}", response.error_message)

        response = self.call(
            FindCoordinatorRequest(key=group, key_type=0),
            FindCoordinatorResponse,
            deadline=deadline,
            check=check,
        )
        self.brokers.setdefault(
            response.node_id, Broker(response.node_id, response.host, response.port)
        )
        self._coordinators[group] = response.node_id
        return response.node_id

    def call_coordinator(
        self,
        group: str,
        request: Message,
        response_type: type[M],
        *,
        deadline: Deadline | None = None,
        check: Callable[[M, ErrorContext], None] | None = None,
    ) -> M:
        """Send a request to the group's coordinator; look the coordinator up again if it moves."""
        limit = deadline or self.deadline()

        def attempt() -> M:
            broker = self.coordinator(group, limit)
            response = self.connection(broker, limit).call(request, limit)
            assert isinstance(response, response_type)
            if check is not None:
                check(response, self.error_context(api_of(request).name, broker))
            return response

        return self.retry(attempt, limit)


def _read_topic(result: MetadataResponseTopic) -> Topic:
    name = result.name or ""
    partitions = [
        partition_from_response(name, each)
        for each in sorted(result.partitions, key=lambda part: part.partition_index)
    ]
    return Topic(name, result.is_internal, tuple(partitions), result.topic_id)
