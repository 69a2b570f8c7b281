"""Scenarios of voter changes: Kafka's, those of the specification, and known bugs."""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.administrator import Administrator, ChangeAttempt, ChangeRequest
from kraftlog_simulator.scenarios.goals import (
    DEFAULT_TIMEOUT_MS,
    all_reached,
    any_reached,
    begin,
    expect_to_stay,
    heal_and_serve,
    highest_high_watermark,
    leader_agreed,
    leader_of,
    led_by_another,
    voter_changes_settled,
)
from kraftlog_simulator.setting import fixed_setting, kafka_setting
from kraftlog_simulator.voter_change import VoterChange
from kraftlog_simulator.world import Goal, World, time_passes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kraftlog.logstate.voters import VoterSet
    from kraftlog_simulator.process import Replica
    from kraftlog_simulator.rng import Rng
    from kraftlog_simulator.scenarios.goals import Script
    from kraftlog_simulator.setting import Setting


# Goals -------------------------------------------------------------------------------------------


def change_committed(request: ChangeRequest) -> Goal:
    """The change is committed; the run fails if the administrator gives up before that."""
    return Goal(f"“{request.change}” is committed", lambda: is_done(request), DEFAULT_TIMEOUT_MS)


def is_done(request: ChangeRequest) -> bool:
    """Whether the change succeeded; the error of a retry may be that it has been made already."""
    done = {"add_voter": ErrorCode.DUPLICATE_VOTER, "remove_voter": ErrorCode.VOTER_NOT_FOUND}
    return request.is_committed or request.error == done.get(request.change.kind, ErrorCode.NONE)


def voters_are(world: World, *ids: int) -> Goal:
    """The newest leader's log has these voters, committed, and no target."""

    def met() -> bool:
        voters = settled_voters(world)
        return voters is not None and voters.ids == tuple(sorted(ids))

    return Goal(f"the voters are {sorted(ids)}", met, DEFAULT_TIMEOUT_MS)


def settled_voters(world: World) -> VoterSet | None:
    """The voters of the newest leader's log, if they are committed and there is no target."""
    leader = world.leader()
    if leader is None or leader.core is None:
        return None
    log = leader.core.log
    settled = log.voters.latest_offset < log.high_watermark and log.voter_set.targets is None
    return log.voter_set if settled else None


def voters_of(replica: Replica) -> VoterSet:
    assert replica.core is not None
    return replica.core.log.voter_set


def removal_of(world: World, replica_id: int) -> VoterChange:
    """The removal of a voter, by its key in the leader's log."""
    voter = voters_of(leader_of(world)).voter(replica_id)
    assert voter is not None, "only a voter is removed"
    return Administrator.removal(voter.key)


def observers(world: World) -> list[Replica]:
    return [world.replicas[i] for i in world.replicas if i >= world.setting.voters]


def add(world: World, replica: Replica) -> Iterator[Goal]:
    yield change_committed(world.administrator.request(Administrator.addition(replica)))


def remove(world: World, replica_id: int) -> Iterator[Goal]:
    yield change_committed(world.administrator.request(removal_of(world, replica_id)))


def move(world: World, *ids: int) -> Iterator[Goal]:
    """Change the voters to these: by one reassignment or, if there is none, one voter at a time."""
    if world.reassigns:
        yield change_committed(world.administrator.request(VoterChange("reassign", ids)))
        yield voters_are(world, *ids)
        return
    before = voters_of(leader_of(world)).ids
    for newcomer in [i for i in ids if i not in before]:
        yield from add(world, world.replicas[newcomer])
    for leaver in [i for i in before if i not in ids]:
        yield leader_agreed(world)
        yield from remove(world, leaver)
    yield voters_are(world, *ids)


def more_is_committed(world: World) -> Goal:
    return any_reached(world, highest_high_watermark(world) + 10)


def all_continue(world: World) -> Iterator[Goal]:
    """Every running replica gets new records, voter or not."""
    yield leader_agreed(world)
    yield all_reached(world, highest_high_watermark(world) + 10)
    yield voter_changes_settled(world)


