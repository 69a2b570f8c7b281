"""R9, R10: controllers find each other by DiscoverBrokers after restarts at other addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kraftlog import effects
from kraftlog.errors import ErrorCode
from kraftlog.node.channels import DISCOVERY_CHANNEL
from kraftlog.node.quorum.discovery import (
    LEADERLESS_RETRY_MS,
    LONGEST_RETRY_MS,
    REPEAT_REPORT_MS,
    Discovery,
)
from kraftlog.raft.messages import ElectionState
from kraftlog.types import Now
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.discover_brokers import (
    DiscoverBrokersRequest,
    DiscoverBrokersResponse,
    DiscoveredBroker,
)
from tests.node.quorum.test_driver import driver_with_voters

if TYPE_CHECKING:
    from kraftlog.node.quorum.driver import QuorumDriver

#: The new address of node 1; the log has 127.0.0.1:9091.
OWN = ("10.0.0.1", 9100)
#: A bootstrap server: a virtual IP address, which may be that of any node.
VIP = ("vip", 9093)
BOOT_MS = 50_000
START = Now(0, BOOT_MS)


def later(ms: int) -> Now:
    return Now(ms, BOOT_MS + ms)


class DiscoveryOfNode1:
    """The `Discovery` of node 1, in a quorum of these voters, and its effects."""

    def __init__(
        self,
        *voter_ids: int,
        own: tuple[str, int] | None = OWN,
        last_boot_ms: int = -1,
        epoch: int = 5,
        leader: int = -1,
        servers: tuple[tuple[str, int], ...] = (),
    ) -> None:
        machine, self.emitted = driver_with_voters(
            *voter_ids, election=ElectionState(epoch, leader)
        )
        assert machine.driver is not None
        self.quorum: QuorumDriver = machine.driver
        self.discovery = Discovery(
            self.quorum,
            self.emitted.append,
            START,
            own_endpoint=lambda: own,
            bootstrap_servers=servers,
            last_boot_ms=last_boot_ms,
            request_timeout_ms=2000,
        )
        self.emitted.clear()

    def poll(self, now: Now = START) -> list[effects.SendRequest]:
        """Poll, and write a boot timestamp at once if asked to; return the requests."""
        self.discovery.poll(now)
        for written in self.take(effects.WriteBootTimestamp):
            self.discovery.boot_written(effects.BootTimestampWritten(written.boot_timestamp_ms))
            self.discovery.poll(now)
        return [it for it in self.take(effects.SendRequest) if it.channel == DISCOVERY_CHANNEL]

    def take(self, kind: type) -> list[Any]:
        taken = [it for it in self.emitted if isinstance(it, kind)]
        self.emitted[:] = [it for it in self.emitted if not isinstance(it, kind)]
        return taken

    def respond(
        self, sent: effects.SendRequest, *brokers: DiscoveredBroker, now: Now = START, **fields: Any
    ) -> None:
        """Respond to a request as the node that it was sent to."""
        default: dict[str, Any] = {"cluster_id": "cluster", "node_id": sent.peer, "leader_epoch": 5}
        response = DiscoverBrokersResponse(brokers=brokers, **default | fields)
        self.discovery.request_ended(
            effects.ResponseReceived(DISCOVERY_CHANNEL, sent.peer, sent.number, response), now
        )

    def fail(self, sent: effects.SendRequest, now: Now = START) -> None:
        self.discovery.request_ended(
            effects.RequestFailed(DISCOVERY_CHANNEL, sent.peer, sent.number), now
        )

    def reach_all(self) -> None:
        """Poll, and respond to each request as the node that it was sent to."""
        for sent in self.poll():
            self.respond(sent)

    def ask(self, now: Now = START, *, may_report: bool = True, **values: Any) -> Any:
        """Node 1's response to a DiscoverBrokers request of another node or an operator."""
        fields: dict[str, Any] = {"cluster_id": "cluster"} | values
        request = DiscoverBrokersRequest(**fields)
        return self.discovery.respond_to(request, now, may_report=may_report)

    def report(self, node_id: int, port: int, boot_ms: int, **fields: Any) -> Any:
        """Node 1's response to a node that reports its new address."""
        values: dict[str, Any] = {"leader_epoch": 5} | fields
        address: dict[str, Any] = {"host": "10.0.0.9", "port": port}
        return self.ask(broker_id=node_id, boot_timestamp_ms=boot_ms, **address, **values)


