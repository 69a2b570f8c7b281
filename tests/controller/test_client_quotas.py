"""AlterClientQuotas, as Kafka's ClientQuotaControlManager decides."""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.controller.decision import RECORDS_IN_BATCH
from kraftlog.errors import ErrorCode
from kraftlog.metadata.image import Image
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from tests.controller.cluster import Cluster

RATE = "producer_byte_rate"
USER, CLIENT = ("user", "alice"), ("client-id", "c")
INVALID = ErrorCode.INVALID_REQUEST


def alter(
    cluster: Cluster,
    entity: list[tuple[str, str | None]],
    *ops: tuple[str, float | None],
    validate_only: bool = False,
) -> Any:
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    (result,) = cluster.ask(ApiKey.ALTER_CLIENT_QUOTAS, request).response.entries
    assert [(it.entity_type, it.entity_name) for it in result.entity] == entity
    return result


def test_quotas_are_stored_changed_and_removed() -> None:
    cluster = Cluster()
    assert alter(cluster, [USER, CLIENT], (RATE, 10.0)).error_code == 0
    entity = (CLIENT, USER)
    assert cluster.committed.quotas == {entity: {RATE: 10.0}}
    assert Image.of(list(cluster.committed.records())).quotas == cluster.committed.quotas
    end = len(cluster.log)
    assert alter(cluster, [USER, CLIENT], (RATE, 10.0)).error_code == 0  # nothing to write
    assert alter(cluster, [USER, CLIENT], (RATE, 11.0), validate_only=True).error_code == 0
    assert len(cluster.log) == end
    assert alter(cluster, [("user", None)], (RATE, 5.0)).error_code == 0
    assert alter(cluster, [USER, CLIENT], (RATE, None), ("consumer_byte_rate", 7.0)).error_code == 0
    assert cluster.committed.quotas == {
        entity: {"consumer_byte_rate": 7.0},
        (("user", None),): {RATE: 5.0},
    }
    assert alter(cluster, [USER, CLIENT], ("anything", None)).error_code == 0


@pytest.mark.parametrize(
    ("entity", "key", "value", "code"),
    [
        ([], RATE, 1.0, INVALID),
        ([("user", "")], RATE, 1.0, INVALID),
        ([("group", "g")], RATE, 1.0, INVALID),
        ([USER, USER], RATE, 1.0, INVALID),
        ([USER, ("ip", "1.2.3.4")], RATE, 1.0, INVALID),
        ([("ip", "1.2.3.4")], RATE, 1.0, INVALID),
        ([USER], "connection_creation_rate", 1.0, INVALID),
        ([USER], "unknown", 1.0, INVALID),
        ([USER], RATE, 0.0, INVALID),
        ([USER], RATE, -1.0, INVALID),
        ([USER], RATE, float("nan"), INVALID),
        ([USER], RATE, 1.5, INVALID),
        ([USER], RATE, 1e30, INVALID),
        ([USER], RATE, 1.0, ErrorCode.NONE),
        ([USER], "request_percentage", 12.5, ErrorCode.NONE),
        ([USER], "request_percentage", 0.0, INVALID),
        ([USER], "controller_mutation_rate", 0.5, ErrorCode.NONE),
        ([USER], "controller_mutation_rate", 0.0, INVALID),
        ([("ip", None)], "controller_mutation_rate", 1.0, INVALID),
        ([("ip", None)], "connection_creation_rate", 1.0, ErrorCode.NONE),
        ([("ip", "1.2.3.4")], "connection_creation_rate", 2147483647.0, ErrorCode.NONE),
        ([("ip", "0:0:0:0:0:0:0:1")], "connection_creation_rate", 1.0, ErrorCode.NONE),
        ([("ip", "::1")], "connection_creation_rate", 1.0, ErrorCode.NONE),
        ([("ip", "1.2.3.4")], "connection_creation_rate", 2147483648.0, INVALID),
        ([("ip", "1.2.3.4")], "connection_creation_rate", 1.5, INVALID),
        ([("ip", "1.2.3.4")], "connection_creation_rate", 0.0, INVALID),
        ([("ip", "1.2.3.256")], "connection_creation_rate", 1.0, INVALID),
        ([("ip", "localhost")], "connection_creation_rate", 1.0, INVALID),
        ([("ip", "")], "connection_creation_rate", 1.0, INVALID),
    ],
)
def test_changes_are_refused_with_kafkas_codes(
    entity: list[tuple[str, str | None]], key: str, value: float, code: int
) -> None:
    """An entity of which one change is refused keeps all that it has."""
    cluster = Cluster()
    end = len(cluster.log)
    assert alter(cluster, entity, ("consumer_byte_rate", None), (key, value)).error_code == code
    assert (len(cluster.log) > end) is (code == ErrorCode.NONE)


def test_nothing_may_stand_twice_in_a_request() -> None:
    """Nor may it have more records than a batch: what fits is written."""
    cluster = Cluster()
    assert alter(cluster, [USER], (RATE, 1.0), (RATE, 2.0)).error_code == INVALID
    assert cluster.committed.quotas == {}

    def entry(name: str) -> EntryData:
        return EntryData(
            entity=[EntityData(entity_type="user", entity_name=name)],
            ops=[OpData(key=RATE, value=1.0, remove=False)],
        )

    names = ["a", "a", *map(str, range(RECORDS_IN_BATCH))]
    request = AlterClientQuotasRequest(entries=[entry(name) for name in names], validate_only=False)
    codes = [
        it.error_code for it in cluster.ask(ApiKey.ALTER_CLIENT_QUOTAS, request).response.entries
    ]
    assert codes[:3] == [0, INVALID, 0]
    assert (codes.count(0), codes[-1] != 0) == (RECORDS_IN_BATCH, True)
