"""The latency and rate of metadata reads: three nodes, each a broker and a controller.

A read is a Metadata request for one topic, stale or linearizable, over plain sockets. Reads in
parallel come from processes of their own, so that the clients are not what is measured.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING

from tests.server.local_cluster import LocalCluster

from bench.quorum import ChangeClient, frame_of, quorum_of, times_ms
from kraftlog import Client
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

    Case = tuple[str, float, str]

TOPIC = "read"
NODES = (1, 2, 3)
#: The number of sequential reads, and of those of all processes that read in parallel.
ONE_BY_ONE = 2000
IN_PARALLEL = 40_000
#: Processes that read in parallel, each on one connection with requests in flight.
PROCESSES, IN_FLIGHT = 2, 128
ROUNDS = 3
METADATA_VERSION = 13
TICKS = os.sysconf("SC_CLK_TCK")


def cases() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster(Path(folder))
        try:
            with Client(cluster.servers) as client:
                client.create_topic(TOPIC)
            yield from cluster_cases(cluster)
        finally:
            cluster.end()


def cluster_cases(cluster: LocalCluster) -> Iterator[Case]:
    addresses = {node: cluster.rows[node][2] for node in NODES}
    leader = quorum_of(addresses[NODES[0]]).leader_id
    follower = min(node for node in NODES if node != leader)
    for where, node in (("follower", follower), ("leader", leader)):
        for kind in ("linearizable", "stale"):
            times_ms(addresses[node], [read(kind)] * 200)
            times = times_ms(addresses[node], [read(kind)] * ONE_BY_ONE)
            yield f"{kind} read from a {where} of three, p50", median(times), "ms"
            yield f"{kind} read from a {where} of three, p99", quantiles(times, n=100)[98], "ms"
    what = f"{PROCESSES} connections with {IN_FLIGHT} requests in flight"
    for kind in ("linearizable", "stale"):
        rate = max([reads_per_second(addresses[follower], kind) for _ in range(ROUNDS)])
        yield f"{kind} reads from a follower, {what}", rate, "reads/s"
    at_follower = leader_cpu_ms(cluster, leader, addresses[follower])
    at_leader = leader_cpu_ms(cluster, leader, addresses[leader])
    cpu_time = "CPU time of the leader for 1,000 linearizable reads"
    yield f"{cpu_time} from a follower, {what}", at_follower, "ms"
    yield f"{cpu_time} from itself, {what}", at_leader, "ms"
    ratio_of_both = (
        "CPU time of the leader for a linearizable read from itself, divided by that for one "
        "from a follower"
    )
    yield ratio_of_both, at_leader / at_follower, "times"


def read(kind: str) -> bytes:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC)],
        allow_auto_topic_creation=False,
        linearizable=kind == "linearizable",
    )
    return frame_of(ApiKey.METADATA, METADATA_VERSION, request)


def reads_per_second(address: str, kind: str) -> float:
    """The rate of reads of several processes, from the first read to the last response."""
    command = [sys.executable, "-m", "bench.reads", address, kind, str(IN_PARALLEL // PROCESSES)]
    readers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    for reader in readers:
        assert reader.stdout is not None
        reader.stdout.readline()  # once it is connected
    begin = time.perf_counter()
    for reader in readers:
        reader.communicate(b"\n")
    took = time.perf_counter() - begin
    if any(reader.returncode for reader in readers):
        raise RuntimeError("a process that reads in parallel has failed; its error is above")
    return IN_PARALLEL / took


def read_in_parallel(address: str, kind: str, count: int) -> None:
    """Read in a process that `reads_per_second` starts; begin at a line of standard input."""
    with ChangeClient(address) as connection:
        frame = read(kind)
        print("connected", flush=True)
        sys.stdin.readline()
        connection.send(frame * IN_FLIGHT)
        step = IN_FLIGHT // 2
        for _ in range(IN_FLIGHT, count, step):
            connection.await_responses(step)
            connection.send(frame * step)
        connection.await_responses(IN_FLIGHT)


def leader_cpu_ms(cluster: LocalCluster, leader: int, address: str) -> float:
    """The leader's CPU time for 1,000 linearizable reads here, beyond what it uses when idle."""
    pid = cluster.pid(leader)
    begin, before = time.perf_counter(), cpu_ms(pid)
    reads_per_second(address, "linearizable")
    took, used = time.perf_counter() - begin, cpu_ms(pid) - before
    before = cpu_ms(pid)
    time.sleep(took)
    idle = cpu_ms(pid) - before
    return max(used - idle, 1000 / TICKS) / (IN_PARALLEL / 1000)


def cpu_ms(pid: int) -> float:
    """The user and system time of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / TICKS


if __name__ == "__main__":
    read_in_parallel(sys.argv[1], sys.argv[2], int(sys.argv[3]))
