"""Breaks V6 as KIP-279 does: a leader of an older epoch tells a follower where to truncate.

As in KIP-279, a follower asks until the logs agree, and not again in that epoch; any leader
answers. The older leader does not note the fetch position of a follower in a newer epoch, for the
ISR or the high watermark, so that only the truncation is wrong.
"""

from __future__ import annotations

from tests.explored import REPLICATION, Edit, Mutant

FETCHER = "kraftlog.replication.fetcher"

MUTANT = Mutant(
    breaks="V6, as KIP-279 before KIP-320: a leader of an older epoch says where logs diverge",
    detected_by="every member of the ISR has what is committed",
    module="kraftlog.node.fetch.reader",
    original="""\
        if not code:
            if part.last""",
    replacement="""\
        if code == ErrorCode.UNKNOWN_LEADER_EPOCH:
            self.pending_positions.clear()
            code = ErrorCode.NONE
        if not code:
            if part.last""",
    more_edits=(
        Edit(
            module="kraftlog.replication.replica_fetchers",
            original="        partition.note_leader_offsets(",
            replacement="        followed.agrees = True\n        partition.note_leader_offsets(",
        ),
        Edit(
            module=FETCHER,
            original="=self._last_epoch(partition),",
            replacement="=-1 if followed.agrees else self._last_epoch(partition),",
        ),
        Edit(
            module=FETCHER,
            original='__slots__ = ("back',
            replacement='__slots__ = ("agrees", "back',
        ),
        Edit(
            module=FETCHER,
            original="        self.partition = partition",
            replacement="        self.partition, self.agrees = partition, False",
        ),
    ),
    explores=REPLICATION,
    bound={"replicas": (1, 0, 2), "records": 2, "fencings": 1, "elections": 1},
    is_slow=True,
)
