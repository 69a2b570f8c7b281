"""P7: linearizable reads go only to nodes of kraftlog, as Kafka ignores the field for them."""

from __future__ import annotations

import pytest

from kraftlog.client.versions import check_consistency
from kraftlog.errors import UnsupportedApiError
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.list_config_resources import ListConfigResourcesRequest

KAFKAS_APIS = {ApiKey.METADATA: (0, 13), ApiKey.UPDATE_RAFT_VOTER: (0, 0)}
#: An API that only kraftlog has, by which the client recognizes its nodes.
KRAFTLOGS_APIS = KAFKAS_APIS | {ApiKey.REMOVE_PARTITIONS: (0, 0)}


def test_p7_a_broker_of_kafka_gets_no_linearizable_read() -> None:
    with pytest.raises(UnsupportedApiError, match=r"k:9092 .* stale"):
        check_consistency(ListConfigResourcesRequest(linearizable=True), KAFKAS_APIS, "k:9092")


def test_p7_a_broker_of_kafka_gets_stale_reads() -> None:
    check_consistency(ListConfigResourcesRequest(), KAFKAS_APIS, "k:9092")


def test_p7_a_node_of_kraftlog_gets_linearizable_reads() -> None:
    check_consistency(ListConfigResourcesRequest(linearizable=True), KRAFTLOGS_APIS, "k:9092")
