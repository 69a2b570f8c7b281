"""A node under random, plausible requests: all readers of its logs end in the same state.

Requests name things that exist on the node (topics, members, epochs, voters, snapshots), are nearly
valid (see `valid_requests`), or have one kind of malformed value in all fields. They arrive on both
listeners, peers send random responses, and between requests the node is killed and restarted.
`check` replays the logs as another node, a coordinator and a reader of a snapshot would.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from kraftlog.config.endpoints import QuorumVoter
from kraftlog.effects import RequestFailed, ResponseReceived, VersionUnsupported
from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.groups.shard import GroupShard
from kraftlog.logstate.voters import VoterSet
from kraftlog.metadata.image import Image
from kraftlog.node.api_table import SERVED
from kraftlog.node.controller.active_controller import first_levels
from kraftlog.node.coordinators.group_log import replay
from kraftlog.node.quorum.batches import METADATA_LOG, end_of, records_in
from kraftlog.node.quorum.snapshots import check_snapshot, snapshot_pieces
from kraftlog.runner.recovered_log import newest_snapshot, read_batches
from kraftlog.storage.format import DirectoryFormat, format_directory
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER
from kraftlog.wire.messages.join_group import JoinGroupRequest
from kraftlog_simulator.files import MemoryFiles
from tests.node.frame_client import FrameClient, create_topics
from tests.node.test_hostile_requests import HostileSampler
from tests.node.valid_requests import VALID, nearly_valid
from tests.virtual_host import CLUSTER_ID, SETTINGS, VirtualHost, directory_id_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from kraftlog.types import Buffer

GROUPS = "__consumer_offsets"
TOPICS = {"demo": 2, "other": 1, GROUPS: 2}
#: Each served API and version.
CASES = [(served.key, version) for served in SERVED.values() for version in served.versions]
#: Those for which `valid_requests` has a request.
COMMON = [(key, version) for key, version in CASES if key in VALID]
#: Probabilities that a field names something that exists on the node; one per request.
EXISTING_RATES = (0.5, 0.75, 0.97)
#: Strings of the maximum length, in characters of one byte and of two; and longer ones.
LONG_STRINGS = ("x" * 32_767, "ä" * 16_383, "x" * 32_760, "x" * 20_000, "x" * 70_000)
CONFIGS = (
    ("retention.ms", "1000"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete,compact"),
    ("min.insync.replicas", "1"),
    ("max.message.bytes", "1000"),
    ("segment.bytes", "2000000"),
    ("metrics", "a,b"),
    ("interval.ms", "1000"),
    ("leader.replication.throttled.replicas", "*"),
    ("leader.replication.throttled.replicas", "0:1"),
    ("consumer.session.timeout.ms", "45000"),
    ("log.retention.ms", "5"),
    ("unclean.leader.election.enable", "true"),
)


class InformedSampler(HostileSampler):
    """Random requests about existing things; `kind` is the kind of malformed values, if any.

    The `target` is the node that gets the requests.
    """

    def __init__(self, random: Random, target: FuzzedNode) -> None:
        super().__init__(random)
        self.target = target
        self.topic_ids = tuple(target.host.node.image.topics) or (bytes(16),)
        self.existing_rate = random.choice(EXISTING_RATES)

    def primitive(self, kind: str, name: str = "") -> object:
        if name == "cluster_id":
            return CLUSTER_ID
        if self.random.random() < self.existing_rate:
            existing = self.existing(kind, name)
            if existing:
                return self.random.choice(existing)
        if kind == "string" and self.kind == "long":
            return self.random.choice(LONG_STRINGS if self.flexible else LONG_STRINGS[:-1])
        return super().primitive(kind, name)

    def existing(self, kind: str, name: str) -> Sequence[Any]:
        """Existing values for a field of this name."""
        if name in {"voter_directory_id", "directory_id", "replica_directory_id"}:
            return self.target.directory_ids
        node = self.target.host.node
        image, quorum = node.image, node.quorum
        if kind in {"int32", "int64", "int16", "int8"}:
            return self._numbers(name)
        if kind == "uuid":
            if name == "topic_id":
                return [*image.topics]
            return [b"\x01" * 16, bytes(16), *[b.incarnation_id for b in image.brokers.values()]]
        if kind != "string":
            return []
        if name == "topic_name":
            return ["__cluster_metadata", *image.topic_ids]
        if name in {"topic", "topic_names", "topics"}:
            return [*image.topic_ids]
        if name in {"group_id", "groups", "groups_names", "key", "coordinator_keys"}:
            return ["g", "h"]
        if name == "member_id":
            return [*self.target.member_ids, ""]
        if name == "group_instance_id":
            return ["i", "j"]
        if name in {"protocol_name", "protocol_type"}:
            return ["consumer", "range"]
        if name in {"name", "resource_name", "configuration_keys", "feature"}:
            names = [*image.topic_ids, "new", "1", "", "metadata.version", "kraft.version"]
            return [
                *names,
                "CONTROLLER",
                "PLAINTEXT",
                *[key for key, _ in CONFIGS],
                *image.features,
            ]
        if name == "value":
            return [value for _, value in CONFIGS]
        if name == "host":
            return ["127.0.0.1", str(quorum.leader_id)]
        return []

    def _numbers(self, name: str) -> list[int]:
        node = self.target.host.node
        log, image = node.quorum.core.log, node.image
        if name.endswith("_id") or name in {"broker_ids", "replicas", "preferred_successors"}:
            if name in {"session_id", "producer_id"}:
                return [0, 1, *node.fetch_sessions._sessions]
            return [1, 1, 1, 2, -1]
        if name in {"broker_epoch", "previous_broker_epoch", "replica_epoch"}:
            return [broker.epoch for broker in image.brokers.values()]
        if name.endswith("epoch"):
            return [node.quorum.epoch, node.quorum.epoch + 1, 0, -1]
        if name in {"partition", "partition_index", "partitions", "partition_indexes", "index"}:
            return [0, 1]
        if name == "count":
            return [1, 2, 3, 5]
        if name in {"num_partitions", "replication_factor"}:
            return [-1, 1, 2]
        if name.startswith("generation_id"):
            return [-1, 0, 1, 2, 3]
        if name in {"end_offset", "fetch_offset", "last_offset", "current_metadata_offset"}:
            offsets = [log.end, log.high_watermark, log.start, 0]
            return [log.snapshot.offset, *offsets] if log.snapshot is not None else offsets
        if name in {"position", "offset"}:
            return [0, 1, 100]
        if name in {"session_timeout_ms", "rebalance_timeout_ms"}:
            return [6000, 10_000, 30_000]
        if name.endswith("timeout_ms") or name == "max_wait_ms":
            return [0, 10, 1000]
        if name == "resource_type":
            return [2, 4, 16, 32]
        if name == "config_operation":
            return [0, 1, 2, 3]
        if name == "acks":
            return [-1, 0, 1]
        if name in {"max_bytes", "partition_max_bytes"}:
            return [100, 1 << 20]
        if name == "max_version_level":
            return [0, 1, 30]
        return []


class Peers:
    """Other nodes; `FuzzedNode.deliver_reports` sends random responses to the kept requests."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def send(self, effect: Any) -> None:
        self.requests.append(effect)


