"""`DelayedFetch`: a Fetch is answered once `min_bytes` are there, or after `max_wait_ms`."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.fetch import follower_news
from kraftlog.node.fetch.reading import Reading
from kraftlog.node.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kraftlog.node.fetch_sessions import FetchSession
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.replication.partition import Partition
    from kraftlog.types import Now
    from kraftlog.wire.messages.fetch import FetchRequest

#: A fetch from more partitions is served in slices.
FEW_PARTITIONS = 100


class DelayedFetch:
    """A Fetch request: what it has read so far, and whether the response is sent."""

    __slots__ = (
        "deadline_ms",
        "done",
        "epoch",
        "node",
        "pending",
        "reading",
        "request",
        "session",
        "watched",
        "written_at_read",
    )

    deadline_ms: int  # set while it waits

    def __init__(
        self,
        node: ServingNode,
        pending: PendingResponse,
        request: FetchRequest,
        session: FetchSession | None,
    ) -> None:
        self.node = node
        self.pending = pending
        self.request = request
        #: The session that the request continues; a new session is created with the response.
        self.session = session
        self.epoch = FINAL_EPOCH if session is None else session.epoch
        self.reading = self._new_reading()
        self.done = False
        #: The partitions whose changes it is told while it waits; a session watches its own.
        self.watched: Sequence[Partition] = ()
        #: Bytes written to the partitions as of the last read; None: not all of them are committed.
        self.written_at_read: int | None = None

    def _new_reading(self) -> Reading:
        return Reading(self.node, self.pending, self.request, self.session)

    @property
    def is_by_follower(self) -> bool:
        return self.reading.reader.is_follower

    @property
    def is_enough(self) -> bool:
        """Whether to respond now."""
        return (
            self._has_enough
            or self.request.max_wait_ms <= 0
            or not (self.reading.partitions or self.session)
        )

    @property
    def _has_enough(self) -> bool:
        """Whether what was read is worth a response, however long the request could wait."""
        return self.reading.size >= self.request.min_bytes or self.reading.is_immediate

    def max_wait_ms(self) -> int:
        limit = self.request.max_wait_ms
        if not self.is_by_follower:
            return limit
        if self.reading.is_soon:
            limit = min(limit, follower_news.NOTIFIED_WITHIN_MS)
        in_sync = self.node.replica_manager.in_sync_replicas
        return in_sync.max_wait_ms(self.reading.reader.follower[0], limit)

    def respond_or_wait(self, now: Now) -> None:
        """Respond, now or later."""
        self.reading.run()
        if self.is_enough:
            self.respond(now)
        else:
            self.park(now.monotonic_ms + self.max_wait_ms())

    # Waiting -------------------------------------------------------------------------------------

    def park(self, deadline_ms: int) -> None:
        """Wait for data until the deadline."""
        self.deadline_ms = deadline_ms
        self.node.wait(self, deadline_ms)
        self.pending.waiter = self
        if self.session is not None:
            self.session.delayed = self
        else:
            self.watched = self.reading.partitions
            for partition in self.watched:
                partition.watch(self, by_follower=self.is_by_follower)
            self._note_written()
        if self.is_by_follower:
            self.node.replica_manager.delayed_fetches.add(self.reading.reader.follower[0], self)

    def _note_written(self) -> None:
        """Note the bytes written so far; the next read finds at most the bytes written since."""
        readable_end = self.reading.reader.readable_end
        all_committed = all(readable_end(it) == it.written_end for it in self.watched)
        self.written_at_read = self._written_bytes() if all_committed else None

    def _has_too_few_bytes(self) -> bool:
        """Whether the bytes written since the last read are certainly too few.

        Saves the read if many fetches wait for one partition: each write checks all of them.
        """
        size, enough = self.reading.size, self.request.min_bytes
        if self.session is not None:
            return size + self.session.new_bytes < enough
        if self.written_at_read is None:
            return False
        return size + self._written_bytes() - self.written_at_read < enough

    def _written_bytes(self) -> int:
        watched = self.watched
        if len(watched) == 1:
            return watched[0].written_bytes
        return sum([partition.written_bytes for partition in watched])

    def try_complete(self, partition: Partition) -> None:
        """A watched partition has something new to read, or no longer serves requests."""
        if not (partition.online and self._has_too_few_bytes()):
            self._read_and_try_complete()

    def role_changed(self, _: Partition) -> None:
        self._read_and_try_complete()

    def partitions_changed(self, partitions: Collection[Partition]) -> None:
        """Partitions of the session have changed, all in one turn."""
        if not (all(it.online for it in partitions) and self._has_too_few_bytes()):
            if self._has_much_to_read:
                self._serve_in_slices(self.deadline_ms)
            else:
                self._read_and_try_complete()

    def _read_and_try_complete(self) -> None:
        self.reading.run()
        if self._has_enough:
            self._stop_watching()
            self.respond(self.node.now)
            return
        if self.session is None:
            self._note_written()
        if self.reading.is_soon:
            self._wait_at_most(follower_news.NOTIFIED_WITHIN_MS)

    def _wait_at_most(self, wait_ms: int) -> None:
        until_ms = self.node.now.monotonic_ms + wait_ms
        if until_ms < self.deadline_ms:
            self.deadline_ms = until_ms
            self.node.wait(self, until_ms)

    def session_ended(self) -> None:
        """Respond now: the session was dropped, and nothing reports changes to it any more."""
        self.node.replica_manager.delayed_fetches.end_wait(self)

    def expire(self, now: Now) -> None:
        if self.done:
            return
        if self._has_much_to_read:
            self._serve_in_slices(now.monotonic_ms)
            return
        self.reading.run()
        self._stop_watching()
        self.respond(now)

    @property
    def _has_much_to_read(self) -> bool:
        """Whether too many partitions of the session have changed to read them in one slice."""
        return self.session is not None and len(self.session.changed) > FEW_PARTITIONS

    def _serve_in_slices(self, deadline_ms: int) -> None:
        """Stop waiting, and serve the request in slices instead, from scratch."""
        from kraftlog.node.fetch.large import LargeFetch

        self.cancel()
        large = LargeFetch(self.node, self.pending, self.request, self.session)
        large.epoch, large.reading.reader = self.epoch, self.reading.reader
        self.node.sliced.run(self.pending, large.serve_until(deadline_ms), self.request)

    def cancel(self) -> None:
        self.done = True
        self._stop_watching()

    def _stop_watching(self) -> None:
        if self.is_by_follower:
            self.node.replica_manager.delayed_fetches.remove(self.reading.reader.follower[0], self)
        if self.session is not None:
            if self.session.delayed is self:
                self.session.delayed = None
            return
        for partition in self.watched:
            partition.unwatch(self)

    # Responding ----------------------------------------------------------------------------------

    def respond(self, now: Now) -> None:
        self.done = True
        throttled = self._throttled_response()
        if throttled is not None:
            self.pending.respond(throttled)
            return
        session = self.session
        if session is None and self.request.session_epoch == INITIAL_EPOCH:
            session = self.node.fetch_sessions.open(self.request, self.pending.version, now)
        response = self._response_in(session)
        if session is not None:
            session.sent(response.responses)
            session.sent_encoded(self.reading.encoded)
        self._count(response)
        self.pending.respond(response)

    def _throttled_response(self) -> FetchResponse | None:
        """A response without records if they would exceed the quota of a consumer."""
        quotas, session = self.node.client_quotas, self.session
        if not quotas.is_active or self.is_by_follower:
            return None
        if session is not None and session.epoch != self.epoch:
            return None
        throttle_ms = quotas.fetched(self.pending, self.reading.size)
        if not throttle_ms:
            return None
        return FetchResponse(
            throttle_time_ms=throttle_ms,
            error_code=ErrorCode.NONE,
            session_id=NO_SESSION if session is None or session.is_closed else session.id,
            responses=(),
        )

    def _response_in(self, session: FetchSession | None) -> FetchResponse:
        """The response, or an error if the session has since served another request.

        Like a full response, one without a session id lets the client begin another session.
        """
        response = self.reading.response
        assert response is not None, "the partitions are read"
        if self.session is not None and self.session.epoch != self.epoch:
            return FetchResponse(
                error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                session_id=NO_SESSION,
                responses=(),
            )
        if session is not None:
            response.session_id = NO_SESSION if session.is_closed else session.id
        return response

    def _count(self, response: FetchResponse) -> None:
        """Count the bytes that are sent, unless the response is an error."""
        if response.error_code:
            return
        if self.reading.throttled_bytes:
            self.node.replica_manager.quotas.leader.record(self.reading.throttled_bytes)
        for counts, size in self.reading.sent_bytes:
            counts.bytes_out += size
