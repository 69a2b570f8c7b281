"""The metadata image and the voters as tables of plain values, and how two states differ."""

from __future__ import annotations

from kraftlog.authorization.acls import OPERATIONS, PATTERN_TYPES, PERMISSIONS, RESOURCE_TYPES
from kraftlog.config.keys import BROKER, TABLES, find_broker_key
from kraftlog.metadata.values import RECOVERING, DirectoryId
from kraftlog.types import uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from kraftlog.logstate.voters import VoterSet
    from kraftlog.metadata.history import MetadataState
    from kraftlog.metadata.values import BrokerImage, PartitionImage, TopicImage
    from kraftlog.types import Uuid
    from kraftlog.wire.messages.metadata_records import (
        AccessControlEntryRecord,
        DelegationTokenRecord,
        UserScramCredentialRecord,
    )

    Row = dict[str, Any]

#: Names of resource types in `kafka-configs`.
_RESOURCES = {
    2: "topic",
    4: "broker",
    8: "broker-logger",
    16: "client-metrics",
    32: "group",
}
_SCRAM = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_DIRECTORIES = {
    DirectoryId.MIGRATING: "migrating",
    DirectoryId.UNASSIGNED: "unassigned",
    DirectoryId.LOST: "lost",
}


class Table(Value):
    """The columns of a table, how many of them (the first ones) are its key, and its rows."""

    columns: tuple[str, ...]
    keys: int
    rows: Callable[[MetadataState], Iterator[Row]]


class Difference(Value):
    """A row that was added, removed or changed; `fields` are (column, before, after)."""

    table: str
    key: tuple[Any, ...]
    #: added, removed or changed
    what: str
    fields: tuple[tuple[str, Any, Any], ...]


def _topics(state: MetadataState) -> Iterator[Row]:
    image = state.image
    for _, topic_id in sorted(image.topic_ids.items()):
        topic = image.topics[topic_id]
        replicas = {len(each.replicas) for each in image.partitions_of(topic)}
        yield topic_row(topic, max(replicas, default=0))


def topic_row(topic: TopicImage, replication: int) -> Row:
    return {
        "topic": topic.name,
        "id": uuid_text(topic.id),
        "partitions": topic.partition_count,
        "replication": replication,
    }


def _partitions(state: MetadataState) -> Iterator[Row]:
    image = state.image
    for name, topic_id in sorted(image.topic_ids.items()):
        for partition in image.partitions_of(image.topics[topic_id]):
            yield partition_row(name, partition)


def partition_row(topic: str, partition: PartitionImage) -> Row:
    return {
        "topic": topic,
        "partition": partition.index,
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "elr": list(partition.elr),
        "last_known_elr": list(partition.last_known_elr),
        "adding": list(partition.adding),
        "removing": list(partition.removing),
        "recovery": "recovering" if partition.recovery == RECOVERING else "recovered",
        "directories": [_directory(directory) for directory in partition.directories],
    }


def _directory(directory: bytes) -> str:
    return _DIRECTORIES.get(directory) or uuid_text(directory)


def _brokers(state: MetadataState) -> Iterator[Row]:
    for number, broker in sorted(state.image.brokers.items()):
        yield from broker_rows(number, broker)


def broker_rows(number: int, broker: BrokerImage) -> Iterator[Row]:
    yield {
        "broker": number,
        "state": _broker_state(broker),
        "epoch": broker.epoch,
        "rack": broker.rack,
        "endpoints": [f"{each.name}://{each.host}:{each.port}" for each in broker.endpoints],
        "directories": [_directory(directory) for directory in broker.directories],
        "incarnation": uuid_text(broker.incarnation_id),
    }


def _broker_state(broker: BrokerImage) -> str:
    if broker.in_controlled_shutdown:
        return "shutting down"
    return "fenced" if broker.fenced else "active"


def _configs(state: MetadataState) -> Iterator[Row]:
    for resource, values in sorted(state.image.configs.items()):
        yield from config_rows(resource, values)


def config_rows(resource: tuple[int, str], values: Mapping[str, str]) -> Iterator[Row]:
    kind, name = resource
    for key, value in sorted(values.items()):
        yield {
            "type": _RESOURCES.get(kind, str(kind)),
            "name": name or "<default>",
            "key": key,
            "value": "(hidden)" if _is_secret(kind, key) else value,
        }


def _is_secret(kind: int, name: str) -> bool:
    """Whether a value is a password, or may be one: its key or resource type is unknown."""
    if kind == BROKER:
        key = find_broker_key(name)
        return key is None or key.sensitive
    return kind not in TABLES


def _features(state: MetadataState) -> Iterator[Row]:
    for name, level in sorted(state.image.features.items()):
        yield from feature_rows(name, level)


def feature_rows(name: str, level: int) -> Iterator[Row]:
    yield {"feature": name, "level": level}


def _voters(state: MetadataState) -> Iterator[Row]:
    voters: VoterSet | None = state.voters
    for voter in () if voters is None else voters.voters:
        yield {
            "voter": voter.key.id,
            "directory": uuid_text(voter.key.directory_id),
            "endpoints": [f"{each.name}://{each.host}:{each.port}" for each in voter.endpoints],
        }


