"""Faults that take the logs of a stopped broker, or parts of them, at any moment (V19).

Unlike the other faults that lose data, they wait for nobody: they may hit the last ISR member.
Then the partition must be offline until an operator requests an unclean election.
"""

from __future__ import annotations

from kraftlog.errors import CorruptBatchError
from kraftlog.records.walk import walk
from kraftlog.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    decode_committed,
)
from kraftlog.storage.committed_offsets import COMMITTED_OFFSETS
from kraftlog.storage.directory import parse_folder
from kraftlog.storage.machine_restarts import BOOT_ID
from kraftlog.storage.meta_properties import NAME, encode, load
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.metadata.values import PartitionKey
    from kraftlog_simulator.cluster.node import ClusterNode
    from kraftlog_simulator.cluster.world import ClusterWorld
    from kraftlog_simulator.rng import Rng

    #: Damages a stopped broker's log of one partition; returns whether it did.
    Damage = Callable[[ClusterWorld, Rng, ClusterNode, PartitionKey], bool]

#: How long until it is checked again whether a stopped broker may lose its log.
RECHECK_MS = 20
#: How long the other replicas may be down before the victim is, so that the ISR shrinks to it.
ALONE_MS = (0, 2500)
#: How long the victim is down, at most, before its log is lost and it starts again.
DOWN_MS = 1500
#: Bytes of a damaged batch.
GARBAGE = b"\xa5\x5a\xa5\x5a"


# Whom it hits ------------------------------------------------------------------------------------


def _strike(world: ClusterWorld, rng: Rng, for_ms: int, damage: Damage) -> None:
    """Stop a replica of some partition, and damage its log; its other replicas may be stopped, too.

    In half of the cases it is the leader. In half of the cases it is the last of the ISR: the other
    replicas stop before it, and start when it is stopped, or later.
    """
    keys = [key for key, image in world.image.partitions.items() if image.leader >= 0]
    if not keys:
        return
    key = rng.pick(keys)
    image = world.image.partitions[key]
    victim = world.replicas[image.leader if rng.below(2) else rng.pick(image.replicas)]
    alone_ms = 0
    if rng.below(2):
        alone_ms = rng.between(*ALONE_MS)
        down_ms = rng.pick([0, for_ms])
        for broker in image.replicas:
            if broker != victim.id:
                other = world.replicas[broker]
                world.kill(other)
                world.schedule(world.time + alone_ms + down_ms + rng.below(500), world.start, other)
    world.schedule(world.time + alone_ms, _stop, world, rng, victim, key, damage)


def _stop(
    world: ClusterWorld, rng: Rng, victim: ClusterNode, key: PartitionKey, damage: Damage
) -> None:
    if world.healed:
        return
    world.kill(victim)
    if victim.core is None:  # otherwise its end was postponed
        earliest = world.time + rng.below(DOWN_MS)
        _damage_stopped(world, rng, victim, key, damage, victim.incarnation, earliest)


def _damage_stopped(
    world: ClusterWorld,
    rng: Rng,
    victim: ClusterNode,
    key: PartitionKey,
    damage: Damage,
    incarnation: int,
    earliest: int,
) -> None:
    """Damage the log once no unapplied record may change an ISR: it must be known who keeps it."""
    if victim.core is not None or victim.incarnation != incarnation or world.healed:
        return
    if world.time < earliest or world.isr_may_change:
        again = world.time + RECHECK_MS
        world.schedule(
            again, _damage_stopped, world, rng, victim, key, damage, incarnation, earliest
        )
        return
    image = world.image.partitions.get(key)
    if image is not None and damage(world, rng, victim, key):
        if {*image.isr} == {victim.id}:
            world.saw("last ISR member lost its log")
        world.saw("replica lost its log")
    world.start(victim)


# What is lost ------------------------------------------------------------------------------------


