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
from kraftlog.node.error_responses import error_response
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
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.node.slices import Slices, Work
    from kraftlog.ports.logs import LogReader
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

    #: Called with the response, or with None when the outcome is unknown.
    OnDone = Callable[[Any, Now], None]

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
    ) -> None:
        self._slices = slices
        #: Undecided requests in order of arrival; a decision may take several turns.
        self._waiting: deque[_QueuedRequest] = deque()
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
        self._append(decision, result_of(self._prepare(decision, now, None)), _do_nothing, now)

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
        for queued in waiting:
            queued.on_done(None, now)

    # Deciding ------------------------------------------------------------------------------------

    def decide(
        self, api_key: int, version: int, request: Message, on_done: OnDone, now: Now
    ) -> None:
        """Decide a request after the earlier ones.

        `on_done` gets the response once the decision and all that were proposed before it are
        committed: a deposed controller must not respond from a state that may be lost.
        """
        if api_key in NEEDS_DISK_SPACE and self._logs.has_only_reserve:
            on_done(error_response(api_key, version, request, ErrorCode.KAFKA_STORAGE_ERROR), now)
            return
        self._waiting.append(_QueuedRequest(api_key, version, request, on_done, now))
        if not self._is_deciding:
            self._begin_decision(self._decide_waiting())

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
            self._begin_decision(self._carry_out(decision, now))

    def extend_own_broker_session(self, broker_epoch: int, now: Now) -> None:
        """The broker of this node waits for the response to its heartbeat, so it is alive."""
        me = self._quorum.core.me.id
        self.controller.sessions.extend_while_deciding(me, broker_epoch, now.monotonic_ms)

    def deadline(self) -> int | None:
        return self.controller.deadline() if self.is_active else None

    def _begin_decision(self, steps: Iterator[int]) -> None:
        """Begin one decision; no other begins before it ends, as the state must not change."""
        self._is_deciding = True
        work = self._slices.begin(steps)
        if not work.done:
            self._work = work

    def _decide_waiting(self) -> Iterator[int]:
        """Decide the waiting requests one after the other."""
        while self._waiting:
            yield from self._decide_one(self._waiting[0])
        self._is_deciding = False

    def _decide_one(self, queued: _QueuedRequest) -> Iterator[int]:
        try:
            while True:
                offset: int | None = self._quorum.end
                decision = yield from self.controller.decide_in_steps(
                    queued.api_key,
                    queued.request,
                    self._now(queued.since),
                    self._quorum.end,
                    queued.since.monotonic_ms,
                )
                if not self.controller.depends_on_offset:
                    offset = None
                try:
                    proposals = yield from self._prepare(decision, self._now(queued.since), offset)
                    break
                except _LogGrownError:
                    continue  # the quorum has appended a record of its own in the meantime
        except Exception as error:
            self._waiting.popleft()
            now = self._now(queued.since)
            code = self._failed(f"deciding on {APIS[queued.api_key].name}", error, now)
            self._call_back(
                queued.on_done, None if code in RETRIABLE else queued.error_response(code), now
            )
        else:
            self._waiting.popleft()
            self._append(decision, proposals, queued.on_done, queued.since)
            yield from free_in_steps(decision.records)

    def _carry_out(self, decision: Decision, since: Now) -> Iterator[int]:
        """Propose a periodic decision, then decide the requests that have arrived since."""
        try:
            proposals = yield from self._prepare(decision, since, None)
        except Exception as error:
            self._is_refused = True
            self._failed(PERIODIC_WORK, error, self._now(since))
        else:
            self._append(decision, proposals, _do_nothing, since)
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
        yield from self.controller.propose_in_steps(batch_records, check_end)
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

    def _append(
        self, decision: Decision, proposals: Sequence[Proposal], on_done: OnDone, since: Now
    ) -> None:
        """Propose a prepared decision; the response waits for its last batch.

        The response of a decision without records waits for what was proposed before.
        """
        now = self._now(since)
        if not proposals and not decision.kraft_version:
            if self._last_proposed is None:
                self._call_back(on_done, decision.response, now)
            else:
                self._last_proposed.responses.append((on_done, decision.response))
            return
        self.steps += 1
        proposed = self._last_proposed = _Proposed(on_done, decision.response, since)
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

    def _call_back(self, on_done: OnDone, response: Any, now: Now) -> None:
        """Call `on_done`; its exceptions do not affect the decision, nor the responses after it."""
        steps = self._quorum.steps
        try:
            on_done(response, now)
        except Exception as error:
            if self._quorum.steps != steps:
                raise  # `on_done` has interrupted a step of the quorum
            self._emit(LogLine(str(InternalError("responding to a decision", error))))

    def _on_outcome(self, proposed: _Proposed, error: int, now: Now) -> None:
        """A decision is committed and applied, or its outcome is unknown."""
        if proposed is self._last_proposed:
            self._last_proposed = None
        if not error:
            took_ms = now.monotonic_ms - proposed.since.monotonic_ms
            self._quorum.latency.changes.add(took_ms, now.monotonic_ms)
        for on_done, response in proposed.responses:
            self._call_back(on_done, None if error else response, now)


class _Proposed:
    """A decision that is not committed yet, and the responses that wait for it."""

    __slots__ = ("responses", "since")

    def __init__(self, on_done: OnDone, response: Any, since: Now) -> None:
        self.responses = [(on_done, response)]
        self.since = since


class _QueuedRequest:
    """A request that waits for its decision."""

    __slots__ = ("api_key", "on_done", "request", "since", "version")

    def __init__(
        self, api_key: int, version: int, request: Message, on_done: OnDone, now: Now
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.request = request
        self.on_done = on_done
        self.since = now

    def error_response(self, code: int) -> Any:
        return error_response(self.api_key, self.version, self.request, code)


class _LogGrownError(Exception):
    """The log has grown while a decision that depends on its end offset was prepared."""


class _RefusedError(Exception):
    """The quorum accepts no proposal now."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _do_nothing(_: Any, __: Now) -> None:
    """The callback of a decision without a request, and of all but the last batch of any other."""