def entry(node_id: int, port: int, boot_ms: int, epoch: int = 5) -> DiscoveredBroker:
    return DiscoveredBroker(
        broker_id=node_id, host="10.0.0.9", port=port, boot_timestamp_ms=boot_ms, leader_epoch=epoch
    )


def addresses_in(response: Any) -> dict[int, tuple[str, int, int]]:
    return {it.broker_id: (it.host, it.port, it.boot_timestamp_ms) for it in response.brokers}


# Reporting ---------------------------------------------------------------------------------------


def test_r9_a_started_controller_reports_itself_to_all_voters() -> None:
    node = DiscoveryOfNode1(1, 2, 3, servers=(VIP,))
    sent = node.poll()
    assert [(it.host, it.port) for it in sent] == [("127.0.0.1", 9092), ("127.0.0.1", 9093), VIP]
    assert {it.api_key for it in sent} == {ApiKey.DISCOVER_BROKERS}
    assert all(it.closes for it in sent)
    request = sent[0].request
    assert (request.cluster_id, request.broker_id) == ("cluster", 1)
    assert (request.host, request.port) == OWN
    assert (request.boot_timestamp_ms, request.leader_epoch) == (BOOT_MS, 5)


def test_r9_the_boot_timestamp_is_durable_before_it_is_sent() -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    node.discovery.poll(START)
    assert node.emitted == [effects.WriteBootTimestamp(BOOT_MS)]
    assert addresses_in(node.ask())[1] == (*OWN, -1)
    node.discovery.boot_written(effects.BootTimestampWritten(BOOT_MS))
    assert addresses_in(node.ask())[1] == (*OWN, BOOT_MS)


@pytest.mark.parametrize(("last_ms", "expected"), [(BOOT_MS - 1, BOOT_MS), (90_000, 90_001)])
def test_r9_the_boot_timestamp_grows_though_the_clock_went_back(
    last_ms: int, expected: int
) -> None:
    node = DiscoveryOfNode1(1, 2, 3, last_boot_ms=last_ms)
    assert node.poll()[0].request.boot_timestamp_ms == expected


def test_r9_a_sole_voter_reports_and_writes_nothing() -> None:
    node = DiscoveryOfNode1(1)
    assert node.poll() == []
    assert node.emitted == []
    assert node.discovery.deadline() is None


def test_r9_a_broker_only_asks() -> None:
    node = DiscoveryOfNode1(1, 2, 3, own=None)
    node.quorum.addresses.unreachable(2)
    node.discovery.poll(START)
    sent = node.poll(later(LEADERLESS_RETRY_MS))
    assert [it.peer for it in sent] == [2, 3]
    assert sent[0].request == DiscoverBrokersRequest(cluster_id="cluster")
    assert not node.take(effects.WriteBootTimestamp)


# Repeating ---------------------------------------------------------------------------------------


def test_r9_discovery_is_repeated_until_every_voter_is_reached() -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    now = START
    for _ in range(5):
        two, three = node.poll(now)
        assert node.discovery.deadline() is None, "one round at a time"
        node.respond(two, now=now)
        node.fail(three, now)
        node.discovery.poll(now)
        due_ms = node.discovery.deadline()
        assert due_ms is not None
        assert now.monotonic_ms < due_ms <= now.monotonic_ms + LEADERLESS_RETRY_MS
        now = later(due_ms)
    for sent in node.poll(now):
        node.respond(sent, now=now)
    assert node.poll(later(now.monotonic_ms + LEADERLESS_RETRY_MS)) == []


def test_r9_a_broken_connection_restarts_discovery() -> None:
    node = DiscoveryOfNode1(1, 2, 3, leader=2)
    node.reach_all()
    node.discovery.poll(START)
    assert node.discovery.deadline() is None
    node.quorum.addresses.unreachable(3)
    node.discovery.poll(START)
    due_ms = node.discovery.deadline()
    assert due_ms is not None
    assert [it.peer for it in node.poll(later(due_ms))] == [2, 3]


