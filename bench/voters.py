"""The cost of changing voters: three controllers and a broker, and three controllers to move to.

The first part measures changes of topic configs, one after the other over a plain socket, while
another process moves the voters back and forth without a pause. The second part makes a long
metadata log of config changes: the throttled replicas of topics, as a reassignment of many
partitions sets them. It has no snapshot, so the new controllers fetch and replay all of it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from tests.client.waiting import until
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

from bench.quorum import (
    TOPIC,
    TOPIC_RESOURCE,
    ChangeClient,
    change,
    commit_times_ms,
    create_topic,
    frame_of,
)
from kraftlog import Client
from kraftlog.node.quorum.snapshotter import BYTES_KEY
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages import incremental_alter_configs as configs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Case = tuple[str, float, str]

NEW = (11, 12, 13)
MOVES = 20
ONE_BY_ONE = 2000
#: The interval of describing the quorum while the voters move.
POLL_INTERVAL_S = 0.01
TIMEOUT_S = 120
LOG_BYTES = 100_000_000
#: Each request changes one config of each topic; its value is a list of this many replicas.
TOPICS = 50
REPLICAS = 64
IN_FLIGHT = 8
WITHOUT_SNAPSHOTS = f"{BYTES_KEY}=1000000000\n"


def cases() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        quorum = Quorum(Path(folder), dynamic=True, all_vote=True)
        try:
            quorum.start(*CONTROLLERS, BROKER)
            quorum.add(*NEW)
            create_topic(quorum.address)
            yield from latency_cases(quorum.address)
        finally:
            quorum.end()
    with tempfile.TemporaryDirectory() as folder:
        quorum = Quorum(Path(folder), WITHOUT_SNAPSHOTS, dynamic=True, all_vote=True)
        try:
            quorum.start(*CONTROLLERS, BROKER)
            yield from long_log_cases(quorum)
        finally:
            quorum.end()


# Latency while voters change ---------------------------------------------------------------------


def latency_cases(address: str) -> Iterator[Case]:
    with Client(address) as client:
        until(lambda: {*NEW} <= {each.id for each in client.describe_quorum().observers}, True)
    commit_times_ms(address, 200)
    quiet = p99(commit_times_ms(address, ONE_BY_ONE))
    yield "change a topic config while no voter changes, p99", quiet, "ms"
    for what, there, back in (
        ("a fourth voter is added and removed", (*CONTROLLERS, NEW[0]), CONTROLLERS),
        ("the voters move from (1,2,3) to (11,12,13) and back", NEW, CONTROLLERS),
    ):
        times, took = times_while_moving(address, there, back)
        changed = f"change a topic config while {what}"
        yield f"{changed}, p99", p99(times), "ms"
        yield f"{changed}, p99, against no change of voters", p99(times) / quiet, "times"
        # Once in each move there may be another leader.
        yield (
            f"{changed}, longest of each change of voters, p50",
            median_of_slowest(times, len(took)),
            "ms",
        )
        yield f"{what}: each time, p50", median(took) * 1000, "ms"


def median_of_slowest(times: Sequence[float], count: int) -> float:
    return median(sorted(times)[-count:])


def p99(times: Sequence[float]) -> float:
    return quantiles(times, n=100)[98]


def times_while_moving(
    address: str, there: Sequence[int], back: Sequence[int]
) -> tuple[list[float], list[float]]:
    """The latencies of sequential changes while the voters move; the seconds of each move."""
    targets = [",".join(map(str, voters)) for voters in (there, back)]
    command = [sys.executable, "-m", "bench.voters", address, *targets]
    times: list[float] = []
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mover,
        ChangeClient(address) as changes,
    ):
        assert mover.stdout is not None
        mover.stdout.readline()  # once it begins
        while mover.poll() is None:
            begin = time.perf_counter()
            changes.send(change(len(times)))
            changes.await_responses(1)
            times.append((time.perf_counter() - begin) * 1000)
        took = [float(line) for line in mover.stdout]
    if mover.returncode:
        raise RuntimeError("the process that moves the voters has failed; its error is above")
    return times, took


def move_back_and_forth(address: str, targets: Sequence[Sequence[int]]) -> None:
    """Move the voters, in the process that `times_while_moving` starts; print seconds per move."""
    with Client(address, timeout_s=TIMEOUT_S) as client:
        print("begins", flush=True)
        for _ in range(MOVES // 2):
            for voters in targets:
                begin = time.perf_counter()
                client.reassign_voters(voters)
                await_voters(client, voters)
                print(time.perf_counter() - begin, flush=True)


def await_voters(client: Client, targets: Sequence[int]) -> None:
    deadline = time.perf_counter() + TIMEOUT_S
    while time.perf_counter() < deadline:
        quorum = client.describe_quorum()
        if quorum.targets is None and {each.id for each in quorum.voters} == {*targets}:
            return
        time.sleep(POLL_INTERVAL_S)
    raise TimeoutError(f"the voters are not {targets} after {TIMEOUT_S} s")


# A long metadata log -----------------------------------------------------------------------------


def long_log_cases(quorum: Quorum) -> Iterator[Case]:
    records = write_log(quorum)
    size = log_bytes(quorum)
    begin = time.perf_counter()
    quorum.add(*NEW)
    with Client(quorum.address, timeout_s=TIMEOUT_S) as client:
        client.reassign_voters(NEW)
        await_voters(client, NEW)
    took = time.perf_counter() - begin
    what = f"{size / 1e6:.0f} MB of metadata log, {records:,} records"
    yield f"{what}: start (11,12,13) with empty disks, and move the voters to them", took, "s"


def write_log(quorum: Quorum) -> int:
    """Change configs until the metadata log is long enough; return the number of changes."""
    with Client(quorum.address) as client:
        for number in range(TOPICS):
            client.create_topic(f"{TOPIC}-{number}", 1)
    written = 0
    with ChangeClient(quorum.address) as changes:
        for _ in range(IN_FLIGHT):
            changes.send(changes_of_all(written))
            written += TOPICS
        while log_bytes(quorum) < LOG_BYTES:
            for _ in range(IN_FLIGHT):
                changes.await_responses(1)
                changes.send(changes_of_all(written))
                written += TOPICS
        changes.await_responses(IN_FLIGHT)
    return written


def changes_of_all(number: int) -> bytes:
    """An IncrementalAlterConfigs request that changes a config of every topic."""
    replicas = ",".join([f"{number + index}:{index}" for index in range(REPLICAS)])
    config = configs.AlterableConfig(
        name="leader.replication.throttled.replicas", config_operation=0, value=replicas
    )
    resources = [
        configs.AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=f"{TOPIC}-{index}", configs=[config]
        )
        for index in range(TOPICS)
    ]
    request = configs.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    return frame_of(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)


def log_bytes(quorum: Quorum) -> int:
    """The size of the first controller's segments, which may include preallocated space."""
    folder = Path(quorum.data(CONTROLLERS[0])) / "__cluster_metadata-0"
    return sum(file.stat().st_size for file in folder.glob("*.log"))


if __name__ == "__main__":
    move_back_and_forth(sys.argv[1], [[int(i) for i in to.split(",")] for to in sys.argv[2:]])
