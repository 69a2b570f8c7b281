"""`ActiveController`: decides requests with the `Controller` and proposes the records.

request -> decision -> records proposed -> committed and replayed -> response
"""

from __future__ import annotations

from collections import deque
from functools import partial

from kraftlog.controller.activation import bootstrap_records
from kraftlog.controller.decision import batches
from kraftlog.effects import LogLine
from kraftlog.errors import ErrorCode, InternalError, UnwritableError
from kraftlog.metadata.features import NOT_OFFERED_YET, OFFERED, SET_BY_RECORDS
from kraftlog.metadata.releases import chosen_levels
from kraftlog.metadata.unsupported_levels import metadata_obstacle
from kraftlog.node.quorum.proposal import Proposal
from kraftlog.part import Part
from kraftlog.steps import free_in_steps, result_of
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from typing import Any

    from kraftlog.controller.controller import Controller
    from kraftlog.controller.decision import Decision
    from kraftlog.node.controller_request import ControllerRequest
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.node.slices import Slices, Work
    from kraftlog.ports.logs import LogReader
    from kraftlog.quotas.mutation_quota import Mutations
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

#: APIs that need disk space on every node; refused while this disk has only its reserve left.
NEEDS_DISK_SPACE = {ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS}
PERIODIC_WORK = "running scheduled controller work"
#: Errors after which the next leader may accept the same request.
RETRIABLE = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}


def first_levels() -> dict[str, int]:
    """The feature levels of a new cluster for which formatting chose none."""
    return chosen_levels(None, dict.fromkeys(NOT_OFFERED_YET, 0), SET_BY_RECORDS)