def test_r9_with_a_leader_the_retry_intervals_grow() -> None:
    """The log has the addresses by then, and a voter may be down for days."""
    node = DiscoveryOfNode1(1, 2, 3, leader=2)
    node.reach_all()
    node.quorum.addresses.unreachable(3)
    now, intervals = START, []
    for _ in range(9):
        node.discovery.poll(now)
        due_ms = node.discovery.deadline()
        assert due_ms is not None
        intervals.append(due_ms - now.monotonic_ms)
        now = later(due_ms)
        for sent in node.poll(now):
            node.fail(sent, now)
    assert intervals == sorted(intervals)
    assert intervals[-1] == LONGEST_RETRY_MS


def test_r9_without_a_leader_the_report_is_repeated() -> None:
    """A false report may have replaced this one at another node."""
    node = DiscoveryOfNode1(1, 2, 3)
    node.reach_all()
    node.discovery.poll(START)
    assert node.discovery.deadline() == REPEAT_REPORT_MS
    assert len(node.poll(later(REPEAT_REPORT_MS))) == 2


def test_r9_a_controller_of_kafka_is_not_asked_again() -> None:
    node = DiscoveryOfNode1(1, 2, leader=2)
    [sent] = node.poll()
    node.discovery.request_ended(
        effects.VersionUnsupported(DISCOVERY_CHANNEL, sent.peer, sent.number), START
    )
    node.discovery.poll(START)
    assert node.discovery.deadline() is None


# Remembering -------------------------------------------------------------------------------------


def test_r9_a_moved_voter_is_used_and_passed_on() -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    response = node.report(2, 9200, 100)
    assert node.quorum.address_of(2) == ("10.0.0.9", 9200)
    assert addresses_in(response)[2] == ("10.0.0.9", 9200, 100)
    assert addresses_in(response)[3] == ("127.0.0.1", 9093, -1)
    assert (response.cluster_id, response.leader_id, response.leader_epoch) == ("cluster", -1, 5)
    assert response.node_id == 1


def test_r9_a_response_brings_addresses_of_others() -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    two, three = node.poll()
    node.respond(two, entry(3, 9300, 100))
    assert node.quorum.address_of(3) == ("10.0.0.9", 9300)
    node.fail(three)
    node.discovery.poll(START)
    due_ms = node.discovery.deadline()
    assert due_ms is not None
    rounds = [node.poll(later(due_ms))]
    for sent in rounds[0]:
        node.fail(sent, later(due_ms))
    again_ms = node.discovery.deadline()
    assert again_ms is not None
    rounds.append(node.poll(later(again_ms)))
    ports = {it.port for sent in rounds for it in sent if it.peer == 3}
    assert ports == {9300, 9093}, "either address may be right"


def test_r9_a_report_of_an_older_start_is_not_accepted() -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    node.report(2, 9200, 200)
    node.report(2, 9201, 100)
    node.report(2, 9202, 300, leader_epoch=4)
    two, _ = node.poll()
    node.respond(two, entry(2, 9203, 100), entry(2, 9204, -1, -1))
    assert node.quorum.address_of(2) == ("10.0.0.9", 9200)


@pytest.mark.parametrize("node_id", [4, -1, 1])
def test_r9_a_report_of_a_node_that_is_no_member_is_not_remembered(node_id: int) -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    response = node.report(node_id, 9200, 100)
    assert sorted(addresses_in(response)) == [1, 2, 3]
    assert all(port != 9200 for _, port, _ in addresses_in(response).values())


def test_r9_on_a_brokers_listener_a_request_only_asks() -> None:
    """Clients can send to this listener, so their reports are not trusted."""
    node = DiscoveryOfNode1(1, 2, 3)
    address: dict[str, Any] = {"host": "10.0.0.9", "port": 9200}
    response = node.ask(may_report=False, broker_id=2, boot_timestamp_ms=100, **address)
    assert addresses_in(response)[2] == ("127.0.0.1", 9092, -1)


def test_r9_a_report_from_another_cluster_is_not_remembered() -> None:
    """A report in a request or in a response."""
    node = DiscoveryOfNode1(1, 2, 3)
    response = node.report(2, 9200, 100, cluster_id="other")
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert list(response.brokers) == []
    two, _ = node.poll()
    node.respond(two, entry(2, 9200, 100), cluster_id="other")
    assert node.quorum.address_of(2) == ("127.0.0.1", 9092)
    assert 2 in node.quorum.addresses.unreached


# False reports -----------------------------------------------------------------------------------


