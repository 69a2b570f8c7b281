"""Random faults of the nodes, one at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kraftlog import Client
from kraftlog.errors import ClientError
from tests.torture.processes import ALONE, QUORUM, until

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.torture.journal import Journal
    from tests.torture.processes import Nodes, Process

#: Durations of faults, below and above the timeouts of sessions, fetches and elections.
DURATIONS_S = (0.0, 0.3, 1.0, 3.0, 7.0)
#: Bytes that can still be written when the disk fills.
REMAINING_BYTES = (0, 3_000, 50_000)


class Faults:
    """Injects a random fault at each step, and starts the nodes that have ended."""

    def __init__(self, nodes: Nodes, journal: Journal, rng: random.Random) -> None:
        self.nodes = nodes
        self.journal = journal
        self.rng = rng
        self.kinds: list[tuple[int, Callable[[], None]]] = [
            (5, self.kill_one),
            (3, self.pause_one),
            (2, self.stop_one),
            (2, self.kill_at_start),
            (1, self.kill_all),
            (1, self.stop_all),
            (1, self.fill_disk),
            (1, self.calm),
        ]
        if nodes.kind != ALONE:
            self.kinds += [(2, self.kill_two_controllers), (2, self.pause_two_controllers)]
        if nodes.kind == QUORUM:
            self.kinds.append((2, self.wipe_a_controller))

    def step(self) -> None:
        kinds = [kind for _, kind in self.kinds]
        self.rng.choices(kinds, [weight for weight, _ in self.kinds])[0]()
        for process in self.nodes.all.values():
            if process.is_gone():
                self._note("start", process)
                process.start()
        if self.rng.random() < 0.6:
            self.nodes.revive()
            time.sleep(self.rng.random() * 4)

    def _note(self, what: str, *processes: Process) -> None:
        self.journal.add_fault(f"{what} {','.join(str(process.id) for process in processes)}")

    def _random_node(self) -> Process:
        return self.rng.choice(list(self.nodes.all.values()))

    def _wait(self) -> None:
        time.sleep(self.rng.choice(DURATIONS_S))

    def calm(self) -> None:
        self._note("nothing")
        time.sleep(3)

    def kill_one(self) -> None:
        self._kill(self._random_node())

    def _kill(self, *processes: Process) -> None:
        self._note("kill", *processes)
        for process in processes:
            process.kill()
        self._wait()

    def kill_two_controllers(self) -> None:
        self._kill(*self.rng.sample(self.nodes.controllers, 2))

    def kill_all(self) -> None:
        processes = list(self.nodes.all.values())
        self.rng.shuffle(processes)
        self._kill(*processes)

    def kill_at_start(self) -> None:
        """Kill and start a node up to three times, to interrupt its recovery."""
        process = self._random_node()
        for _ in range(self.rng.randrange(1, 4)):
            self._note("kill early", process)
            process.kill()
            process.start()
            time.sleep(self.rng.random() * 1.5)
        process.kill()

    def pause_one(self) -> None:
        self._pause(self._random_node())

    def pause_two_controllers(self) -> None:
        self._pause(*self.rng.sample(self.nodes.controllers, 2))

    def _pause(self, *processes: Process) -> None:
        self._note("pause", *processes)
        for process in processes:
            process.hold()
        self._wait()
        for process in processes:
            process.resume()
        self._note("resume", *processes)

    def stop_one(self) -> None:
        self._stop(self._random_node())

    def stop_all(self) -> None:
        processes = list(self.nodes.all.values())
        self.rng.shuffle(processes)
        self._stop(*processes)

    def _stop(self, *processes: Process) -> None:
        self._note("stop", *processes)
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
        self._wait()

    def fill_disk(self) -> None:
        """A node that cannot write its metadata stops; `step` restarts it once there is space."""
        process = self._random_node()
        self._note("fill the disk of", process)
        process.limit_file_size(self.rng.choice(REMAINING_BYTES))
        self._wait()
        process.limit_file_size()
        if process.is_gone():
            process.exit_codes.clear()

    def wipe_a_controller(self) -> None:
        """If all nodes have caught up, wipe a controller's disk and wait until it catches up."""
        self.nodes.revive()
        if not caught_up(self.nodes):
            return
        controller = self.rng.choice(self.nodes.controllers)
        self._note("empty the disk of", controller)
        controller.kill()
        controller.lose_disk()
        controller.start()
        until("the new disk is filled", lambda: controller.is_ready() and caught_up(self.nodes))


def caught_up(nodes: Nodes) -> bool:
    """Whether every node of the quorum has the records committed a moment ago."""
    try:
        with Client(nodes.address, timeout_s=20) as client:
            committed = client.describe_quorum().high_watermark
            quorum = client.describe_quorum()
    except (ClientError, OSError):
        return False
    replicas = [*quorum.voters, *quorum.observers]
    return all(replica.log_end_offset >= committed for replica in replicas) and len(
        replicas
    ) == len(nodes.all)


def in_sync(nodes: Nodes) -> bool:
    """Whether the metadata of every broker shows all replicas in sync."""
    try:
        for address in nodes.address.split(","):
            with Client(address, timeout_s=20) as client:
                names = [topic.name for topic in client.topics()]
                for topic in client.describe_topics(names):
                    if any(set(part.isr) != set(part.replicas) for part in topic.partitions):
                        return False
    except (ClientError, OSError):
        return False
    return True