class ActiveController(Part):
    """Replays the log on every controller; `is_active` on the one that leads and decides."""

    def __init__(
        self,
        controller: Controller,
        quorum: QuorumDriver,
        bootstrap: Sequence[Message],
        emit: Callable[[Any], None],
        logs: LogReader,
        slices: Slices,
        mutations_of: Callable[[ControllerRequest], Mutations | None],
    ) -> None:
        """`mutations_of`: what the quota of a request's client permits; None: it has no quota."""
        self._mutations_of = mutations_of
        self._slices = slices
        #: Undecided requests in order of arrival, and when; a decision may take several turns.
        self._waiting: deque[tuple[ControllerRequest, Now]] = deque()
        self._is_deciding = False
        self._work: Work | None = None
        #: Whether the last periodic decision was refused.
        self._is_refused = False
        self._logs = logs
        self.controller = controller
        self._emit = emit
        #: The bootstrap records from formatting, without features that this version lacks.
        self._bootstrap = [
            record
            for record in bootstrap or bootstrap_records(first_levels())
            if not isinstance(record, FeatureLevelRecord) or record.name in OFFERED
        ]
        self._quorum = quorum
        #: The leader epoch in which this controller is active, or -1.
        self.epoch = -1
        #: Number of decisions that are applied to the state but not yet proposed completely.
        self.steps = 0
        #: The last decision that was proposed.
        self._last_proposed: _Proposed | None = None

    @property
    def is_active(self) -> bool:
        return self.controller.active and self._quorum.is_leader

    @property
    def is_idle(self) -> bool:
        """Whether no decision is being made, although requests may wait for one."""
        return not self._is_deciding

    @property
    def undecided(self) -> int:
        """The number of requests that wait for their decision."""
        return len(self._waiting)

    @property
    def awaits_commit(self) -> bool:
        """Whether a decision is proposed, and its responses wait for its commit."""
        return self._last_proposed is not None

    def replay_in_steps(self, records: Sequence[Message], last_offset: int) -> Iterator[int]:
        return self.controller.replay_in_steps(records, last_offset)

    def obstacle(self) -> str:
        """Why this controller cannot write records at the cluster's metadata.version, if so."""
        levels = {
            record.name: record.feature_level
            for record in self._bootstrap
            if isinstance(record, FeatureLevelRecord)
        }
        return metadata_obstacle(self.controller.state.features or levels)

    def begin(self, epoch: int, now: Now, *, own_broker_ended: bool) -> None:
        """This node leads and has replayed the log of its predecessors.

        `own_broker_ended`: a broker that is registered with this node's id is a previous
        incarnation, so it can be fenced.
        """
        self.epoch = epoch
        self.controller.set_cluster_id(self._quorum.core.cluster_id)
        decision = self.controller.activate(self._bootstrap, now)
        if own_broker_ended:
            self.controller.note_broker_down(self._quorum.core.me.id)
        self._propose(decision, result_of(self._prepare(decision, now, None)), None, now)

    def leader_changed(self, leader_id: int, epoch: int, now: Now) -> None:  # noqa: ARG002 - interface of parts
        self.end(now)

    def end(self, now: Now) -> None:
        """Another node leads, or none: fail the undecided requests, so that they are retried."""
        if self.epoch < 0:
            return
        self.epoch = -1
        if self._work is not None:
            self._work.cancel()
            self._work = None
        self._is_deciding = False
        self.controller.resign()
        waiting, self._waiting = self._waiting, deque()
        for request, _ in waiting:
            request.respond(None, now)

    # Deciding ------------------------------------------------------------------------------------

    def decide(self, request: ControllerRequest, now: Now) -> None:
        """Decide a request after the earlier ones.

        It gets its response once the decision and all that were proposed before it are committed: a
        deposed controller must not respond from a state that may be lost.
        """
        if request.api_key in NEEDS_DISK_SPACE and self._logs.has_only_reserve:
            request.refuse(ErrorCode.KAFKA_STORAGE_ERROR, now)
            return
        self._waiting.append((request, now))
        if not self._is_deciding:
            self._work = self._slices.begin(self._decide_waiting())

    def poll(self, now: Now) -> None:
        """Make the periodic decisions that are due."""
        for line in self.controller.take_log_lines():
            self._emit(LogLine(line))
        self._is_refused = False
        while self.is_active and not (self._is_deciding or self._is_refused):
            try:
                decision = self.controller.poll(now, self._quorum.end)
            except Exception as error:
                self._failed(PERIODIC_WORK, error, now)
                return
            if decision is None:
                return
            self._work = self._slices.begin(self._carry_out(decision, now))

    def extend_own_broker_session(self, broker_epoch: int, now: Now) -> None:
        """The broker of this node waits for the response to its heartbeat, so it is alive."""
        me = self._quorum.core.me.id
        self.controller.sessions.extend_while_deciding(me, broker_epoch, now.monotonic_ms)

    def deadline(self) -> int | None:
        return self.controller.deadline() if self.is_active else None

    def _decide_waiting(self) -> Iterator[int]:
        """Decide the waiting requests one after the other.

        No other decision begins in the meantime, as the state must not change.
        """
        self._is_deciding = True
        while self._waiting:
            request, since = self._waiting[0]
            offset = self._quorum.end
            mutations = self._mutations_of(request)
            try:
                decision = yield from self.controller.decide_in_steps(
                    request.api_key,
                    request.message,
                    self._now(since),
                    offset,
                    since.monotonic_ms,
                    request.principal,
                    mutations,
                )
                required = offset if self.controller.depends_on_offset else None
                proposals = yield from self._prepare(decision, self._now(since), required)
            except _LogGrownError:
                # The quorum has appended a record of its own in the meantime: decide again.
                self._take_back(mutations, since)
            except Exception as error:
                self._waiting.popleft()
                self._take_back(mutations, since)
                now = self._now(since)
                code = self._failed(f"deciding on {APIS[request.api_key].name}", error, now)
                if code in RETRIABLE:
                    request.respond(None, now)
                else:
                    request.refuse(code, now)
            else:
                self._waiting.popleft()
                request.mutations = mutations
                self._propose(decision, proposals, request, since)
                yield from free_in_steps(decision.records)
        self._is_deciding = False

    def _take_back(self, mutations: Mutations | None, since: Now) -> None:
        if mutations is not None:
            mutations.take_back(self._now(since).monotonic_ms)

    def _carry_out(self, decision: Decision, since: Now) -> Iterator[int]:
        """Propose a periodic decision, then decide the requests that have arrived since."""
        self._is_deciding = True
        try:
            proposals = yield from self._prepare(decision, since, None)
        except Exception as error:
            self._is_refused = True
            self._failed(PERIODIC_WORK, error, self._now(since))
        else:
            self._propose(decision, proposals, None, since)
            yield from free_in_steps(decision.records)
        yield from self._decide_waiting()

    def _prepare(
        self, decision: Decision, now: Now, offset: int | None
    ) -> Generator[int, None, Sequence[Proposal]]:
        """Encode the batches of a decision and apply it to the controller's state.

        Encoding comes first: if it raises, nothing has changed. The caller must append the
        batches at once. `offset`: the required base offset, or None for any.
        """
        if not decision.records:
            return ()
        proposals = []
        for batch in batches(decision.records, "a large request"):
            proposal = yield from Proposal.make_in_steps(batch, now.wall_ms)
            proposals.append(proposal)
        self._check(proposals)

        def check_end() -> int:
            self._check(proposals)
            end = self._quorum.end
            if offset is not None and end != offset:
                raise _LogGrownError
            return end

        batch_records = [proposal.records for proposal in proposals]
        yield from self.controller.state.propose_in_steps(batch_records, check_end)
        return proposals

    def _check(self, proposals: Sequence[Proposal]) -> None:
        code = self._quorum.refusal_of(proposals)
        if code:
            raise _RefusedError(code)

    def _now(self, since: Now) -> Now:
        """The current time, which is later than `since` if a decision takes several turns."""
        current = self._quorum.core.now
        return current if current.monotonic_ms > since.monotonic_ms else since

    def _failed(self, what: str, error: Exception, now: Now) -> int:
        """Handle an exception of a decision or of `_prepare`; returns the error code."""
        self.controller.proposal_failed(now)
        if isinstance(error, _RefusedError):
            return error.code
        if isinstance(error, UnwritableError):
            self._emit(LogLine(f"{what}: refused, because it cannot be encoded: {error}"))
            return ErrorCode.INVALID_REQUEST
        self._emit(LogLine(str(InternalError(what, error))))
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def _propose(
        self,
        decision: Decision,
        proposals: Sequence[Proposal],
        request: ControllerRequest | None,
        since: Now,
    ) -> None:
        """Propose a prepared decision; the response waits for its last batch.

        The response of a decision without records waits for what was proposed before. A periodic
        decision has no `request`.
        """
        now = self._now(since)
        responses = [] if request is None else [(request, decision.response)]
        if not proposals and not decision.kraft_version:
            if self._last_proposed is not None:
                self._last_proposed.responses += responses
            elif request is not None:
                request.respond(decision.response, now)
            return
        self.steps += 1
        proposed = self._last_proposed = _Proposed(responses, since)
        for proposal in proposals:
            is_last = proposal is proposals[-1] and not decision.kraft_version
            on_outcome = partial(self._on_outcome, proposed) if is_last else _do_nothing
            error = self._quorum.propose(proposal, on_outcome, now)
            assert not error, "a proposal is checked before it is made"
        if decision.kraft_version:
            self._raise_kraft_version(decision.kraft_version, proposed, now)
        self.steps -= 1

    def _raise_kraft_version(self, level: int, proposed: _Proposed, now: Now) -> None:
        """Raise kraft.version; during a change of voters this fails, and the request is retried."""
        on_outcome = partial(self._on_outcome, proposed)
        error = self._quorum.change_voters(
            self._quorum.core.raise_kraft_version, level, on_outcome, now
        )
        if error:
            on_outcome(error, now)

    def _on_outcome(self, proposed: _Proposed, error: int, now: Now) -> None:
        """A decision is committed and applied, or its outcome is unknown."""
        if proposed is self._last_proposed:
            self._last_proposed = None
        if not error:
            took_ms = now.monotonic_ms - proposed.since.monotonic_ms
            self._quorum.latency.changes.add(took_ms, now.monotonic_ms)
        for request, response in proposed.responses:
            request.respond(None if error else response, now)


class _Proposed:
    """A decision that is not committed yet, and the requests whose responses wait for it."""

    __slots__ = ("responses", "since")

    def __init__(self, responses: list[tuple[ControllerRequest, Any]], since: Now) -> None:
        self.responses = responses
        self.since = since


class _LogGrownError(Exception):
    """The log has grown while a decision that depends on its end offset was prepared."""


class _RefusedError(Exception):
    """The quorum accepts no proposal now."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _do_nothing(_: Any, __: Now) -> None:
    """The callback of all but the last batch of a decision."""
