"""What governs the cluster while this node leads the metadata quorum: its `Controller`, and the
way of a decision into the log.

    request -> decision -> records proposed -> committed and replayed -> the answer leaves
"""

from __future__ import annotations

from kraftlog.controller.activation import bootstrap_records
from kraftlog.controller.decision import batches
from kraftlog.effects import Say
from kraftlog.errors import ErrorCode, MistakeError, UnwritableError
from kraftlog.metadata.features import NOT_OFFERED_YET, SET_BY_RECORDS
from kraftlog.metadata.releases import chosen_levels
from kraftlog.node.handlers.refusals import refusal
from kraftlog.node.quorum.proposal import Proposal
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.messages.metadata_records import FeatureLevelRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from kraftlog.controller.controller import Controller
    from kraftlog.controller.decision import Decision
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.ports.logs import LogReader
    from kraftlog.types import Now
    from kraftlog.wire.schema import Message

    #: Gets the response, or None when nobody can say what became of it.
    Told = Callable[[Any, Now], None]

#: What takes room on every disk, and is refused while this node's has none but the reserve.
GROWING = {ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS}
#: What is refused with these may be decided by whoever leads next.
ANOTHER_MAY = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH}


def first_levels() -> dict[str, int]:
    """The features a cluster begins with when nobody has chosen any."""
    return chosen_levels(None, dict.fromkeys(NOT_OFFERED_YET, 0), SET_BY_RECORDS)


class Governing:
    """Follows the log on every controller; `is_active` on the one that decides."""

    def __init__(
        self,
        controller: Controller,
        quorum: QuorumDriver,
        bootstrap: Sequence[Message],
        emit: Callable[[Any], None],
        logs: LogReader,
    ) -> None:
        self._logs = logs
        self.controller = controller
        self._emit = emit
        #: What formatting has chosen, but for what this version does not offer yet.
        self._bootstrap = [
            record
            for record in bootstrap or bootstrap_records(first_levels())
            if not isinstance(record, FeatureLevelRecord) or record.name not in NOT_OFFERED_YET
        ]
        self._quorum = quorum
        #: The epoch in which this node decides; -1: it does not.
        self.epoch = -1
        #: Whether all that counts in decisions has been proposed.
        self.is_whole = True

    @property
    def is_active(self) -> bool:
        return self.controller.active and self._quorum.is_leader

    def replaying(self, records: Sequence[Message], last_offset: int) -> Iterator[int]:
        return self.controller.replaying(records, last_offset)

    def begin(self, epoch: int, now: Now, *, is_gone: bool) -> None:
        """This node leads, and has replayed what came before.

        `is_gone`: the broker of its id that the log knows, if any, is not the one in this process.
        """
        self.epoch = epoch
        self.controller.belongs_to(self._quorum.core.cluster_id)
        decision = self.controller.activate(self._bootstrap, now)
        if is_gone:
            self.controller.broker_is_gone(self._quorum.core.me.id)
        self._append(decision, self._prepare(decision), _nobody, now)

    def end(self) -> None:
        """Another leads, or may."""
        if self.epoch >= 0:
            self.epoch = -1
            self.controller.resign()

    def decide(self, api_key: int, version: int, request: Message, told: Told, now: Now) -> None:
        """Decide now; `told` gets the answer once it is true, or why nothing has changed."""
        if api_key in GROWING and self._logs.is_short:
            told(refusal(api_key, version, request, ErrorCode.KAFKA_STORAGE_ERROR), now)
            return
        what = f"deciding on {APIS[api_key].name}"
        try:
            decision = self.controller.decide(api_key, request, now, self._quorum.end)
            parts = self._prepare(decision)
        except Exception as error:
            code = self._failed(what, error, now)
            told(
                None if code in ANOTHER_MAY else refusal(api_key, version, request, code),
                now,
            )
        else:
            self._append(decision, parts, told, now)

    def poll(self, now: Now) -> None:
        """Do what is due by itself, until nothing is."""
        while self.is_active:
            try:
                decision = self.controller.poll(now, self._quorum.end)
                if decision is None:
                    return
                parts = self._prepare(decision)
            except Exception as error:
                self._failed("deciding on what is due", error, now)
                return
            self._append(decision, parts, _nobody, now)

    def deadline(self) -> int | None:
        return self.controller.deadline() if self.is_active else None

    def _prepare(self, decision: Decision) -> Sequence[Proposal]:
        """The batches of a decision, which counts in further ones from here on.

        All of it is encoded and read back first; whatever this raises, nothing has changed.
        """
        if not decision.records:
            return ()
        parts = [Proposal(part) for part in batches(decision.records, "a large request")]
        code = self._quorum.refusal_of(parts)
        if code:
            raise _RefusedError(code)
        self.controller.proposed([part.records for part in parts], self._quorum.end)
        return parts

    def _failed(self, what: str, error: Exception, now: Now) -> int:
        """The code that stands for what `_prepare` or a decision has raised."""
        self.controller.refused(now)
        if isinstance(error, _RefusedError):
            return error.code
        if isinstance(error, UnwritableError):
            self._emit(Say(f"{what}: refused, as it can't be written down: {error}"))
            return ErrorCode.INVALID_REQUEST
        self._emit(Say(str(MistakeError(what, error))))
        return ErrorCode.UNKNOWN_SERVER_ERROR

    def _append(self, decision: Decision, parts: Sequence[Proposal], told: Told, now: Now) -> None:
        """Have a prepared decision written: only its last batch is answered."""
        if not parts:
            told(decision.response, now)
            return
        self.is_whole = False
        for part in parts:
            is_last = part is parts[-1]
            then = self._teller(told, decision.response, now) if is_last else _nobody
            error = self._quorum.propose(part, then, now)
            assert not error, "whether it may be proposed was asked before"
        self.is_whole = True

    def _teller(self, told: Told, response: Any, since: Now) -> Callable[[int, Now], None]:
        def became(error: int, now: Now) -> None:
            if not error:
                took_ms = now.monotonic_ms - since.monotonic_ms
                self._quorum.times.changes.add(took_ms, now.monotonic_ms)
            told(None if error else response, now)

        return became


class _RefusedError(Exception):
    """The quorum does not take a proposal now."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def _nobody(_: Any, __: Now) -> None:
    """Only the last part of what belongs together is answered."""