def test_r9_an_address_that_works_is_kept_despite_a_report() -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    node.reach_all()
    node.report(2, 6666, 100)
    assert node.quorum.addresses.use(2) == ("127.0.0.1", 9092)
    node.quorum.addresses.unreachable(2)
    assert node.quorum.addresses.use(2) == ("10.0.0.9", 6666)
    node.quorum.addresses.unreachable(2)
    assert node.quorum.addresses.use(2) == ("127.0.0.1", 9092)


def test_r9_another_node_at_the_address_does_not_count_as_reached() -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    two, three = node.poll()
    node.respond(two, node_id=3)
    node.respond(three)
    assert node.quorum.addresses.unreached == {2}


def test_r9_a_node_supersedes_a_false_report_of_itself() -> None:
    """It learns of the false report from the deceived node, and sends that node a newer report."""
    deceived, node = DiscoveryOfNode1(1, 2, 3), DiscoveryOfNode1(1, 2, 3)
    deceived.report(2, 6666, BOOT_MS + 5000, leader_epoch=77)
    false_report = entry(1, 6666, BOOT_MS + 5000, 77)
    two, three = node.poll()
    node.respond(two, false_report)
    node.respond(three)
    node.discovery.poll(START)
    due_ms = node.discovery.deadline()
    assert due_ms is not None
    request = node.poll(later(due_ms))[0].request
    assert (request.host, request.port) == OWN
    assert (request.leader_epoch, request.boot_timestamp_ms) == (77, BOOT_MS + 5001)
    deceived.ask(**report_fields_of(request) | {"broker_id": 2})
    assert deceived.quorum.known_nodes.of(2).address == OWN  # type: ignore[union-attr]  # a known node


def test_r9_a_node_does_not_supersede_its_own_report() -> None:
    node = DiscoveryOfNode1(1, 2, 3)
    two, three = node.poll()
    own = DiscoveredBroker(
        broker_id=1, host=OWN[0], port=OWN[1], boot_timestamp_ms=BOOT_MS, leader_epoch=5
    )
    node.respond(two, own)
    node.respond(three, entry(1, 9091, -1, -1))
    node.discovery.poll(START)
    assert node.quorum.addresses.unreached == set()
    assert not node.take(effects.WriteBootTimestamp)


def report_fields_of(request: DiscoverBrokersRequest) -> dict[str, Any]:
    names = ("host", "port", "boot_timestamp_ms", "leader_epoch")
    return {name: getattr(request, name) for name in names}


# Without voters ----------------------------------------------------------------------------------


def test_r10_a_node_without_voters_waits_discovers_and_logs_it() -> None:
    node = DiscoveryOfNode1(servers=(VIP, ("other", 1)))
    node.discovery.poll(START)
    due_ms = node.discovery.deadline()
    assert due_ms == LEADERLESS_RETRY_MS
    now = later(due_ms)
    sent = node.poll(now)
    assert [(it.host, it.port) for it in sent] == [VIP, ("other", 1)]
    node.fail(sent[0], now)
    node.respond(sent[1], entry(2, 9200, 100), now=now)
    [line] = [it.line for it in node.take(effects.LogLine)]
    assert "knows no voters yet and does not elect itself; it asks vip:9093, other:1" in line
    assert node.quorum.core.role.name == "observer"
    node.discovery.poll(now)
    again_ms = node.discovery.deadline()
    assert again_ms is not None
    peers = [(it.peer, it.host) for it in node.poll(later(again_ms))]
    assert peers[0] == (2, "10.0.0.9"), "discovered nodes are asked, too"


def test_r10_the_log_is_also_fetched_from_discovered_nodes() -> None:
    """The only bootstrap server may fail before the first fetch is answered."""
    node = DiscoveryOfNode1(servers=(VIP,))
    node.discovery.poll(START)
    [sent] = node.poll(later(LEADERLESS_RETRY_MS))
    node.respond(sent, entry(2, 9200, 100))
    node.quorum.poll(later(60_000))
    [fetch] = [it for it in node.take(effects.SendRequest) if it.api_key == ApiKey.FETCH]
    assert (fetch.peer, fetch.host, fetch.port) == (2, "10.0.0.9", 9200)
    assert not node.quorum.core.is_voter


def test_r10_a_node_without_voters_remembers_no_sender() -> None:
    """Any node could send a report; only nodes named by the bootstrap servers count."""
    node = DiscoveryOfNode1(servers=(VIP,))
    assert addresses_in(node.report(2, 9200, 100)) == {}
