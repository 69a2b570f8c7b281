"""Checks what producers and consumers of partitions saw, as Jepsen's Kafka workload does.

Every record has a unique value, so nothing is searched. A partition that is removed, and added
again under its number, has another log: the first leader epoch of each log tells them apart (V11).
A violation begins with its rule:

- `lost`: an acknowledged write of a producer with acks=all is not in the log, or a record that a
  consumer saw is not there any more
- `duplicate`: a write of an idempotent producer is in the log twice
- `inconsistent`: two records at one offset
- `phantom`: a record that no client wrote to this partition, or whose write was refused for good
- `nonmonotonic`: a consumer's records, or one producer's writes, are not in order
- `skipped`: a consumer went past a record that is in the log
"""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    #: An offset and the value there.
    Seen = tuple[int, int]
    #: A partition and the first leader epoch of its log.
    PartitionLog = tuple[Hashable, int]

#: The offset of a write that is acknowledged as a duplicate: it is in the log at some offset.
UNKNOWN_OFFSET = -1


class Write(Value):
    """A write; `must_survive`: it must not be lost once it is acknowledged."""

    value: int
    producer: Hashable
    partition: Hashable
    must_be_unique: bool
    must_survive: bool


class PartitionHistory:
    """The history of all partitions of a run; `violations` has the violations so far."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        #: Partitions whose clients are not judged, as records were lost that no replica has kept.
        self._excused: set[Hashable] = set()
        self._writes: dict[int, Write] = {}
        #: By value: the first epoch of the log in which it was acknowledged, and its offset there.
        self._acknowledged: dict[int, tuple[int, int]] = {}
        self._refused: set[int] = set()
        #: By log: the value that was seen at each offset, and the offset of each value.
        self._read: dict[PartitionLog, dict[int, int]] = {}
        self._offsets: dict[tuple[PartitionLog, int], int] = {}
        #: The values seen in any log.
        self._seen_values: set[int] = set()
        #: By consumer and log: its next offset, its first, and the offsets that it saw.
        self._next: dict[tuple[Hashable, PartitionLog], int] = {}
        self._began: dict[tuple[Hashable, PartitionLog], int] = {}
        self._saw: dict[tuple[Hashable, PartitionLog], set[int]] = {}

    # Events --------------------------------------------------------------------------------------

    def sent(self, write: Write) -> None:
        if write.value in self._writes:
            raise ValueError(f"value {write.value} is not unique")
        self._writes[write.value] = write

    def excuse(self, partition: Hashable) -> None:
        """Do not judge what clients see of a partition, from now on and before."""
        self._excused.add(partition)

    def acknowledged(self, value: int, offset: int, first_epoch: int = 0) -> None:
        self._acknowledged[value] = first_epoch, offset
        write = self._writes[value]
        if write.partition in self._excused:
            return
        if write.must_survive and offset != UNKNOWN_OFFSET:
            self._record_at((write.partition, first_epoch), offset, value)

    def refused(self, value: int) -> None:
        """The value was not written and never will be."""
        self._refused.add(value)
        write = self._writes.get(value)
        is_excused = write is not None and write.partition in self._excused
        if value in self._seen_values and not is_excused:
            self._violated("phantom", f"value {value} was read, and then refused")

    def polled(
        self,
        consumer: Hashable,
        partition: Hashable,
        position: int,
        records: Sequence[Seen],
        following: int,
        first_epoch: int = 0,
    ) -> None:
        """A consumer fetched from `position`, got records, and continues at `following`."""
        if partition in self._excused:
            return
        log = partition, first_epoch
        key = consumer, log
        expected = self._next.get(key, position)
        if position != expected or following < position:
            raise ValueError(f"{consumer} fetched from {position}, not {expected}")
        self._began.setdefault(key, position)
        self._next[key] = following
        saw = self._saw.setdefault(key, set())
        before = position - 1
        for offset, value in records:
            if not before < offset < following:
                self._violated(
                    "nonmonotonic", f"{consumer} got {offset} of {partition} after {before}"
                )
            before = offset
            saw.add(offset)
            self._record_at(log, offset, value)
            self._check_was_written(partition, offset, value)

    def restarted(
        self, consumer: Hashable, partition: Hashable, start: int, first_epoch: int = 0
    ) -> None:
        """An out-of-range consumer continues at the start of a log, which is no skip."""
        key = consumer, (partition, first_epoch)
        before = self._next.get(key)
        if before is not None and partition not in self._excused:
            self._saw[key].update(range(before, start))
            self._next[key] = start
            self._began[key] = min(self._began[key], start)

    def _record_at(self, log: PartitionLog, offset: int, value: int) -> None:
        partition, _ = log
        earlier = self._read.setdefault(log, {}).setdefault(offset, value)
        if earlier != value:
            self._violated(
                "inconsistent", f"{partition} had {earlier} at {offset}, and now {value}"
            )
        earlier_offset = self._offsets.setdefault((log, value), offset)
        self._seen_values.add(value)
        write = self._writes.get(value)
        if earlier_offset != offset and (write is None or write.must_be_unique):
            self._violated(
                "duplicate", f"value {value} is at {earlier_offset} and at {offset} of {partition}"
            )

    def _check_was_written(self, partition: Hashable, offset: int, value: int) -> None:
        write = self._writes.get(value)
        if write is None or write.partition != partition:
            self._violated("phantom", f"no client wrote {value}, at {offset}, to {partition}")
        elif value in self._refused:
            self._violated("phantom", f"value {value}, at {offset} of {partition}, was refused")

    # The end -------------------------------------------------------------------------------------

    def finish(
        self, partition: Hashable, start: int, log: Iterable[Seen], first_epoch: int = 0
    ) -> list[str]:
        """Compare with the final log of a partition, which begins at `start`."""
        if partition in self._excused:
            return self.violations
        values = dict(log)
        offsets_of: dict[int, list[int]] = {}
        for offset, value in values.items():
            offsets_of.setdefault(value, []).append(offset)
            self._check_was_written(partition, offset, value)
        for value, offsets in offsets_of.items():
            write = self._writes.get(value)
            if len(offsets) > 1 and write is not None and write.must_be_unique:
                self._violated("duplicate", f"value {value} is at {offsets} of {partition}")
        self._compare_writes((partition, first_epoch), start, values, offsets_of)
        self._compare_reads((partition, first_epoch), start, values)
        return self.violations

    def _compare_writes(
        self,
        log: PartitionLog,
        start: int,
        values: dict[int, int],
        offsets_of: dict[int, list[int]],
    ) -> None:
        partition, first_epoch = log
        last: dict[Hashable, Seen] = {}
        for write in self._writes.values():
            if write.partition != partition:
                continue
            epoch, offset = self._acknowledged.get(write.value, (-1, UNKNOWN_OFFSET))
            offsets = offsets_of.get(write.value, [])
            # A value below the start was deleted, so it need not be there.
            if epoch == first_epoch and write.must_survive and not start > offset > UNKNOWN_OFFSET:
                is_there = (
                    write.value in offsets_of if offset < 0 else values.get(offset) == write.value
                )
                if not is_there:
                    place = "somewhere" if offset < 0 else f"at {offset}"
                    self._violated(
                        "lost",
                        f"value {write.value} was acknowledged {place} of {partition}, "
                        f"which has it at {offsets}",
                    )
            if write.must_be_unique and offsets:
                previous = last.get(write.producer, (-1, -1))
                if offsets[0] < previous[0]:
                    self._violated(
                        "nonmonotonic",
                        f"value {write.value}, at {offsets[0]} of {partition}, was written after "
                        f"{previous[1]}, at {previous[0]}",
                    )
                last[write.producer] = offsets[0], write.value

    def _compare_reads(self, log: PartitionLog, start: int, values: dict[int, int]) -> None:
        partition, _ = log
        for offset, value in self._read.get(log, {}).items():
            if offset >= start and values.get(offset) != value:
                self._violated(
                    "lost",
                    f"value {value} was seen at {offset} of {partition}: now {values.get(offset)}",
                )
        for (consumer, read_log), following in self._next.items():
            if read_log != log:
                continue
            began, saw = self._began[consumer, log], self._saw[consumer, log]
            missed = [
                offset
                for offset in values
                if max(began, start) <= offset < following and offset not in saw
            ]
            if missed:
                self._violated(
                    "skipped", f"{consumer} went on at {following} of {partition} without {missed}"
                )

    def _violated(self, rule: str, what: str) -> None:
        self.violations.append(f"{rule}: {what}")
