"""Metrics of the metadata quorum: Kafka's group raft-metrics (Q35)."""

from __future__ import annotations

from kraftlog.node.metrics.family import COUNTER, GAUGE, UNTYPED, Family, single
from kraftlog.raft import quorum
from kraftlog.raft.describe import describe
from kraftlog.raft.roles.leader import Leader
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.metrics.family import Samples
    from kraftlog.node.node import Node
    from kraftlog.node.quorum.quorum_latency import QuorumLatency, Window
    from kraftlog.raft.core import RaftCore
    from kraftlog.types import Now

PREFIX = "kafka_server_raftmetrics_"
#: The prefix of metrics that Kafka does not have.
OWN_PREFIX = "kraftlog_quorum_"
#: What the Strimzi Metrics Reporter writes in place of `PREFIX`.
REPORTER_PREFIX = "kafka_server_raft_metrics_"
UNKNOWN = -1
#: Kafka's names of states, where they differ from the raft core's.
KAFKA_STATES = {quorum.VOTED: "unattached-voted"}


def high_watermark(core: RaftCore) -> int:
    """The high watermark; -1 if unknown."""
    return core.log.high_watermark or UNKNOWN


def _state(node: Node, _: Now) -> Samples:
    name = node.quorum.core.role.name
    return [((("current_state", KAFKA_STATES.get(name, name)),), 1)]


def _vote(node: Node, _: Now) -> float:
    voted = node.quorum.core.election.voted
    return UNKNOWN if voted is None else voted.id


def _unknown_voters(node: Node, _: Now) -> float:
    core = node.quorum.core
    return sum(1 for v in core.log.voter_set.voters if v.key.id != core.me.id and not v.endpoints)


def _observers(node: Node, now: Now) -> float:
    """The observers that fetch from this leader; NaN on other nodes."""
    description = describe(node.quorum.core, now)
    return float("nan") if description is None else len(description.observers)


def _uncommitted_change(node: Node, _: Now) -> float:
    log = node.quorum.core.log
    return int(log.voters.latest_offset >= log.high_watermark)


def _core(name: str, help_text: str, value: Callable[[RaftCore], float]) -> Family:
    return single(PREFIX + name, GAUGE, help_text, lambda node, _: value(node.quorum.core))


def _latency(
    name: str, interval: str, window: Callable[[QuorumLatency], Window], prefix: str = PREFIX
) -> tuple[Family, ...]:
    """Two families: average and maximum."""
    return (
        single(
            f"{prefix}{name}_latency_avg",
            GAUGE,
            f"Milliseconds {interval}, average over the last minute; NaN if none.",
            lambda node, now: window(node.quorum.latency).average(now.monotonic_ms),
        ),
        single(
            f"{prefix}{name}_latency_max",
            GAUGE,
            f"Milliseconds {interval}, maximum over the last minute; NaN if none.",
            lambda node, now: window(node.quorum.latency).maximum(now.monotonic_ms),
        ),
    )


def _voter_lags(node: Node, now: Now) -> Samples:
    """By voter, on the leader: how many records its log lacks."""
    core = node.quorum.core
    description = describe(core, now)
    voters = () if description is None else description.voters
    return [((("voter", str(it.key.id)),), core.log.end - max(it.end_offset, 0)) for it in voters]


def _voter_contacts(node: Node, now: Now) -> Samples:
    """By voter, on the leader: milliseconds since its last fetch, or since the epoch began.

    Never NaN, because a comparison with NaN never fires an alert: a voter that has not fetched in
    this epoch must be noticed, too.
    """
    core = node.quorum.core
    description = describe(core, now)
    if description is None or not isinstance(core.role, Leader):
        return []
    led_ms = now.monotonic_ms - core.role.elected_at
    return [
        (
            (("voter", str(voter.key.id)),),
            max(led_ms if voter.fetched_ms < 0 else now.wall_ms - voter.fetched_ms, 0),
        )
        for voter in description.voters
    ]


def _with_reporter_name(family: Family) -> Family:
    """The same family under the name that the Strimzi Metrics Reporter gives it."""
    suffix = "_info" if family.kind == UNTYPED else ""
    name = REPORTER_PREFIX + family.name.removeprefix(PREFIX) + suffix
    return Family(name, GAUGE, family.help, family.measure)


