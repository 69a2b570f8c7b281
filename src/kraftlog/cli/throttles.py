"""Throttles of reassignments: the configs that kafka-reassign-partitions sets and clears, too."""

from __future__ import annotations

from collections import defaultdict

from kraftlog.client.configs import BROKER, TOPIC, is_set_dynamically
from kraftlog.types import METADATA_TOPIC
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kraftlog.client.client import Client
    from kraftlog.client.model import PartitionName

    Assignment = Mapping[PartitionName, Sequence[int]]

#: The broker config that limits moves between its log directories, in bytes per second.
LOG_DIR_MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER, FOLLOWER = "leader.replication.throttled", "follower.replication.throttled"
RESOURCE_TYPES = {"brokers": BROKER, "topics": TOPIC}


def throttle(client: Client, current: Assignment, targets: Assignment, rate: int) -> None:
    """Limit replication from the current replicas to those that are added, in bytes per second."""
    brokers: set[int] = set()
    throttled_replicas: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (topic, index), target in sorted(targets.items()):
        sources = current[topic, index]
        added = [broker for broker in target if broker not in sources]
        if added:
            brokers.update(sources, added)
            throttled_replicas[topic][f"{LEADER}.replicas"] += [
                f"{index}:{broker}" for broker in sources
            ]
            throttled_replicas[topic][f"{FOLLOWER}.replicas"] += [
                f"{index}:{broker}" for broker in added
            ]
    for topic, replicas in throttled_replicas.items():
        client.alter_configs(
            "topics", topic, {key: ",".join(entries) for key, entries in replicas.items()}
        )
    for broker in sorted(brokers):
        rates = {f"{LEADER}.rate": rate, f"{FOLLOWER}.rate": rate}
        client.alter_configs("brokers", str(broker), rates)


def clear_throttles(client: Client, topics: Iterable[str]) -> list[str]:
    """Remove the throttles of all brokers and of these topics; return those that had any."""
    brokers = [str(broker.id) for broker in client.describe_cluster().brokers]
    return [
        *_clear(
            client, "brokers", brokers, {f"{LEADER}.rate", f"{FOLLOWER}.rate", LOG_DIR_MOVE_RATE}
        ),
        *_clear(
            client,
            "topics",
            sorted({*topics} - {METADATA_TOPIC}),  # the metadata topic has no configs
            {f"{LEADER}.replicas", f"{FOLLOWER}.replicas"},
        ),
    ]


def _clear(
    client: Client, kind: str, names: Sequence[str], throttles: Collection[str]
) -> list[str]:
    cleared = []
    for name in names:
        keys = [
            setting.name
            for setting in client.describe_configs(kind, name)
            if setting.name in throttles and is_set_dynamically(RESOURCE_TYPES[kind], setting)
        ]
        if keys:
            client.alter_configs(kind, name, dict.fromkeys(keys))
            cleared.append(f"{kind[:-1]} {name}")
    return cleared
