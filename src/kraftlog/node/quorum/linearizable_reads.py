"""`LinearizableReads`: reads of this node's state that miss nothing committed before them (P6).

A read waits until the quorum's leader has returned an offset, with a proof that it still leads, and
until this node has applied everything before that offset. `raft.reads` decides; this part sends the
requests, to the leader or to the local core if it leads, and runs the reads. It does so at the end
of a turn, so that all reads of a turn share a request.
"""

from __future__ import annotations

from kraftlog import effects
from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.node.channels import READ_CHANNEL
from kraftlog.node.quorum.responses import response_from_wire
from kraftlog.part import Part
from kraftlog.raft import messages as raft
from kraftlog.raft.reads import Applied, ReadDone, Reads
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from kraftlog.effects import RequestReport
    from kraftlog.node.quorum.driver import QuorumDriver
    from kraftlog.types import Now

    #: Called with an error code; NONE: the node's state may be read now.
    OnReadable = Callable[[int], None]

#: Every response is decoded as the response to this request.
_REQUEST = raft.ReadOffset(None)
_NOT_SUPPORTED = raft.ReadOffsetResult(ErrorCode.UNSUPPORTED_VERSION, -1, -1, -1)


class Continuation:
    """Takes a response that is for this node itself."""

    def __init__(self, continue_with: Callable[[Any], None]) -> None:
        self.respond = continue_with


class LinearizableReads(Part):
    """`read` calls back once the node's state may be read, or when that has failed.

    The callback comes as an effect, outside the steps of the quorum: if it raises, only its client
    is affected.
    """

    channels = (READ_CHANNEL,)

    def __init__(self, quorum: QuorumDriver, emit: Callable[[Any], None]) -> None:
        self._quorum = quorum
        self._emit = emit
        self._reads = Reads(quorum.core, quorum.applied)
        quorum.applied_listeners.append(self._applied)

    def read(self, on_readable: OnReadable, now: Now) -> None:
        self._reads.read(on_readable, now)

    def leader_changed(self, leader_id: int, epoch: int, now: Now) -> None:
        self._reads.handle(raft.LeaderChanged(leader_id, epoch), now)

    def request_ended(self, report: RequestReport, now: Now) -> None:
        """Take the outcome of a request to the leader."""
        if isinstance(report, effects.ResponseReceived):
            self._on_response(report.peer, report.number, report.response, now)
            return
        message: Any = raft.NoResponse(report.peer, report.number)
        if isinstance(report, effects.VersionUnsupported):
            message = raft.Response(report.peer, report.number, _NOT_SUPPORTED)
        self._reads.handle(message, now)

    def poll(self, now: Now) -> None:
        self._reads.poll(now)

    def deadline(self) -> int | None:
        return self._reads.deadline()

    def _applied(self, offset: int, now: Now) -> None:
        self._reads.handle(Applied(offset), now)

    def _on_response(self, peer: int, number: int, response: Any, now: Now) -> None:
        try:
            body = response_from_wire(response, _REQUEST)
        except ProtocolError:  # for another partition
            self._reads.handle(raft.NoResponse(peer, number), now)
        else:
            self._reads.handle(raft.Response(peer, number, body), now)

    @property
    def next_offset(self) -> int:
        """The least offset that a read waits for; -1: there is none."""
        waiting = self._reads.awaiting_apply
        return min([read.offset for read in waiting]) if waiting else -1

    @property
    def has_work(self) -> bool:
        return self._reads.has_work

    def finish_turn(self, now: Now) -> None:
        """Send the request of this turn's reads, and run the reads that may run."""
        for effect in self._reads.take_effects():
            if isinstance(effect, ReadDone):
                self._emit(effects.SendResponse(Continuation(effect.pending), effect.error))
            elif effect.peer == self._quorum.core.me.id:
                self._send_to_own_core(effect, now)
            else:
                self._quorum.send_on(READ_CHANNEL, effect)

    def _send_to_own_core(self, send: raft.Send, now: Now) -> None:
        def on_response(response: Any) -> None:
            self._on_response(send.peer, send.number, response, self._quorum.core.now)

        self._quorum.handle_request(Continuation(on_response), send.body, None, now)