def lose_folder(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """The folder of one partition is gone when its broker starts again."""
    _strike(world, rng, for_ms, _delete_folder)


def replace_disk(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """A broker starts again with an empty log directory, of the same directory id or a new one."""
    _strike(world, rng, for_ms, _replace_directory)


def cut_log(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """A log ends before what its replica had confirmed when the broker starts again."""
    _strike(world, rng, for_ms, _cut_tail)


def damage_log(world: ClusterWorld, rng: Rng, for_ms: int) -> None:
    """A batch of a log is damaged when its broker starts again."""
    _strike(world, rng, for_ms, _damage_batch)


def _delete_folder(world: ClusterWorld, _: Rng, victim: ClusterNode, key: PartitionKey) -> bool:
    return delete_log(world, victim, key)


def delete_log(world: ClusterWorld, victim: ClusterNode, key: PartitionKey) -> bool:
    """Delete the log of a stopped broker, if it has one."""
    folder = _folder_of(world, victim, key)
    if folder is None:
        return False
    _delete_tree(victim, folder)
    victim.files.write_back()
    world.kept.lose(victim.id, key)
    return True


def _replace_directory(world: ClusterWorld, rng: Rng, victim: ClusterNode, _: PartitionKey) -> bool:
    """Empty one log directory; that of the metadata log only loses the logs of partitions."""
    if victim.id >= world.setting.voters and not rng.below(3):
        world.saw("disk replaced with all directories")
        world.lose_logs(victim)
        victim.lose_disk(0)
        return True
    path = rng.pick(world.directories_of(victim))
    victim.files.broken.discard(path)  # the new disk works
    for key in world.image.partitions:
        folder = _folder_of(world, victim, key)
        if folder is not None and folder.startswith(f"{path}/"):
            world.kept.lose(victim.id, key)
    keeps_id = path == world.metadata_directory or rng.below(2) == 1
    world.saw("disk replaced with its id" if keeps_id else "disk replaced with a new id")
    empty_directory(victim, path, None if keeps_id else world.new_directory_id())
    return True


def empty_directory(victim: ClusterNode, path: str, new_id: bytes | None) -> None:
    """Delete all logs of partitions, and all that is known about them; it may get a new id.

    A new disk has nothing else either: no copies, and no journal of what was on the old one.
    """
    files = victim.files
    for name in files.names(path):
        if new_id is not None and name != NAME:
            _delete(victim, f"{path}/{name}")
            continue
        if name in (HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, COMMITTED_OFFSETS):
            files.unlink(f"{path}/{name}")
        elif parse_folder(name) is not None and not name.startswith(METADATA_TOPIC):
            _delete_tree(victim, f"{path}/{name}")
    if new_id is not None:
        meta = load(files, path).replace(directory_id=new_id)
        files.make_file(f"{path}/{NAME}", encode(meta))
        files.make_file(f"{path}/{BOOT_ID}", files.boot_id().encode())
    files.write_back()


def _cut_tail(world: ClusterWorld, rng: Rng, victim: ClusterNode, key: PartitionKey) -> bool:
    path, batches = _last_segment(world, victim, key)
    if not batches:
        return False
    kept = rng.below(len(batches))
    base, position, _ = batches[kept]
    if not _is_noticed(world, victim, key, base):
        return False
    victim.files.make_file(path, victim.files.bytes_of(path)[:position])
    _lose_from(world, victim, key, base)
    return True


def _damage_batch(world: ClusterWorld, rng: Rng, victim: ClusterNode, key: PartitionKey) -> bool:
    path, batches = _last_segment(world, victim, key)
    if not batches:
        return False
    base, _, end = rng.pick(batches)
    if not _is_noticed(world, victim, key, base):
        return False
    victim.files.corrupt(path, end - len(GARBAGE), GARBAGE)
    _lose_from(world, victim, key, base)
    return True


def _is_noticed(world: ClusterWorld, victim: ClusterNode, key: PartitionKey, offset: int) -> bool:
    """Whether a broker can notice the loss of records that it has flushed before they counted.

    A restart of the machine does not explain that: only a line that they were committed shows it.
    """
    return not world.setting.flushes or offset < _known_committed(world, victim, key)


def _lose_from(world: ClusterWorld, victim: ClusterNode, key: PartitionKey, offset: int) -> None:
    """A log lacks records from an offset on, which its broker can notice at its next start.

    It notices that if its directory has a line that they were committed. Otherwise its machine was
    restarted, so that the end of any log may be lost: as long as a machine runs, only a hand that
    changes both could hide that.
    """
    world.kept.lose(victim.id, key)
    if offset >= _known_committed(world, victim, key):
        victim.files.write_back()
        victim.files.power_loss()
        world.kept.doubt(victim.id)


def _known_committed(world: ClusterWorld, victim: ClusterNode, key: PartitionKey) -> int:
    """Up to which offset a broker's directory says that a log was committed."""
    folder = _folder_of(world, victim, key)
    assert folder is not None, "its log is about to be damaged"
    directory, _, name = folder.rpartition("/")
    path = f"{directory}/{COMMITTED_OFFSETS}"
    if not victim.files.exists(path):
        return 0
    topic, _, index = name.rpartition("-")
    lines = decode_committed(victim.files.bytes_of(path), path)
    topic_id, _, offset = lines.get((topic, int(index)), (b"", 0, 0))
    return offset if topic_id == key[0] else 0


# Files -------------------------------------------------------------------------------------------


def _folder_of(world: ClusterWorld, victim: ClusterNode, key: PartitionKey) -> str | None:
    """The folder of a broker's log of a partition, in any of its directories that can be read."""
    topic = world.image.topics.get(key[0])
    if topic is None:
        return None
    readable = [it for it in world.directories_of(victim) if it not in victim.files.broken]
    paths = [f"{path}/{topic.name}-{key[1]}" for path in readable]
    return next((path for path in paths if victim.files.exists(path)), None)


def _last_segment(
    world: ClusterWorld, victim: ClusterNode, key: PartitionKey
) -> tuple[str, list[tuple[int, int, int]]]:
    """The file of the last segment with batches: their offsets, and where they begin and end."""
    folder = _folder_of(world, victim, key)
    names = [] if folder is None else sorted(victim.files.names(folder), reverse=True)
    for name in names:
        path = f"{folder}/{name}"
        if name.endswith(".log") and victim.files.size_of(path):
            content = victim.files.bytes_of(path)
            try:
                found = [(fields[0], position) for position, fields in walk(content)]
            except CorruptBatchError:
                break  # an earlier fault has damaged it
            ends = [*[position for _, position in found[1:]], len(content)]
            return path, [(*batch, end) for batch, end in zip(found, ends, strict=True)]
    return "", []


def _delete(victim: ClusterNode, path: str) -> None:
    try:
        _delete_tree(victim, path)
    except NotADirectoryError:
        victim.files.unlink(path)


def _delete_tree(victim: ClusterNode, folder: str) -> None:
    for name in victim.files.names(folder):
        victim.files.unlink(f"{folder}/{name}")
    victim.files.remove_folder(folder)
