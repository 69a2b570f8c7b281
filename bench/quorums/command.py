"""`python -m bench quorums [PEER …]`: commits and failover beside etcd, ZooKeeper and Kafka."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from tests.interop.cache import UnavailableError
from tests.interop.kafka_jars import kafka_libs, kafka_version, require_java

from bench import stamps
from bench.beside import machine
from bench.beside.figures import Result
from bench.beside.plan import QUICK, Plan
from bench.beside.programs import program
from bench.page import PAGE, figure_text, write_section
from bench.quorums import programs
from bench.quorums.ensembles import PEERS, UNLIMITED, Brokers, ensemble
from bench.quorums.page import ROWS, SHARES, TITLE, section_text, table

if TYPE_CHECKING:
    from collections.abc import Sequence

FULL = Plan(rounds=3)
CLIENTS = 256
COMMITS = 2_000


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench quorums", description=__doc__)
    parser.add_argument("peers", nargs="*", metavar="PEER", help=", ".join(PEERS))
    parser.add_argument("--quick", action="store_true", help="a little of everything, to try it")
    options = parser.parse_args(arguments)
    for peer in options.peers:
        if peer not in PEERS:
            parser.error(f"no peer {peer!r}; there are {', '.join(PEERS)}")
    peers = options.peers or PEERS
    try:
        require()
    except UnavailableError as complaint:
        print(f"quorums: {complaint}", file=sys.stderr)
        return 1
    stamp, start = stamps.begin(), time.perf_counter()
    result = Result("quorums", idle_before=machine.idle_percent())
    print(f"== {TITLE} (machine {result.idle_before:.0f} % idle)", flush=True)
    for peer in peers:
        measure(peer, QUICK if options.quick else FULL, result)
    print("\n".join(table(result)))
    if options.peers:
        return 0
    if not options.quick:
        write_section(TITLE, section_text(result, kafka_version()))
        print(f"written: {os.path.relpath(PAGE)}")
    stamps.finish("quorums", stamp, time.perf_counter() - start, is_full=not options.quick)
    return 0


def require() -> None:
    """Fetch and build all that is needed before anything is measured."""
    require_java()
    kafka_libs()
    program("probe")
    programs.etcd()
    programs.zookeeper_load()
    programs.kafka_with_zookeeper_libs()


def measure(peer: str, plan: Plan, result: Result) -> None:
    with tempfile.TemporaryDirectory(prefix=f"quorums-{peer}-") as folder:
        nodes = ensemble(peer, folder)
        with nodes.running():
            nodes.commit(16, UNLIMITED, plan.warm_s)
            for _ in range(plan.rounds):
                alone = nodes.commit(1, plan.count(COMMITS), plan.load_s)
                if isinstance(nodes, Brokers) and (latencies := nodes.latencies()):
                    for key, share in shares(latencies).items():
                        result.add(key, peer, share)
                together = nodes.commit(CLIENTS, UNLIMITED, plan.commit_s)
                result.add("p50", peer, alone.p50)
                result.add("p99", peer, alone.p99)
                result.add("rate.1", peer, alone.rate)
                result.add("rate.256", peer, together.rate)
            result.add("kill", peer, nodes.failover_ms())
    for row in (*ROWS, *SHARES):
        if figure := result.medians(row.key).get(peer):
            print(f"{peer:<10}{row.what:<60}{figure_text(figure):>10} {row.unit}", flush=True)


def shares(latencies: dict[str, float]) -> dict[str, float]:
    """The shares of a change's latency in percent."""
    whole = latencies["change"] / 100
    return {
        "share.flush": latencies["flush"] / whole,
        "share.propagation": max(0, latencies["commit"] - latencies["flush"]) / whole,
        "share.apply": latencies["apply"] / whole,
    }
