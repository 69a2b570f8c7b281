"""Nodes behind cables that can be cut: the longest wait of a producer while one is cut off.

Each node is in a network namespace of its own, and a virtual cable joins it to a bridge. All this
is in a namespace without a way out, made by `unshare --net`, and ends with its last process. It
needs the rights of root.

`python -m bench.cluster.cables PEER FOLDER EVENTS SECONDS` runs in there and prints JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from bench.beside.figures import Result
from bench.cluster.longest_wait import EVENTS, SETTLE_S, away_s, measure_waits
from bench.cluster.nodes import IDS, Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.beside.plan import Plan
    from bench.cluster.longest_wait import Load, Way

BRIDGE = "bridge"
NETWORK = "10.127.0"
#: Where the clients are.
CLIENTS = f"{NETWORK}.254/24"


class WiredCluster(Cluster):
    """Each node is started in a namespace that a sleeping process holds."""

    def __init__(self, name: str, folder: str, holders: dict[int, int]) -> None:
        self._holders = holders
        super().__init__(name, folder)

    def host_of(self, node_id: int) -> str:
        return f"{NETWORK}.{node_id}"

    def command_of(self, node_id: int, command: list[str]) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[node_id]}/ns/net", "--", *command]


def cut(_: Cluster, victim: int, load: Load, away_s: float) -> None:
    """Nothing passes for a while in either direction; no connection is closed."""
    run("ip", "link", "set", cable(victim), "down")
    time.sleep(away_s)
    run("ip", "link", "set", cable(victim), "up")
    time.sleep(SETTLE_S)
    load.wait_until_calm()


def longest_wait_when_cut(cluster: Cluster, plan: Plan, result: Result) -> None:
    """Measure in a process of its own, as that is in another network; `cluster` only names it."""
    if not may_cut():
        result.notes.append("Not measured: this takes the right to make networks.")
        return
    events, seconds = plan.count(EVENTS, minimum=1), away_s(plan)
    arguments = [cluster.name, cluster.folder, str(events), str(seconds)]
    command = [sys.executable, "-m", __name__, *arguments]
    done = subprocess.run(
        ["unshare", "--net", "--", *command], stdout=subprocess.PIPE, text=True, check=True
    )
    measured = Result(**json.loads(done.stdout))
    result.notes += measured.notes
    for row, figures in measured.figures.items():
        result.figures.setdefault(row, {}).update(figures)


def may_cut() -> bool:
    """Try to make a bridge, a cable and the namespace at its end, as containers may forbid it."""
    script = (
        "ip link add bridge type bridge && ip link add outer type veth peer name inner && "
        "unshare --net -- nsenter --net=/proc/self/ns/net -- true"
    )
    try:
        done = subprocess.run(
            ["unshare", "--net", "--", "sh", "-c", script], capture_output=True, check=False
        )
    except FileNotFoundError:
        return False
    return done.returncode == 0


# The network --------------------------------------------------------------------------------------


@contextmanager
def wires() -> Iterator[dict[int, int]]:
    """Build the bridge, and a cable for each node; yield the holders of their namespaces."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "address", "add", CLIENTS, "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    with ExitStack() as stack:
        holders = {}
        for node_id in IDS:
            holder = stack.enter_context(held_namespace())
            holders[node_id] = holder
            connect(node_id, holder)
        yield holders


@contextmanager
def held_namespace() -> Iterator[int]:
    # `cat` says that it runs, and so that its namespace is there, and ends with its input.
    command = ["unshare", "--net", "--", "sh", "-c", "echo ready; exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        try:
            yield holder.pid
        finally:
            holder.stdin.close()


def connect(node_id: int, holder: int) -> None:
    outer, inner = cable(node_id), "eth0"
    run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", str(holder))
    run("ip", "link", "set", outer, "master", BRIDGE)
    run("ip", "link", "set", outer, "up")
    inside = ("nsenter", f"--net=/proc/{holder}/ns/net", "--", "ip")
    run(*inside, "link", "set", "lo", "up")
    run(*inside, "address", "add", f"{NETWORK}.{node_id}/24", "dev", inner)
    run(*inside, "link", "set", inner, "up")


def cable(node_id: int) -> str:
    return f"cable-{node_id}"


def run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=sys.stderr)


def main(peer: str, folder: str, events: str, seconds: str) -> None:
    result = Result("longest_wait_when_cut")
    with wires() as holders:
        cluster = WiredCluster(peer, folder, holders)
        with cluster.running():
            ways: dict[str, Way] = {"cut": partial(cut, away_s=float(seconds))}
            measure_waits(cluster, ways, int(events), result)
    print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main(*sys.argv[1:])
