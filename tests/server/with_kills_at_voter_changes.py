"""A node that, as the leader, kills itself at the steps of a voter change, once at each.

A step is one voters record, and has three points: it is appended but not flushed, flushed by the
leader or a majority, committed. The nodes write a file for each kill into a folder, whose path is
in their environment; without the folder no node kills itself.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from kraftlog.cli import main
from kraftlog.node.quorum.driver import QuorumDriver
from kraftlog.raft import changes

if TYPE_CHECKING:
    from kraftlog.effects import LogFlushed
    from kraftlog.logstate.voters import VoterHistory, VoterSet
    from kraftlog.raft import messages
    from kraftlog.raft.interfaces import Core, LeaderRole
    from kraftlog.types import Now

#: The environment variable with the path of the folder.
FOLDER = "KRAFTLOG_TEST_KILLS"
#: If set, there is a kill at every point of a step, not at one of them.
AT_ALL_POINTS = "KRAFTLOG_TEST_KILLS_AT_ALL_POINTS"
APPENDED, FLUSHED, COMMITTED = POINTS = ("appended", "flushed", "committed")

append_voters = changes.append_voters
on_flushed = QuorumDriver._flushed
on_committed = QuorumDriver._apply_committed


class Step:
    """The last voters record appended by this process or a former leader, and where to kill."""

    name = ""
    offset = -1
    #: The offset of the voters record before it.
    previous = -1
    points: tuple[str, ...] = ()


def name_of(voters: VoterSet) -> str:
    targets = "none" if voters.targets is None else ".".join(map(str, voters.targets))
    return f"{'.'.join(map(str, voters.ids))} to {targets}"


def points_left(name: str) -> tuple[str, ...]:
    """Where to kill at a step: with AT_ALL_POINTS at each point without a kill, else at one."""
    folder = os.environ[FOLDER]
    if not os.path.isdir(folder):
        return ()
    done = os.listdir(folder)
    if AT_ALL_POINTS in os.environ:
        return tuple([point for point in POINTS if f"{name} {point}" not in done])
    if any(each.startswith(f"{name} ") for each in done):
        return ()
    return (POINTS[len(done) % len(POINTS)],)


def reach(point: str, offset: int) -> None:
    """Kill this process if its step is before `offset`, and `point` is planned for that step."""
    if offset > Step.offset and point in Step.points:
        path = os.path.join(os.environ[FOLDER], f"{Step.name} {point}")
        with suppress(FileNotFoundError):  # the test has deleted the folder: no more kills
            with open(path, "x", encoding="utf-8") as kill:
                kill.write(str(Step.previous))
            os.kill(os.getpid(), signal.SIGKILL)


def reach_commit(offset: int) -> None:
    reach(FLUSHED, offset)  # a majority of followers may flush before the leader
    reach(COMMITTED, offset)


def inherit_step(history: VoterHistory) -> None:
    """Plan a kill at a step of an earlier leader, which lost leadership before its planned point.

    A leader appends a step only after it has committed the previous one, so no step is missed.
    """
    voters, offset = history.latest, history.latest_offset
    if offset <= Step.offset or voters.targets is None:
        return
    name, kills = name_of(voters), kills_so_far()
    is_earlier = offset <= min(kills.values(), default=offset)  # appended before the first kill
    has_kill = any(each.startswith(f"{name} ") for each in kills)
    Step.name, Step.offset = name, offset
    Step.points = () if is_earlier or has_kill else (COMMITTED,)


def kills_so_far() -> dict[str, int]:
    """By the name of each kill's file: the offset of the voters record before its step."""
    offsets = {}
    with suppress(FileNotFoundError):  # the test has deleted the folder
        for name in os.listdir(os.environ[FOLDER]):
            with open(os.path.join(os.environ[FOLDER], name), encoding="utf-8") as kill:
                offsets[name] = int(kill.read())
    return offsets


def append_and_reach(core: Core, leader: LeaderRole, voters: VoterSet) -> None:
    # The previous step is committed; the driver would learn this only after the append.
    inherit_step(core.log.voters)
    reach_commit(core.log.high_watermark)
    name = name_of(voters)
    Step.name, Step.offset, Step.points = name, core.log.end, points_left(name)
    Step.previous = core.log.voters.latest_offset
    append_voters(core, leader, voters)
    reach(APPENDED, core.log.end)


def flush_and_reach(self: QuorumDriver, report: LogFlushed, now: Now) -> None:
    if self.is_leader:
        reach(FLUSHED, report.offset)
    on_flushed(self, report, now)


def commit_and_reach(self: QuorumDriver, effect: messages.Committed, now: Now) -> None:
    if self.is_leader:
        inherit_step(self.core.log.voters)
        reach_commit(effect.offset)
    on_committed(self, effect, now)


if __name__ == "__main__":
    changes.append_voters = append_and_reach
    QuorumDriver._flushed = flush_and_reach  # type: ignore[method-assign]  # kills the process there
    QuorumDriver._apply_committed = commit_and_reach  # type: ignore[method-assign]  # as above
    sys.exit(main())