_FAMILIES = (
    Family(PREFIX + "current_state", UNTYPED, "1 for the current state of this replica.", _state),
    single(
        PREFIX + "current_leader",
        GAUGE,
        "Id of the quorum's leader; -1 if unknown.",
        lambda node, _: node.quorum.leader_id,
    ),
    _core("current_epoch", "Current leader epoch of the quorum.", lambda core: core.election.epoch),
    single(
        PREFIX + "current_vote",
        GAUGE,
        "Id of the candidate voted for in this epoch; -1 if none.",
        _vote,
    ),
    _core("high_watermark", "High watermark of the metadata log.", high_watermark),
    _core("log_end_offset", "Log end offset of the metadata log.", lambda core: core.log.end),
    _core(
        "log_end_epoch",
        "Leader epoch of the last record in the metadata log.",
        lambda core: core.log.last_epoch,
    ),
    _core("number_of_voters", "Number of voters.", lambda core: len(core.log.voter_set.voters)),
    single(
        PREFIX + "number_of_observers",
        GAUGE,
        "Number of observers; NaN if this node is not the leader.",
        _observers,
    ),
    single(
        PREFIX + "uncommitted_voter_change",
        GAUGE,
        "1 while a voter change is uncommitted.",
        _uncommitted_change,
    ),
    single(
        PREFIX + "number_unknown_voter_connections",
        GAUGE,
        "Voters without a known address.",
        _unknown_voters,
    ),
    *_latency("commit", "from a leader's append to its commit", lambda it: it.commits),
    *_latency("election", "from becoming a candidate to a known leader", lambda it: it.elections),
    *_latency(
        "change",
        "from a controller's decision until it was committed and applied",
        lambda it: it.changes,
        OWN_PREFIX,
    ),
    *_latency(
        "flush",
        "from an append to the metadata log until it was flushed",
        lambda it: it.flushes,
        OWN_PREFIX,
    ),
    *_latency("apply", "to apply committed records", lambda it: it.applying, OWN_PREFIX),
    *_latency(
        "commit_to_applied",
        "from learning of a commit until it was applied",
        lambda it: it.commits_to_applied,
        OWN_PREFIX,
    ),
    single(
        PREFIX + "append_records_rate",
        GAUGE,
        "Records per second appended as leader, over the last minute.",
        lambda node, now: node.quorum.latency.appended.per_second(now.monotonic_ms),
    ),
    single(
        PREFIX + "fetch_records_rate",
        GAUGE,
        "Records per second fetched from the leader, over the last minute.",
        lambda node, now: node.quorum.latency.fetched.per_second(now.monotonic_ms),
    ),
    single(
        OWN_PREFIX + "fetch_timeouts_total",
        COUNTER,
        "Times since the start that this node, as a follower or observer, did not reach the leader "
        "within the fetch timeout, which is shorter if the leader was found dead; a follower that "
        "then campaigns at once is not counted.",
        lambda node, _: node.quorum.core.fetch_timeouts,
    ),
    single(
        OWN_PREFIX + "election_timeouts_total",
        COUNTER,
        "Times since the start that this voter knew no leader, or won no election, within the "
        "election timeout.",
        lambda node, _: node.quorum.core.election_timeouts,
    ),
    single(
        OWN_PREFIX + "refused_epochs_total",
        COUNTER,
        "Vote, BeginQuorumEpoch and EndQuorumEpoch requests since the start that named an epoch "
        "which no election explains.",
        lambda node, _: node.quorum.core.refused_epochs,
    ),
    Family(
        OWN_PREFIX + "voter_lag",
        GAUGE,
        "By voter: records of the leader's log that it lacks; on the leader only.",
        _voter_lags,
    ),
    Family(
        OWN_PREFIX + "voter_last_contact_ms",
        GAUGE,
        "By voter: milliseconds since its last fetch in this epoch, or since the epoch began if "
        "it has not fetched in it; on the leader only.",
        _voter_contacts,
    ),
)
FAMILIES = (
    *_FAMILIES,
    *[_with_reporter_name(each) for each in _FAMILIES if each.name.startswith(PREFIX)],
)
