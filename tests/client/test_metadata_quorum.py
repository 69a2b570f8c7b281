"""A leader with several snapshots, of which its Fetch responses name only the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from kraftlog.client.metadata_quorum import MetadataQuorum
from kraftlog.errors import ConfigError, ErrorCode, RefusedError
from kraftlog.logstate.voters import VoterSet
from kraftlog.metadata.history import Moment
from kraftlog.types import OffsetAndEpoch
from kraftlog.wire.messages import fetch_snapshot
from kraftlog.wire.messages.fetch import PartitionData, SnapshotId
from tests.metadata import samples
from tests.metadata.test_history import EPOCH, LogInMemory, image_at, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LOG = [samples.topic(number, f"t{number}") for number in range(1, 9)]
OLDEST, NEWEST = 2, 5


class Leader(MetadataQuorum):
    """Responds as Kafka's active controller, whose log begins at the oldest snapshot."""

    def _fetch(self, offset: int) -> PartitionData:
        self._epoch = EPOCH + 2
        source = LogInMemory(LOG, [1] * len(LOG))
        response = PartitionData(
            partition_index=0,
            error_code=ErrorCode.NONE,
            high_watermark=len(LOG) - 1,
            log_start_offset=OLDEST,
            aborted_transactions=None,
            records=None,
        )
        if offset < OLDEST:
            return response.replace(snapshot_id=SnapshotId(end_offset=NEWEST, epoch=EPOCH))
        return response.replace(records=b"".join(list(source.read(offset))[:2]))

    def _snapshot_part(
        self, snapshot: OffsetAndEpoch, position: int, size: int
    ) -> fetch_snapshot.PartitionSnapshotResult:
        if snapshot.epoch != EPOCH or snapshot.offset not in {OLDEST, NEWEST}:
            code = ErrorCode.SNAPSHOT_NOT_FOUND
            raise RefusedError(code, api="FetchSnapshot", broker="here")
        end = snapshot.offset
        data = snapshot_of(image_at(LOG, end - 1), end, 0, VoterSet())
        return fetch_snapshot.PartitionSnapshotResult(
            index=0,
            error_code=ErrorCode.NONE,
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=end, epoch=EPOCH),
            size=len(data),
            position=position,
            unaligned_records=data[position : position + min(size, 40)],
        )


@pytest.fixture
def leader() -> Iterator[Leader]:
    with Client("127.0.0.1:1") as client:
        yield Leader(client.cluster)


def test_the_state_at_each_offset_since_the_oldest_snapshot_is_shown(leader: Leader) -> None:
    for offset in range(OLDEST - 1, len(LOG) - 1):
        assert leader.state_at(Moment(offset=offset)).image == image_at(LOG, offset)


def test_uncommitted_records_are_not_shown(leader: Leader) -> None:
    assert leader.state_at(Moment()).image == image_at(LOG, len(LOG) - 2)
    with pytest.raises(ConfigError, match="its last one is 6"):
        leader.state_at(Moment(offset=7))


def test_offsets_before_the_oldest_snapshot_are_refused(leader: Leader) -> None:
    with pytest.raises(ConfigError, match=f"before offset {OLDEST}: earlier states"):
        leader.state_at(Moment(offset=0))
