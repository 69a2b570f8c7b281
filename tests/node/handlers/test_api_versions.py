"""ApiVersions 5: requests that are invalid, or meant for another node (KIP-1242).

The responses are those of a broker and a controller of Apache Kafka 4.4.0.
"""

from __future__ import annotations

from typing import Any

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.version import VERSION
from kraftlog.wire.apis import BROKER, CONTROLLER, OWN_CLIENT, ApiKey
from kraftlog.wire.codec import encode
from kraftlog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.node.frame_client import FrameClient
from tests.virtual_host import CLUSTER_ID, VirtualHost

#: Named cluster and node -> the error of a broker; a controller has the second.
NAMED = {
    (None, -1): (ErrorCode.NONE, ErrorCode.NONE),
    (CLUSTER_ID, 1): (ErrorCode.NONE, ErrorCode.NONE),
    ("another", 1): (ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.NONE),
    ("", 1): (ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.NONE),
    (CLUSTER_ID, 99): (ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.NONE),
    (CLUSTER_ID, -2): (ErrorCode.REBOOTSTRAP_REQUIRED, ErrorCode.NONE),
    (CLUSTER_ID, -1): (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
    (None, 1): (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST),
}


def ask(listener: int, version: int = 5, name: str = "a", **fields: Any) -> ApiVersionsResponse:
    values = {"client_software_version": "1", **fields}
    request = ApiVersionsRequest(client_software_name=name, **values)
    response = FrameClient(VirtualHost(), listener).ask(ApiKey.API_VERSIONS, version, request)
    assert isinstance(response, ApiVersionsResponse)
    return response


@pytest.mark.parametrize(("cluster_id", "node_id"), NAMED)
def test_a_broker_refuses_clients_of_another_node(cluster_id: str | None, node_id: int) -> None:
    codes = []
    for listener in (BROKER, CONTROLLER):
        response = ask(listener, cluster_id=cluster_id, node_id=node_id)
        codes.append(response.error_code)
        assert bool(response.api_keys) is (response.error_code == ErrorCode.NONE)
    assert tuple(codes) == NAMED[cluster_id, node_id]


def test_a_refusal_has_the_bytes_of_kafka() -> None:
    response = ask(BROKER, cluster_id="another", node_id=1)
    assert encode(response, 5).hex() == "0081010000000000"


@pytest.mark.parametrize("software", ["", "a.", "-1", "a b", "ä"])
def test_invalid_names_of_software_are_refused(software: str) -> None:
    for version in (3, 4, 5):
        named = ask(BROKER, version, software, client_software_version="1")
        versioned = ask(CONTROLLER, version, client_software_version=software)
        assert named.error_code == versioned.error_code == ErrorCode.INVALID_REQUEST


def test_our_own_clients_are_accepted() -> None:
    response = ask(BROKER, name=OWN_CLIENT, client_software_version=VERSION)
    assert response.error_code == ErrorCode.NONE


def test_a_node_without_a_cluster_id_compares_the_node_alone() -> None:
    """It has started with --bootstrap, and no leader has made the cluster id yet."""
    host = VirtualHost()
    host.node.quorum.core.cluster_id = None
    codes = []
    for node_id in (1, 2):
        request = ApiVersionsRequest(
            client_software_name="a",
            client_software_version="1",
            cluster_id="any",
            node_id=node_id,
        )
        codes.append(FrameClient(host).ask(ApiKey.API_VERSIONS, 5, request).error_code)
    assert codes == [ErrorCode.NONE, ErrorCode.REBOOTSTRAP_REQUIRED]