def _acls(state: MetadataState) -> Iterator[Row]:
    rows = [row for item in state.image.acls.items() for row in acl_rows(*item)]
    return iter(sorted(rows, key=lambda row: tuple(row.values())))


def acl_rows(_: Uuid, acl: AccessControlEntryRecord) -> Iterator[Row]:
    yield {
        "resource": RESOURCE_TYPES.get(acl.resource_type, str(acl.resource_type)),
        "name": acl.resource_name,
        "pattern": PATTERN_TYPES.get(acl.pattern_type, str(acl.pattern_type)),
        "principal": acl.principal,
        "host": acl.host,
        "operation": OPERATIONS.get(acl.operation, str(acl.operation)),
        "permission": PERMISSIONS.get(acl.permission_type, str(acl.permission_type)),
    }


def _quotas(state: MetadataState) -> Iterator[Row]:
    rows = [row for item in state.image.quotas.items() for row in quota_rows(*item)]
    return iter(sorted(rows, key=lambda row: (row["entity"], row["key"])))


def quota_rows(
    entity: Iterable[tuple[str, str | None]], values: Mapping[str, float]
) -> Iterator[Row]:
    for key, value in values.items():
        yield {
            "entity": ", ".join(f"{kind} {name or '<default>'}" for kind, name in entity),
            "key": key,
            "value": str(value),
        }


def _scram(state: MetadataState) -> Iterator[Row]:
    rows = [row for item in state.image.scram.items() for row in scram_rows(*item)]
    return iter(sorted(rows, key=lambda row: (row["user"], row["mechanism"])))


def scram_rows(key: tuple[int, str], record: UserScramCredentialRecord) -> Iterator[Row]:
    """A user's credential; salt and keys stay secret."""
    mechanism, name = key
    yield {
        "user": name,
        "mechanism": _SCRAM.get(mechanism, str(mechanism)),
        "iterations": record.iterations,
    }


def _tokens(state: MetadataState) -> Iterator[Row]:
    rows = [row for item in state.image.tokens.items() for row in token_rows(*item)]
    return iter(sorted(rows, key=lambda row: row["token"]))


def token_rows(_: str, token: DelegationTokenRecord) -> Iterator[Row]:
    """A delegation token; the log does not have its HMAC."""
    yield {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": ", ".join(token.renewers),
        "issued_ms": token.issue_timestamp,
        "expires_ms": token.expiration_timestamp,
        "max_ms": token.max_timestamp,
    }


TABLES_OF_IMAGE = {
    "topics": Table(("topic", "id", "partitions", "replication"), 1, _topics),
    "partitions": Table(
        (
            *("topic", "partition", "leader", "leader_epoch", "partition_epoch", "replicas"),
            *("isr", "elr", "last_known_elr", "adding", "removing", "recovery", "directories"),
        ),
        2,
        _partitions,
    ),
    "brokers": Table(
        ("broker", "state", "epoch", "rack", "endpoints", "directories", "incarnation"),
        1,
        _brokers,
    ),
    "configs": Table(("type", "name", "key", "value"), 3, _configs),
    "features": Table(("feature", "level"), 1, _features),
    "voters": Table(("voter", "directory", "endpoints"), 1, _voters),
    "acls": Table(
        ("resource", "name", "pattern", "principal", "host", "operation", "permission"), 7, _acls
    ),
    "quotas": Table(("entity", "key", "value"), 2, _quotas),
    "scram": Table(("user", "mechanism", "iterations"), 2, _scram),
    "tokens": Table(
        ("token", "owner", "requester", "renewers", "issued_ms", "expires_ms", "max_ms"), 1, _tokens
    ),
}
#: Tables that are listed only if they have rows; on many clusters they have none.
OPTIONAL = frozenset({"acls", "quotas", "scram", "tokens"})


def rows_of(state: MetadataState, table: str) -> list[Row]:
    return list(TABLES_OF_IMAGE[table].rows(state))


def differences(
    before: MetadataState, after: MetadataState, tables: Sequence[str]
) -> Iterator[Difference]:
    """The rows that were added, removed or changed, table by table in the order of their keys."""
    for name in tables:
        table = TABLES_OF_IMAGE[name]
        old, new = by_key(name, table.rows(before)), by_key(name, table.rows(after))
        for key in sorted(old.keys() | new.keys()):
            what, old_row, new_row = _compared(old.get(key), new.get(key))
            fields = tuple(
                (column, old_row.get(column), new_row.get(column))
                for column in table.columns[table.keys :]
                if old_row.get(column) != new_row.get(column)
            )
            if fields or what != "changed":
                yield Difference(name, key, what, fields)


def by_key(table: str, rows: Iterable[Row]) -> dict[tuple[Any, ...], Row]:
    columns = TABLES_OF_IMAGE[table].columns[: TABLES_OF_IMAGE[table].keys]
    return {tuple(row[column] for column in columns): row for row in rows}


def _compared(old: Row | None, new: Row | None) -> tuple[str, Row, Row]:
    """What has happened to a row, and the row before and after, empty if there is none."""
    if old is None:
        return "added", {}, new or {}
    return ("removed", old, {}) if new is None else ("changed", old, new)
