"""`meta.properties`: the node and cluster of a directory (Q5), in Kafka's format."""

from __future__ import annotations

from kraftlog.config import properties
from kraftlog.errors import ConfigError, StorageError
from kraftlog.storage.disk import read_whole, write_atomically
from kraftlog.types import uuid_from_text, uuid_text
from kraftlog.value import TYPE_CHECKING, Value

if TYPE_CHECKING:
    from kraftlog.ports.files import Files
    from kraftlog.types import Uuid

NAME = "meta.properties"
VERSION = "1"


class MetaProperties(Value):
    #: None until the first leader of a new cluster has generated it and this node knows it (Q29).
    cluster_id: str | None
    node_id: int
    directory_id: Uuid


def load_for_node(files: Files, directory: str, node_id: int) -> MetaProperties:
    """Load the properties of a directory, which must belong to this node.

    Another node's directory is refused: two nodes with one id would lose each other's data.
    """
    meta = load(files, directory)
    if meta.node_id != node_id:
        raise StorageError(
            f"{directory}/{NAME} says node.id={meta.node_id}, but this node is {node_id}: start "
            f"it with node id {meta.node_id}, or give it a directory of its own"
        )
    return meta


def load(files: Files, directory: str) -> MetaProperties:
    """Load the properties of a formatted directory."""
    path = f"{directory}/{NAME}"
    return parse(read_whole(files, path), path)


def store_cluster_id(files: Files, directory: str, cluster_id: str) -> None:
    """Store the cluster id durably in a directory that has none yet."""
    meta = load(files, directory).replace(cluster_id=cluster_id)
    write_atomically(files, f"{directory}/{NAME}", encode(meta))


def encode(meta: MetaProperties) -> bytes:
    return (
        f"version={VERSION}\n"
        f"cluster.id={meta.cluster_id or ''}\n"
        f"node.id={meta.node_id}\n"
        f"directory.id={uuid_text(meta.directory_id)}\n"
    ).encode()


def parse(raw: bytes, path: str) -> MetaProperties:
    """Decode the file, or raise: a file that cannot be read is never overwritten."""
    try:
        pairs = properties.parse(raw.decode())
        if pairs["version"] != VERSION:
            raise StorageError(f"{path}: version {pairs['version']}, only {VERSION} is known")
        return MetaProperties(
            cluster_id=pairs["cluster.id"] or None,
            node_id=int(pairs["node.id"]),
            directory_id=uuid_from_text(pairs["directory.id"]),
        )
    except KeyError as missing:
        raise StorageError(f"{path} has no line for {missing.args[0]}") from None
    except (ValueError, UnicodeDecodeError, ConfigError) as error:
        raise StorageError(f"{path} can't be read: {error}") from None
