"""Leader elections: after broker changes, by ElectLeaders, and periodic ones."""

from __future__ import annotations

from kraftlog.controller.decision import RECORDS_IN_BATCH, TOO_LARGE, Decision, Refusal
from kraftlog.controller.partition_change import (
    Election,
    PartitionChanges,
    PartitionTarget,
    partition_change,
    without,
)
from kraftlog.errors import ErrorCode
from kraftlog.metadata.values import NO_LEADER, DirectoryId
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kraftlog.controller.context import Context
    from kraftlog.controller.decision import DecisionInSteps
    from kraftlog.controller.index import Keys
    from kraftlog.controller.state import ControllerState
    from kraftlog.metadata.values import BrokerImage, PartitionImage, PartitionKey
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.elect_leaders import ElectLeadersRequest
    from kraftlog.wire.schema import Message

#: Cost of an election, in microseconds.
ELECTION_COST = 15
#: The recorded directories of replicas that may be in any directory of their broker.
_UNKNOWN = (DirectoryId.MIGRATING, DirectoryId.UNASSIGNED)


def remove_from_isrs(
    state: ControllerState, broker_id: int, *, lost_directory: bool = False
) -> list[Message]:
    """Remove a broker from every ISR and elect other leaders (V2, V3).

    `lost_directory`: it has registered without one of the directories that it had.
    """
    keys = state.index.in_isr.get(broker_id, {})
    return _remove_broker(state, broker_id, keys, lost_directory=lost_directory)


def remove_failed_directories(
    state: ControllerState, broker_id: int, failed: Sequence[Uuid]
) -> list[Message]:
    """Remove replicas in failed directories, or maybe in one of them, from every ISR (V18)."""
    affected = (*failed, *_UNKNOWN)
    in_isr = state.index.in_isr.get(broker_id, {})
    keys = {k: None for k in in_isr if state.partitions[k].directory(broker_id) in affected}
    return _remove_broker(state, broker_id, keys, lost_directory=True)


def remove_from_shared_isrs(state: ControllerState, broker_id: int) -> list[Message]:
    """As `remove_from_isrs`, for a broker that has shut down cleanly and registers again.

    It stays the leader of partitions that have no other replica: no other broker could lead them,
    and its log is complete, so the leader epoch need not change
    (docs/decisions/0018-leaders-of-sole-replicas.md).
    """
    keys = {
        key: None
        for key in state.index.in_isr.get(broker_id, {})
        if len(state.partitions[key].replicas) > 1
    }
    return _remove_broker(state, broker_id, keys, lost_directory=False)


def elect_returned_broker(state: ControllerState, broker_id: int) -> list[Message]:
    """Make an unfenced broker the leader of the leaderless partitions that it may lead (V2)."""

    def alive(broker: int) -> bool:
        return broker == broker_id or state.active(broker)

    records: list[Message] = []
    changes, wanted = PartitionChanges(state, alive), PartitionTarget()
    for key in sorted(state.index.leaderless):
        record = changes.record(state.partitions[key], wanted)
        if record is not None:
            records.append(record)
    return records


def elect_writable(state: ControllerState, broker: BrokerImage) -> list[Message]:
    """Elect leaders after the directories of a broker that can be written have changed (V18).

    `broker` has the change. A leader that cannot be written is replaced by a member of the ISR that
    can; if there is none it stays, for readers. No replica leaves the ISR for that: it stays while
    it keeps up (V8).
    """
    records: list[Message] = []
    changes, wanted = PartitionChanges(state, changed=broker), PartitionTarget()
    for key in sorted(state.index.in_isr.get(broker.id, {})):
        partition = state.partitions[key]
        record = changes.record(partition, wanted) if partition.leader != NO_LEADER else None
        if record is not None:
            records.append(record)
    return records


def remove_from_isrs_and_elrs(
    state: ControllerState, broker_id: int, *, lost_directory: bool = False
) -> list[Message]:
    """Remove an uncleanly stopped broker from every ISR and ELR."""
    index = state.index
    keys = {**index.in_isr.get(broker_id, {}), **index.in_elr.get(broker_id, {})}
    unclean = frozenset((broker_id,))
    return _remove_broker(state, broker_id, keys, unclean, lost_directory=lost_directory)


