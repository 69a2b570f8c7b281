"""Where an archive keeps a topic, and the columns that describe a record.

DIR/<topic>                       the topic's table, of Delta or Iceberg
DIR/_dead_letters                 a table for all topics: records that could not be decoded
DIR/_kraftlog/<topic>/checkpoint  the checkpoint of the topic's streaming query
DIR/_kraftlog/<topic>/last_batch  what the newest batch has committed, or was about to
DIR/_kraftlog/<topic>/lock        held by the process that archives the topic
"""

from __future__ import annotations

import os
import re

import pyarrow as pa

from kraftlog.errors import ConfigError
from kraftlog.spark.schema import HEADERS, OUT_OF_RANGE, arrow_schema

#: Where and when a record was written: columns of each table, with the names of Spark's connector.
POSITION = ("partition", "offset", "timestamp", "timestampType")
#: The columns of a table whose values are not decoded.
RAW = pa.schema([f for f in arrow_schema(with_headers=True, for_table=True) if f.name != "topic"])
#: Names that the columns of decoded values cannot have.
RESERVED = frozenset(RAW.names) - {"value"} | {"date"}
#: The columns of the table of records that could not be decoded.
DEAD_LETTER = pa.schema(
    [
        ("topic", pa.string()),
        *[pa.field(name, RAW.field(name).type) for name in POSITION],
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("reason", pa.string()),
        (OUT_OF_RANGE, pa.int64()),  # tables of older versions do not have it
    ]
)
#: The additional column of a table that is partitioned by date, and what stands for null in the
#: name of a directory, as in Hive.
DATE, NO_DATE = "date", "__HIVE_DEFAULT_PARTITION__"
#: How a table's description ends.
ARCHIVED_BY = "archived by kraftlog"
#: The topic names that Kafka accepts.
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
DEAD_LETTERS, _PRIVATE = "_dead_letters", "_kraftlog"
#: Directories of the archive itself, whose names topics may have that are not archived.
PRIVATE = frozenset({DEAD_LETTERS, _PRIVATE})


def check_topic(name: str) -> None:
    """Raise ConfigError unless a topic and its table in the archive can have this name."""
    if name in PRIVATE:
        raise ConfigError(f"topic {name} can't be archived: the archive uses this name itself")
    if not _TOPIC_NAME.fullmatch(name) or name in {".", ".."}:
        raise ConfigError(
            f"'{name}' can't be the name of a topic: name each topic, as in: archive orders "
            "payments --to lake, or give a regular expression with --topics-pattern. "
            "kraftlog topics --list prints the topics"
        )


def table_path(directory: str, topic: str) -> str:
    return os.path.join(directory, topic)


def dead_letters_path(directory: str) -> str:
    return os.path.join(directory, DEAD_LETTERS)


def checkpoint_path(directory: str, topic: str) -> str:
    return os.path.join(directory, _PRIVATE, topic, "checkpoint")


def last_batch_path(directory: str, topic: str) -> str:
    return os.path.join(directory, _PRIVATE, topic, "last_batch")


def lock_path(directory: str, topic: str) -> str:
    return os.path.join(directory, _PRIVATE, topic, "lock")
