"""Responses of every version can quote the longest names that requests may have."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode, ProtocolError
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kraftlog.wire.messages.describe_groups import DescribeGroupsRequest
from kraftlog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.node.frame_client import FrameClient, ask_settled, make_host

#: The number of bytes of the longest string with a 16-bit length.
LONGEST = 32_767


@pytest.mark.parametrize("version", [1, 3, 4])
@pytest.mark.parametrize("kind", [2, 4])
def test_describe_configs_of_the_longest_name_responds(version: int, kind: int) -> None:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name="x" * LONGEST, configuration_keys=None
    )
    request = DescribeConfigsRequest(resources=[resource])
    response = ask_settled(make_host(), ApiKey.DESCRIBE_CONFIGS, version, request)
    assert response.results[0].error_code != ErrorCode.NONE
    assert response.results[0].error_message.endswith("x...")


def test_describe_groups_of_the_longest_name_responds() -> None:
    host = make_host(None, __consumer_offsets=1)
    request = DescribeGroupsRequest(groups=["g" * LONGEST])
    response = ask_settled(host, ApiKey.DESCRIBE_GROUPS, 6, request)
    assert response.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.groups[0].error_message.endswith("g...")


@pytest.mark.parametrize("version", [1, 12])
def test_a_name_that_grows_when_decoded_closes_the_connection(version: int) -> None:
    """Each byte that is not UTF-8 becomes three, so that no response could hold the name."""
    host = make_host()
    client = FrameClient(host)
    topic = MetadataRequestTopic(name="x" * LONGEST)
    frame = client.frame(ApiKey.METADATA, version, MetadataRequest(topics=[topic]))
    with pytest.raises(ProtocolError, match="string too long once read"):
        host.send(client.connection, frame.replace(b"x" * LONGEST, b"\xff" * LONGEST))
    assert not [line for line in host.log_lines if "internal error" in line]