class FuzzedNode:
    """One node on one disk, through several starts."""

    directory_ids: tuple[bytes, ...] = (directory_id_of(1), bytes(16))
    sampler_type = InformedSampler
    #: The client of the last request, if any, its listener, and the version.
    client: FrameClient | None = None
    listener = BROKER
    version = 0

    def __init__(self, random: Random) -> None:
        self.random = random
        self.files = MemoryFiles()
        self.member_ids: list[str] = []
        self.peers = Peers()
        #: The steps so far, shown after a failure.
        self.done: list[str] = []
        self.begin()
        create_topics(self.host, TOPICS)
        self.host.settle()

    def begin(self) -> None:
        self.host = self.start(self.files, self.peers)
        self.host.settle()

    def start(self, files: MemoryFiles, peers: Peers) -> VirtualHost:
        """Start a node on this disk."""
        return VirtualHost(files, peers=peers, settled=False)

    @property
    def is_over(self) -> bool:
        """Whether the node, ten seconds later, no longer leads, so that requests have no effect."""
        self.settle(10_000)
        active_controller = self.host.node.active_controller
        return active_controller is None or not active_controller.is_active

    def run_steps(self, steps: int) -> None:
        """Run this number of steps and check; stop without a check once the node does not lead."""
        for number in range(steps):
            self.step()
            if number % 10 == 9 and self.is_over:
                return
        self.check()

    def step(self) -> None:
        draw = self.random.random()
        if draw < 0.02:
            self.restart()
        elif draw < 0.06:
            self.check()
        elif draw < 0.1:
            self.done.append("time passes")
            self.settle(self.random.choice((100, 1000, 10_000, 60_000)))
        else:
            self.request(*self.next_case())
        self.deliver_reports()

    def next_case(self) -> tuple[int, int]:
        """The API of the next request, and its version."""
        return self.random.choice(COMMON if self.random.random() < 1 / 3 else CASES)

    def request(self, key: int, version: int) -> None:
        sampler = self.sampler_type(self.random, self)
        listeners = [it for it in (BROKER, CONTROLLER) if APIS[key].listeners & it]
        client = FrameClient(self.host, listener := self.random.choice(listeners))
        self.client, self.listener, self.version = client, listener, version
        if self.random.random() < 0.3:
            sampler.kind = self.random.choice(HostileSampler.KINDS)
        if self.random.random() < 0.03:
            client.client_id = self.random.choice(LONG_STRINGS[:4])
        if key in VALID and self.random.random() < 0.7:
            request = nearly_valid(self, sampler, key, version)
        else:
            request = sampler.message(APIS[key].request(), version)
        request = self.alter_request(key, request)
        if request is None:
            return
        self.done.append(f"{APIS[key].name} v{version} on {listener}: {request!r:.3000}")
        frame = client.overlong_frame(key, version, request)
        end, is_alone = self.host.node.quorum.end, not self.host.node.sliced.has_work
        try:
            self.host.send(client.connection, frame)
        except ProtocolError:
            assert self.host.node.quorum.end == end, "a malformed request has changed something"
            return
        self.host.turn()
        answers = client.take()
        if is_alone and len(answers) == 1 and _is_refused(answers[0][1]):
            assert self.host.node.quorum.end == end, "a refused request has changed something"
        self.host.pass_time(self.random.choice((0, 1, 10)))
        for _, answer in [*answers, *client.take()]:
            if not _is_static_join(request):
                self.check_response(answer)
            member_id = getattr(answer, "member_id", "")
            if member_id:
                self.member_ids = [*self.member_ids[-5:], member_id]
        if self.random.random() < 0.3:
            for pending in client.connection.responses:
                pending.abandon()

    def check_response(self, answer: Any) -> None:
        """Check that a response reports no internal error."""
        codes = [*codes_in(answer)]
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes, f"{answer!r:.2000}"

    def address_of(self, voter_id: int) -> tuple[str, int]:  # noqa: ARG002 - as `alter_request`
        """The endpoint that an AddRaftVoter request has for a voter."""
        return "h", 9

    def alter_request(self, key: int, request: Any) -> Any:  # noqa: ARG002 - a subclass uses it
        """The request to send instead; None if none is sent."""
        return request

    def deliver_reports(self) -> None:
        """Report an outcome for each of the node's own requests."""
        requests, self.peers.requests = self.peers.requests, []
        for effect in requests:
            report: Any = RequestFailed(effect.channel, effect.peer, effect.number)
            draw = self.random.random()
            if draw < 0.1:
                report = VersionUnsupported(effect.channel, effect.peer, effect.number)
            elif draw < 0.5:
                sampler = InformedSampler(self.random, self)
                answer = sampler.message(APIS[effect.api_key].response(), effect.version)
                self.done.append(f"peer {effect.peer} answers {answer!r:.3000}")
                report = ResponseReceived(effect.channel, effect.peer, effect.number, answer)
            self.host.node.handle(report, self.host.now)
            self.host.turn()

    def settle(self, ms: int = 0) -> None:
        """Let time pass in ten steps, so that timers run about when they are due."""
        for _ in range(10):
            self.host.pass_time(ms // 10)
            self.host.settle()
            self.deliver_reports()

    def restart(self) -> None:
        self.done.append("killed, and started again")
        self.files.kill()
        self.peers.requests.clear()
        self.check_log_lines()
        self.host = self.start(self.files, self.peers)
        self.settle(3000)

    def check_log_lines(self) -> None:
        wrong = [line for line in self.host.log_lines if "internal error" in line]
        assert not wrong, wrong[0]

    # Readers of the logs --------------------------------------------------------------------------

    def check(self) -> None:
        """Check that all readers of the logs end in the same state."""
        self.done.append("checked")
        self.settle(100)
        self.check_log_lines()
        node = self.host.node
        if node.active_controller is not None and node.active_controller.is_active:
            assert node.active_controller.controller.state.maps() == node.image.maps()
        if node.quorum.applied == node.quorum.core.log.end:
            assert self._replayed().maps() == node.image.maps(), "another node replays the same"
        self._check_snapshot()
        self._check_groups()
        files = deepcopy(self.files)
        files.kill()
        copy = self.start(files, Peers())
        for _ in range(30):
            copy.pass_time(100)
            copy.settle()
        assert copy.node.image.topic_ids == node.image.topic_ids
        assert copy.node.image.configs == node.image.configs

    def _replayed(self) -> Image:
        image = Image()
        log = self.host.runner.directory.logs[METADATA_LOG]
        snapshot = newest_snapshot(log, self.host.log_lines.append)
        offset = log.start_offset
        if snapshot is not None:
            self._replay_into(image, snapshot.content)
            offset = max(offset, snapshot.end.offset)
        while data := read_batches(log, offset, log.end_offset):
            self._replay_into(image, data)
            offset = end_of(data)
        return image

    @staticmethod
    def _replay_into(image: Image, data: Buffer) -> None:
        for record in records_in(data):
            image.replay(record)

    def _check_snapshot(self) -> None:
        """Check that a snapshot of the image restores the same image."""
        node = self.host.node
        pieces = snapshot_pieces(node.image.records(), node.quorum.core.log.voter_set, 1, 0)
        data = b"".join(pieces)
        check_snapshot(data)
        image = Image()
        self._replay_into(image, data)
        not_in_snapshots: dict[str, Any] = {"transaction": {}, "held_back": {}, "removed": {}}
        assert {**image.maps(), **not_in_snapshots} == {**node.image.maps(), **not_in_snapshots}

    def _check_groups(self) -> None:
        """Check that another coordinator loads the same groups from the log."""
        coordinators = self.host.node.group_coordinators
        assert coordinators is not None
        for index, context in coordinators._shards.items():
            log = self.host.runner.directory.logs[GROUPS, index]
            other = GroupShard(context.shard.config, str, context.shard.topics)
            offset = log.start_offset
            while data := read_batches(log, offset, log.end_offset):
                offset = replay(other, memoryview(data), self.host.now)
            if not context.shard.is_loaded or context.partition.high_watermark < log.end_offset:
                continue
            assert other.durable.groups == context.shard.durable.groups
            assert other.durable.offsets.by_group == context.shard.durable.offsets.by_group


def _is_static_join(request: Any) -> bool:
    """Whether a static member joins: with a member id that is not its own yet, Kafka says -1."""
    return isinstance(request, JoinGroupRequest) and request.group_instance_id is not None


def _is_refused(answer: Any) -> bool:
    """Whether the response has only errors, except after a timeout, which may have an effect."""
    codes = [*codes_in(answer)]
    return bool(codes) and all(codes) and ErrorCode.REQUEST_TIMED_OUT not in codes


def codes_in(message: Any) -> Iterator[int]:
    """All error codes of a response."""
    for field in type(message)._schema:
        value = getattr(message, field.name)
        if field.name == "error_code":
            yield value
        elif field.struct is not None and value is not None:
            for each in value if field.is_array else (value,):
                yield from codes_in(each)


#: The settings of a node without static voters.
DYNAMIC = SETTINGS.replace("controller.quorum.voters=1@", "controller.quorum.bootstrap.servers=")


class FuzzedDynamicNode(FuzzedNode):
    """A node that is the only voter of a dynamic quorum: its log has the voter, not its file."""

    def begin(self) -> None:
        formatting = DirectoryFormat(
            cluster_id=CLUSTER_ID,
            node_id=1,
            features=first_levels(),
            metadata_directory="data",
            voters=[QuorumVoter(1, "127.0.0.1", 9093, directory_id=directory_id_of(1))],
            listener="CONTROLLER",
        )
        format_directory(self.files, "data", directory_id_of(1), formatting, 0)
        super().begin()

    def start(self, files: MemoryFiles, peers: Peers) -> VirtualHost:
        return VirtualHost(files, DYNAMIC, peers=peers, settled=False, voters=VoterSet())
