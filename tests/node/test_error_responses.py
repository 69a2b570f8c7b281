"""Error responses fit the version of their request."""

from __future__ import annotations

from random import Random

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.node.api_table import SERVED
from kraftlog.node.error_responses import error_response
from kraftlog.wire.apis import APIS
from kraftlog.wire.codec import encode
from tests.wire.samples import Sampler

#: Those of the active controller, and those that serve linearizable reads.
HANDLERS = {
    "describe_cluster",
    "describe_configs",
    "describe_quorum",
    "describe_topic_partitions",
    "forwarding",
    "list_config_resources",
    "metadata",
    "reassignments",
    "voters",
}
CASES = [
    (served.key, version)
    for served in SERVED.values()
    if served.handler.removeprefix("handlers.") in HANDLERS
    for version in range(APIS[served.key].first, APIS[served.key].last + 1)
]


@pytest.mark.parametrize(
    ("key", "version"), CASES, ids=[f"{APIS[key].name}-{version}" for key, version in CASES]
)
def test_a_not_controller_response_can_be_encoded(key: int, version: int) -> None:
    request = Sampler(Random(key)).message(APIS[key].request(), version)
    response = error_response(key, version, request, ErrorCode.NOT_CONTROLLER)
    assert encode(response, version)


def test_every_handler_here_serves_an_api() -> None:
    handlers = {served.handler.removeprefix("handlers.") for served in SERVED.values()}
    assert handlers >= HANDLERS