def _remove_broker(
    state: ControllerState,
    broker_id: int,
    keys: Keys,
    unclean: frozenset[int] = frozenset(),
    *,
    lost_directory: bool,
) -> list[Message]:
    """Remove a broker from the ISRs of partitions, and from their ELRs if it is `unclean`.

    If it has lost a directory, a replica whose directory is not recorded yet may have been in it:
    it counts as failed until its broker reports where it has found the log (V19).
    """

    def alive(broker: int) -> bool:
        return broker != broker_id and state.active(broker)

    if lost_directory:
        last_led = [k for k in state.index.leaderless if _led_last(state.partitions[k], broker_id)]
        keys = {**keys, **dict.fromkeys(last_led)}
    records: list[Message] = []
    changes = PartitionChanges(state, alive)
    targets: dict[tuple[tuple[int, ...], bool], PartitionTarget] = {}
    for key in sorted(keys):
        partition = state.partitions[key]
        has_failed = lost_directory and partition.directory(broker_id) in _UNKNOWN
        wanted = targets.get((partition.isr, has_failed))
        if wanted is None:
            wanted = PartitionTarget(
                isr=without(partition.isr, (broker_id,)),
                directories=((broker_id, DirectoryId.FAILED),) if has_failed else (),
                unclean=unclean,
            )
            targets[partition.isr, has_failed] = wanted
        record = changes.record(partition, wanted)
        if record is not None:
            records.append(record)
    return records


def _led_last(partition: PartitionImage, broker_id: int) -> bool:
    return broker_id in partition.last_known_elr


# ElectLeaders ------------------------------------------------------------------------------------

#: Election types of ElectLeaders.
PREFERRED, UNCLEAN = 0, 1
_ELECTIONS = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}


def decide_elect_leaders(
    state: ControllerState,
    request: ElectLeadersRequest,
    context: Context,  # noqa: ARG001 - every decision is called alike
) -> DecisionInSteps:
    """ElectLeaders for the given partitions, or for all that need an election."""
    election = request.election_type
    if election not in _ELECTIONS:
        refused = ElectLeadersResponse(
            error_code=ErrorCode.INVALID_REQUEST, replica_election_results=()
        )
        return Decision([], refused)
    if request.topic_partitions is None:
        named = _needing_election(state, election)
    else:
        named = [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    records: list[Message] = []
    topics = []
    # A partition that is named twice changes once: a decision does not see its own records.
    decided: dict[tuple[str, int], PartitionResult] = {}
    for name, partitions in named:
        results = []
        for index in partitions:
            if (name, index) not in decided:
                decided[name, index] = _elect(state, name, index, election, records)
            results.append(decided[name, index])
            yield ELECTION_COST
        topics.append(ReplicaElectionResult(topic=name, partition_result=results))
    if len(records) > RECORDS_IN_BATCH:
        refused = ElectLeadersResponse(error_code=TOO_LARGE.code, replica_election_results=())
        return Decision([], refused)
    response = ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=topics)
    return Decision(records, response)


def _needing_election(state: ControllerState, election: int) -> list[tuple[str, Sequence[int]]]:
    """The partitions that need an election of this type, by topic."""
    keys = state.index.imbalanced if election == PREFERRED else state.index.leaderless
    by_topic: dict[str, list[int]] = {}
    for topic_id, index in sorted(keys):
        by_topic.setdefault(state.topics[topic_id].name, []).append(index)
    return list(by_topic.items())


def _elect(
    state: ControllerState, name: str, index: int, election: int, records: list[Message]
) -> PartitionResult:
    topic = state.topic_named(name)
    partition = None if topic is None else state.partitions.get((topic.id, index))
    if partition is None:
        what = f"topic as {name}" if topic is None else f"partition as {name}-{index}"
        refused = Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}")
        return PartitionResult(
            partition_id=index, error_code=refused.code, error_message=refused.message
        )
    if election == PREFERRED:
        is_needless = partition.leader == partition.replicas[0]
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        is_needless = partition.leader != NO_LEADER
        code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    why = None
    if is_needless:
        code = ErrorCode.ELECTION_NOT_NEEDED
        why = "Leader election not needed for topic partition."
    else:
        change = partition_change(state, partition, PartitionTarget(election=_ELECTIONS[election]))
        if change is not None:
            records.append(change)
            code = ErrorCode.NONE
    return PartitionResult(partition_id=index, error_code=code, error_message=why)


# Periodic elections ------------------------------------------------------------------------------


def decide_preferred_elections(state: ControllerState, at_most: int) -> list[Message]:
    """Elect preferred leaders that can lead again."""
    wanted = PartitionTarget(election=Election.PREFERRED)
    return _change_some(state, state.index.imbalanced, wanted, at_most)


def decide_unclean_elections(state: ControllerState, at_most: int) -> list[Message]:
    """Elect unclean leaders of leaderless partitions whose topics allow it."""
    return _change_some(state, state.index.leaderless, PartitionTarget(), at_most)


def _change_some(
    state: ControllerState, keys: Iterable[PartitionKey], wanted: PartitionTarget, at_most: int
) -> list[Message]:
    """The records of the first `at_most` partitions that the wanted election changes."""
    changes: list[Message] = []
    for key in sorted(keys):
        if len(changes) == at_most:
            break
        change = partition_change(state, state.partitions[key], wanted)
        if change is not None:
            changes.append(change)
    return changes