# Kafka's -----------------------------------------------------------------------------------------


def add_voter(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield all_reached(world, 10)
    yield from add(world, world.rng("script").pick(observers(world)))
    yield from all_continue(world)


def add_all_remove_all_but_one(world: World) -> Iterator[Goal]:
    yield from begin(world)
    yield all_reached(world, 10)
    for replica in observers(world):
        yield from add(world, replica)
    last_voter = world.rng("script").pick(list(world.replicas))
    for replica_id in world.replicas:
        if replica_id != last_voter:
            yield leader_agreed(world)
            yield from remove(world, replica_id)
    yield voters_are(world, last_voter)
    yield from all_continue(world)


def remove_voter(world: World) -> Iterator[Goal]:
    """Remove a random voter, in half of the runs the leader."""
    yield from begin(world)
    yield all_reached(world, 10)
    rng, leader = world.rng("script"), leader_of(world)
    removed = leader.id if rng.below(2) else rng.pick(voters_of(leader).ids)
    yield from remove(world, removed)
    yield voters_are(world, *[i for i in range(world.setting.voters) if i != removed])
    yield from all_continue(world)


def add_while_split(world: World) -> Iterator[Goal]:
    """Add a voter while two of five are cut off."""
    yield from begin(world)
    yield all_reached(world, 10)
    leader = leader_of(world)
    others = [i for i in range(world.setting.voters) if i != leader.id]
    world.network.split(world.rng("script").some(others, 2))
    newcomer = world.rng("script").pick(observers(world))
    yield from add(world, newcomer)
    yield more_is_committed(world)
    world.network.heal()
    yield from all_continue(world)


def swap_cut_off_voter(world: World) -> Iterator[Goal]:
    """An observer replaces a voter that is cut off."""
    yield from begin(world)
    yield all_reached(world, 10)
    removed = world.rng("script").pick(list(range(world.setting.voters)))
    world.network.isolate(removed)
    if leader_of(world).id == removed:
        yield led_by_another(world, world.replicas[removed])
        yield more_is_committed(world)
    yield from add(world, observers(world)[0])
    yield from remove(world, removed)
    yield more_is_committed(world)
    world.network.heal()
    yield from all_continue(world)
    core = world.replicas[removed].core
    assert core is not None
    assert core.role.name == "observer", "it was removed while it was cut off"


# Kraftlog's own --------------------------------------------------------------------------------


def grow(world: World) -> Iterator[Goal]:
    """R12: one voter becomes three, and then five."""
    yield from begin(world)
    yield any_reached(world, 10)
    yield from move(world, 0, 1, 2)
    yield from move(world, 0, 1, 2, 3, 4)
    yield from all_continue(world)


def shrink(world: World) -> Iterator[Goal]:
    """R5: five voters become three, and then one, whichever leads."""
    yield from begin(world)
    yield any_reached(world, 10)
    rng = world.rng("script")
    three = rng.some(list(range(5)), 3)
    yield from move(world, *three)
    yield from move(world, rng.pick(three))
    yield from all_continue(world)


def move_to_new_nodes(world: World) -> Iterator[Goal]:
    """R12: the voters change from 0, 1, 2 to 3, 4, 5 under load; then 0, 1, 2 lose power."""
    yield from begin(world)
    yield any_reached(world, 10)
    yield from move(world, 3, 4, 5)
    yield leader_agreed(world)
    for replica_id in (0, 1, 2):
        world.lose_power(world.replicas[replica_id])
    yield more_is_committed(world)
    yield from all_continue(world)


def reassign_midway(world: World) -> Iterator[Goal]:
    """R2, R3, R6: a reassignment is replaced and outlives its leader; a later one is cancelled."""
    yield from begin(world)
    yield any_reached(world, 10)
    rng, administrator = world.rng("script"), world.administrator
    yield change_committed(administrator.request(VoterChange("reassign", (3, 4, 5))))
    yield time_passes(rng.below(60))
    yield change_committed(administrator.request(VoterChange("reassign", (0, 4, 5))))
    yield time_passes(rng.below(60))
    yield leader_agreed(world)
    leader = leader_of(world)
    world.lose_power(leader)
    yield led_by_another(world, leader)
    world.start(leader)
    yield voters_are(world, 0, 4, 5)
    world.workload.slow_down()
    absent = world.replicas[1]
    world.kill(absent)
    yield time_passes(2 * world.setting.raft.fetch_timeout_ms)
    yield change_committed(administrator.request(VoterChange("reassign", (0, 1, 4, 5))))
    yield time_passes(1000)
    yield change_committed(administrator.request(VoterChange("reassign", None)))
    assert settled_voters(world) is not None, "null keeps the current voters"
    world.start(absent)
    yield from all_continue(world)


def replace_dead(world: World) -> Iterator[Goal]:
    """R12: a voter loses its disk, and is replaced by itself with a new directory id."""
    yield from begin(world)
    yield all_reached(world, 10)
    dead = world.rng("script").pick([world.replicas[i] for i in range(world.setting.voters)])
    removal = removal_of(world, dead.id)
    world.lose_power(dead)
    yield led_by_another(world, dead)
    yield more_is_committed(world)
    dead.lose_disk(0)
    world.start(dead)
    yield leader_agreed(world)
    yield change_committed(world.administrator.request(removal))
    yield from add(world, dead)
    yield voters_are(world, *range(world.setting.voters))
    assert voters_of(leader_of(world)).holds(dead.key), "in its new directory"
    yield from all_continue(world)


# Situations of the specification, and known bugs -------------------------------------------------


def unseen_growth(world: World) -> Iterator[Goal]:
    """R8: 3 and 4 become voters besides 0, 1, 2 while 2 is cut off; then 0 and 1 lose power.

    3 and 4 need the vote of 2, which does not know that they are voters.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    world.network.isolate(2)
    if leader_of(world).id == 2:
        yield led_by_another(world, world.replicas[2])
    yield from move(world, 0, 1, 2, 3, 4)
    assert voters_of(world.replicas[2]).ids == (0, 1, 2), "it has seen neither change"
    for dead in (0, 1):
        world.lose_power(world.replicas[dead])
    world.network.heal()
    target = highest_high_watermark(world) + 10
    yield Goal(
        "3 or 4 is elected", lambda: not {3, 4}.isdisjoint(world.leaders), DEFAULT_TIMEOUT_MS
    )
    yield all_reached(world, target, [2, 3, 4])


def early_changes(world: World) -> Iterator[Goal]:
    """Ongaro, 2015: two leaders in turn change different members, and commit neither.

    The second must commit a record of its own epoch first, or two majorities could be disjoint.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    rng = world.rng("script")
    first = leader_of(world)
    newcomers = [replica for replica in world.replicas.values() if replica.id >= 4]
    kinds = rng.pick(["add add", "add remove", "remove add", "remove remove"]).split()
    helper = newcomers[0].id
    world.network.split([first.id, helper])
    try_at(world, first, some_change(world, first, kinds[0], newcomers[0]))
    yield led_by_another(world, first)
    second = leader_of(world)
    others = [i for i in range(4) if i not in {first.id, second.id}]
    follower, bystander = others if rng.below(2) else others[::-1]
    # The second leader has not committed a record of its epoch; one other voter gets its change.
    try_at(world, second, some_change(world, second, kinds[1], newcomers[1], removed_id=first.id))
    world.network.heal()
    world.network.split([second.id, follower, newcomers[1].id])
    assert bystander not in {first.id, second.id}
    yield time_passes(3 * world.setting.raft.fetch_timeout_ms)
    yield from heal_and_serve(world)


def try_at(world: World, replica: Replica, change: VoterChange) -> None:
    """Make one attempt and ignore the result."""
    request = ChangeRequest(world.administrator, change)
    request.gave_up = True
    world.administrator.attempt_at(replica, ChangeAttempt(request, 1))


def some_change(
    world: World, leader: Replica, kind: str, newcomer: Replica, removed_id: int = -1
) -> VoterChange:
    if kind == "add":
        return Administrator.addition(newcomer)
    voters = voters_of(leader)
    others = [i for i in voters.ids if i != leader.id]
    chosen = voters.voter(removed_id if removed_id in others else world.rng("script").pick(others))
    assert chosen is not None
    return Administrator.removal(chosen.key)


def returned_empty(world: World) -> Iterator[Goal]:
    """A voter returns with an empty disk, and hears only a voter that lacks committed records.

    If voters were known by id alone, the empty voter would vote for the lagging one. With its new
    directory id it is another replica, which has no vote.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    leader = leader_of(world)
    lagging, wiped = [r for r in world.replicas.values() if r is not leader]
    world.network.isolate(lagging.id)
    yield all_reached(world, highest_high_watermark(world) + 10, [leader.id, wiped.id])
    world.lose_power(wiped)
    wiped.lose_disk(0)
    world.start(wiped)
    world.network.heal()
    world.network.split([lagging.id, wiped.id])
    yield time_passes(4 * world.setting.raft.fetch_timeout_ms)
    assert not {lagging.id, wiped.id} & set(world.leaders), (
        "one voter of three cannot elect a leader"
    )
    world.network.heal()
    yield from all_continue(world)
    assert wiped.core is not None
    assert wiped.core.role.name == "observer"


def removed_voter(world: World) -> Iterator[Goal]:
    """R7, P3, KAFKA-19850: a removed voter disturbs no leader and does not become a voter again."""
    yield from begin(world)
    yield all_reached(world, 10)
    rng = world.rng("script")
    leader = leader_of(world)
    removed = rng.pick([i for i in range(world.setting.voters) if i != leader.id])
    is_unaware = rng.below(2) == 1
    if is_unaware:
        world.network.isolate(removed)
    yield from remove(world, removed)
    expect_to_stay(world, leader)
    world.workload.slow_down()
    yield time_passes(2 * world.setting.raft.fetch_timeout_ms)
    world.network.heal()
    yield all_reached(world, highest_high_watermark(world) + 10)
    yield time_passes(2 * world.setting.raft.fetch_timeout_ms)
    core = world.replicas[removed].core
    assert core is not None
    assert core.role.name == "observer"
    assert removed not in voters_of(leader_of(world)).ids


def leader_removes_itself(world: World) -> Iterator[Goal]:
    """KAFKA-16530, KAFKA-17608: the leader commits its own removal without counting itself.

    The high watermark does not decrease; the former leader continues as an observer.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    old = leader_of(world)
    others = [i for i in range(world.setting.voters) if i != old.id]
    lagging = world.rng("script").some(others, len(others) // 2)
    for replica_id in lagging:
        world.network.cut([replica_id], world.replicas)
    yield time_passes(200)
    request = world.administrator.request(removal_of(world, old.id))
    yield time_passes(200)
    world.network.heal()
    yield change_committed(request)
    yield led_by_another(world, old)
    yield from all_continue(world)
    assert old.core is not None
    assert old.core.role.name == "observer"


def removed_leader_reads(world: World) -> Iterator[Goal]:
    """P5: a leader that removed itself needs a majority of the other voters for each read.

    Two voters have the record of its removal, elect one of them and commit. The third still follows
    the old leader, and is no majority.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    old = leader_of(world)
    others = [i for i in range(world.setting.voters) if i != old.id]
    follower = world.rng("script").pick(others)
    cut_off = [i for i in others if i != follower]
    yield time_passes(world.rng("script").below(100))
    try_at(world, old, removal_of(world, old.id))
    world.network.cut(cut_off, [old.id, follower])  # they get the record, and cannot acknowledge it
    yield time_passes(15)
    world.network.split(cut_off)
    yield time_passes(2 * world.setting.raft.fetch_timeout_ms)
    yield from heal_and_serve(world)


def only_the_removed_knows(world: World) -> Iterator[Goal]:
    """A leader of two voters removes itself and restarts before the other voter knows.

    The other voter needs the vote of the old leader, whose log is longer. So the old leader
    campaigns although by its own log it is no voter (Ongaro's thesis, section 4.2.2).
    """
    yield from begin(world)
    yield all_reached(world, 10)
    old = leader_of(world)
    other = world.replicas[1 - old.id]
    world.network.cut([old.id], [other.id])
    world.administrator.request(removal_of(world, old.id))
    yield time_passes(50)
    assert voters_of(old).ids == (other.id,), "it has removed itself"
    assert voters_of(other).ids == (0, 1), "and no other replica knows"
    world.kill(old)
    world.start(old)
    world.network.heal()
    yield voters_are(world, other.id)
    yield from all_continue(world)


def raise_kraft_version(world: World) -> Iterator[Goal]:
    """R11: static voters get their directory ids recorded, while leaders are killed.

    The leader forgets what the voters have reported when it loses its leadership, so they report
    again until the level is raised. From then on only the recorded directories vote.
    """
    yield from begin(world)
    yield all_reached(world, 10)
    rng = world.rng("script")
    kills = rng.below(3)
    raised = None
    while raised is None or not raised.is_committed:
        reports = [world.administrator.update(world.replicas[i]) for i in range(3)]
        for request in [world.administrator.request(report) for report in reports]:
            yield Goal(
                f"the {request!r} is over", lambda it=request: it.is_over, DEFAULT_TIMEOUT_MS
            )
        if kills:
            kills -= 1
            old = leader_of(world)
            raised = world.administrator.request(VoterChange("raise_kraft_version", 1))
            yield time_passes(rng.below(20))
            world.kill(old)
            yield time_passes(rng.below(2 * world.setting.raft.election_timeout_ms))
            world.start(old)
        else:
            raised = world.administrator.request(VoterChange("raise_kraft_version", 1))
        yield Goal("the level is raised or not", lambda it=raised: it.is_over, DEFAULT_TIMEOUT_MS)
        yield leader_agreed(world)
        if settled_level(world):
            break
    yield Goal("kraft.version is 1", lambda: settled_level(world) == 1, DEFAULT_TIMEOUT_MS)
    keys = {voter.key for voter in voters_of(leader_of(world)).voters}
    assert keys == {world.replicas[i].key for i in range(3)}
    yield from all_continue(world)


def settled_level(world: World) -> int:
    """The level of kraft.version in the newest leader's log, if it is committed; else 0."""
    voters = settled_voters(world)
    return 0 if voters is None else voters.kraft_version


VOTER_SCENARIOS: dict[str, tuple[Callable[[Rng], Setting], Script]] = {
    "add-voter": (kafka_setting(1, 5, 5, min_observers=1), add_voter),
    "add-all-remove-all-but-one": (kafka_setting(1, 3, 3), add_all_remove_all_but_one),
    "remove-voter": (kafka_setting(2, 5, 3), remove_voter),
    "add-voter-to-a-majority": (
        kafka_setting(5, 5, 3, min_observers=1),
        add_while_split,
    ),
    "swap-cut-off-voter": (kafka_setting(3, 5, 3, min_observers=1), swap_cut_off_voter),
    "grow": (fixed_setting(1, 4), grow),
    "shrink": (fixed_setting(5, 0), shrink),
    "move": (fixed_setting(3, 3, read_gap_ms=(5, 30)), move_to_new_nodes),
    "reassign-midway": (fixed_setting(3, 3), reassign_midway),
    "replace-dead": (fixed_setting(3, 1, dynamic=True), replace_dead),
    "unseen-growth": (fixed_setting(3, 2), unseen_growth),
    "early-changes": (fixed_setting(4, 2, append_gap_ms=(20, 100)), early_changes),
    "returned-empty": (fixed_setting(3, 0, dynamic=True), returned_empty),
    "removed-voter": (kafka_setting(3, 5, 2), removed_voter),
    "leader-removes-itself": (kafka_setting(3, 5, 1), leader_removes_itself),
    "removed-leader-reads": (
        fixed_setting(4, 0, append_gap_ms=(20, 60), read_gap_ms=(5, 30)),
        removed_leader_reads,
    ),
    "only-the-removed-knows": (fixed_setting(2, 0), only_the_removed_knows),
    "raised-kraft-version": (fixed_setting(3, 1, dynamic=False), raise_kraft_version),
}
