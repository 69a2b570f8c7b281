"""Three nodes, each broker and controller, and their requests to each other.

`run_steps` sends random, plausible requests to any node and listener (see `fuzzed_node`); between
requests a node is killed, loses its power or shuts down, so that another one leads. The nodes'
requests to each other are encoded, and some are lost. In the end all nodes must have one image.

No random request is sent in a voter's name, because a quorum relies on the requests of its voters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraftlog.effects import RequestFailed, ResponseReceived
from kraftlog.node.api_table import SERVED
from kraftlog.wire.apis import CONTROLLER, ApiKey
from kraftlog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kraftlog_simulator.files import MemoryFiles
from tests.node.frame_client import FrameClient
from tests.node.fuzzed_node import TOPICS, FuzzedNode
from tests.virtual_host import VirtualHost, directory_id_of, host_of, voters_named

if TYPE_CHECKING:
    from random import Random

    from kraftlog.effects import SendRequest

NODES = (1, 2, 3)
#: Requests that only voters send.
OF_VOTERS = frozenset((ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH))
CHANGES_OF_VOTERS = (ApiKey.ADD_RAFT_VOTER, ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
#: Enough time for two of three to elect a leader, and for brokers to be unfenced again.
ELECTION_MS = 30_000
#: How long to wait for a leader before concluding that a majority of the voters was removed.
NO_LEADER_MS = 120_000
SETTINGS = """\
process.roles=broker,controller
node.id={id}
listeners=PLAINTEXT://{host}:9092,CONTROLLER://{host}:9093
controller.listener.names=CONTROLLER
controller.quorum.voters={voters}
kraftlog.reserve.bytes=0
metadata.log.max.record.bytes.between.snapshots={bytes}
"""
#: The bytes of records after which a snapshot is due.
SNAPSHOT_BYTES = (1500, 5000, 1 << 20)


BROKER_PORT = 9092


def settings_of(node_id: int, snapshot_bytes: int) -> str:
    voters = ",".join([f"{i}@{host_of(i)}:9093" for i in NODES])
    return SETTINGS.format(id=node_id, host=host_of(node_id), voters=voters, bytes=snapshot_bytes)


class Network:
    """Carries the requests between nodes, each on a connection of its own."""

    def __init__(self, nodes: ThreeNodes) -> None:
        self.nodes = nodes
        #: Requests that are not sent yet, with their senders.
        self.requests: list[tuple[int, SendRequest]] = []
        #: Requests without a response: sender, receiver, request, connection, deadline.
        self.sent: list[tuple[int, int, SendRequest, FrameClient, int]] = []

    def carry(self) -> bool:
        """Carry all messages; return whether there were any."""
        requests, self.requests = self.requests, []
        for source, effect in requests:
            self._send(source, effect)
        sent, self.sent = self.sent, []
        carried = bool(requests)
        for entry in sent:
            source, target, effect, client, until_ms = entry
            host = self.nodes.hosts.get(source)
            answers = client.take()
            if answers:
                carried = True
                self._report(
                    source,
                    ResponseReceived(effect.channel, effect.peer, effect.number, answers[0][1]),
                )
            elif host is not None and host.now.monotonic_ms >= until_ms:
                carried = True
                self._abandon(client)
                self._report(source, RequestFailed(effect.channel, effect.peer, effect.number))
            elif host is not None and self.nodes.hosts.get(target) is client.host:
                self.sent.append(entry)
        return carried

    def _send(self, source: int, effect: SendRequest) -> None:
        nodes = self.nodes
        target = int(effect.host.rpartition(".")[2]) if effect.host.startswith("127.0.0.") else 0
        host = nodes.hosts.get(target)
        if source not in nodes.hosts:
            return
        if host is None or nodes.random.random() < nodes.loss:
            self._report(source, RequestFailed(effect.channel, effect.peer, effect.number))
            return
        if effect.port == BROKER_PORT:
            client = FrameClient(host)
        else:
            client = FrameClient(host, CONTROLLER, "CONTROLLER")
        version = min(effect.version, SERVED[effect.api_key].last)
        host.send(client.connection, client.frame(effect.api_key, version, effect.request))
        until_ms = nodes.hosts[source].now.monotonic_ms + effect.timeout_ms
        self.sent.append((source, target, effect, client, until_ms))

    def _report(self, source: int, report: Any) -> None:
        host = self.nodes.hosts.get(source)
        if host is not None:
            host.node.handle(report, host.now)

    def fail_requests_to(self, node_id: int) -> None:
        """Fail the requests to a node that has ended, and drop its own."""
        sent, self.sent = self.sent, []
        for entry in sent:
            source, target, effect, client, _ = entry
            if source == node_id:
                self._abandon(client)
            elif target == node_id:
                self._report(source, RequestFailed(effect.channel, effect.peer, effect.number))
            else:
                self.sent.append(entry)

    @staticmethod
    def _abandon(client: FrameClient) -> None:
        for pending in client.connection.responses:
            pending.abandon()


class NodePeers:
    """One node's access to the network."""

    def __init__(self, network: Network, node_id: int) -> None:
        self.network = network
        self.node_id = node_id

    def send(self, effect: Any) -> None:
        self.network.requests.append((self.node_id, effect))


class ThreeNodes(FuzzedNode):
    """Three nodes; `host` is the one that gets the next random request."""

    directory_ids = tuple([directory_id_of(i) for i in NODES])
    replication_factor = 1
    more_settings = ""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.member_ids: list[str] = []
        self.done: list[str] = []
        self.snapshot_bytes = random.choice(SNAPSHOT_BYTES)
        self.disks = {i: MemoryFiles() for i in NODES}
        self.network = Network(self)
        self.hosts: dict[int, VirtualHost] = {}
        #: Additional settings of single nodes, which take effect at a node's next start.
        self.own_settings: dict[int, str] = {}
        #: The probability that a request between nodes is lost.
        self.loss = 0.0
        self.time_ms = 0
        for node_id in NODES:
            self._start(node_id)
        self.settle(ELECTION_MS)
        self.host = self._leader()
        self._create_topics()
        self.loss = random.choice((0, 0, 0.02, 0.1))

    def _create_topics(self) -> None:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=self.replication_factor,
                assignments=(),
                configs=(),
            )
            for name, count in TOPICS.items()
        ]
        client = FrameClient(self.host)
        client.send(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
        self.settle(1000)
        [(_, answer)] = client.take()
        assert [topic.error_code for topic in answer.topics] == [0] * len(topics)

    # Nodes ---------------------------------------------------------------------------------------

    def _start(self, node_id: int) -> None:
        files = self.disks[node_id]
        host = VirtualHost(
            files,
            settings_of(node_id, self.snapshot_bytes)
            + self.more_settings
            + self.own_settings.get(node_id, ""),
            settled=False,
            peers=NodePeers(self.network, node_id),
            voters=voters_named(*NODES),
        )
        self.hosts[node_id] = host
        if self.time_ms:
            host.pass_time(self.time_ms)

    def _stop(self, node_id: int, *, power: bool) -> None:
        host = self.hosts.pop(node_id)
        self._check_log_lines_of(host)
        files = self.disks[node_id]
        if power:
            files.power_loss(self.random)
        else:
            files.kill()
        self.network.fail_requests_to(node_id)

    def _leader(self) -> VirtualHost:
        leaders = [it for it in self.hosts.values() if _is_active_controller(it)]
        assert leaders, "two of three have elected a leader"
        return leaders[-1]

    @property
    def is_over(self) -> bool:
        self.settle(10_000)
        return not any(_is_active_controller(host) for host in self.hosts.values())

    # Steps ---------------------------------------------------------------------------------------

    def step(self) -> None:
        draw = self.random.random()
        if len(self.hosts) == len(NODES) and draw < 0.05:
            self.stop_node(self.random.choice(NODES))
        elif len(self.hosts) < len(NODES) and draw < 0.15:
            self.restart_missing()
        self.host = self.random.choice(list(self.hosts.values()))
        if draw > 0.9:
            self.request(self.random.choice(CHANGES_OF_VOTERS), 0)
        super().step()

    def stop_node(self, node_id: int) -> None:
        end = self.random.choice(("killed", "without power", "shut down"))
        self.done.append(f"node {node_id}: {end}")
        if end == "shut down":
            host = self.hosts[node_id]
            host.node.shut_down(host.now)
            self.settle(2000)
        self._stop(node_id, power=end == "without power")
        self.settle(self.random.choice((0, 100, 3000, 12_000)))

    def restart_missing(self) -> None:
        for node_id in NODES:
            if node_id not in self.hosts:
                self.done.append(f"node {node_id} is started again")
                self._start(node_id)
        self.settle(self.random.choice((0, 100, 3000)))

    def restart(self) -> None:
        [node_id] = [i for i, host in self.hosts.items() if host is self.host]
        self.done.append(f"node {node_id}: killed, and started again")
        self._stop(node_id, power=False)
        self._start(node_id)
        self.host = self.hosts[node_id]
        self.settle(3000)

    def address_of(self, voter_id: int) -> tuple[str, int]:
        return host_of(voter_id), 9093

    def alter_request(self, key: int, request: Any) -> Any:
        """Send no request in a voter's name."""
        if key in OF_VOTERS:
            return None
        if key == ApiKey.FETCH:
            state = request.replica_state.replace(replica_id=-1)
            return request.replace(replica_id=-1, replica_state=state)
        return request

    def deliver_reports(self) -> None:
        self._carry()

    def settle(self, ms: int = 0) -> None:
        """Let time pass on all nodes, in steps."""
        step_ms = max(ms // 100, 10)
        self._carry()
        for _ in range(ms // step_ms):
            self.time_ms += step_ms
            for host in self.hosts.values():
                host.pass_time(self.time_ms - host.now.monotonic_ms)
            self._carry()

    def _carry(self) -> None:
        for _ in range(1000):
            for host in self.hosts.values():
                host.settle()
                self.time_ms = max(self.time_ms, host.now.monotonic_ms)
            if not self.network.carry():
                return
        raise AssertionError("the nodes do not become idle")

    # Checks --------------------------------------------------------------------------------------

    def check_log_lines(self) -> None:
        for host in self.hosts.values():
            self._check_log_lines_of(host)

    @staticmethod
    def _check_log_lines_of(host: VirtualHost) -> None:
        wrong = [line for line in host.log_lines if "internal error" in line]
        assert not wrong, wrong[0]

    def check(self) -> None:
        """Check that all nodes and a reader of their logs have the same image."""
        self.done.append("checked")
        loss, self.loss = self.loss, 0.0
        self.restart_missing()
        for _ in range(NO_LEADER_MS // 1000):
            self.settle(1000)
            if any(_is_active_controller(host) for host in self.hosts.values()):
                break
        else:
            return  # requests have removed the majority of the voters
        self.settle(ELECTION_MS)
        self.check_log_lines()
        leader = self._leader()
        image = leader.node.image
        assert leader.node.active_controller is not None
        assert leader.node.active_controller.controller.state.maps() == image.maps()
        for node_id, host in self.hosts.items():
            self.host = host
            assert host.node.quorum.applied == leader.node.quorum.applied, f"{node_id} is behind"
            assert host.node.image.maps() == image.maps(), f"{node_id} has another image"
            if host.node.quorum.applied == host.node.quorum.core.log.end:
                assert self._replayed().maps() == image.maps()
            self._check_snapshot()
            self._check_groups()
        self.loss = loss


def _is_active_controller(host: VirtualHost) -> bool:
    active_controller = host.node.active_controller
    return active_controller is not None and active_controller.is_active
