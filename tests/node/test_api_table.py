"""The node serves exactly the versions that it advertises, except Produce 0 to 2."""

from __future__ import annotations

import pytest

from kraftlog.errors import ProtocolError
from kraftlog.node.api_table import SERVED, ServedApi
from kraftlog.wire.apis import APIS, BROKER, CONTROLLER, FIRST_OWN, ApiKey
from tests.node.frame_client import FrameClient, make_host

#: Advertised but not served: without them librdkafka sends uncompressed batches.
UNSERVED_PRODUCE = (0, 1, 2)


def test_advertised_versions_have_a_schema() -> None:
    for served in SERVED.values():
        api = APIS[served.key]
        first = served.first + len(UNSERVED_PRODUCE) * (served.key == ApiKey.PRODUCE)
        assert (api.first, api.last) == (first, max(api.last, served.last)), api.name


def test_each_of_our_apis_is_served() -> None:
    assert {key for key in APIS if key >= FIRST_OWN} <= set(SERVED)


#: An ApiVersions request of any version gets a response, as in Kafka.
EVERY_API_BUT_API_VERSIONS = pytest.mark.parametrize(
    "served",
    [served for served in SERVED.values() if served.key != ApiKey.API_VERSIONS],
    ids=lambda served: APIS[served.key].name,
)


@EVERY_API_BUT_API_VERSIONS
def test_versions_that_are_not_advertised_are_refused(served: ServedApi) -> None:
    api = APIS[served.key]
    listener = BROKER if api.listeners & BROKER else CONTROLLER
    for version in (served.first - 1, served.last + 1):
        client = FrameClient(make_host(), listener)
        frame = (
            b"\0\0\0\0" + served.key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
        )
        with pytest.raises(ProtocolError, match=f"{api.name} version {version} is not served"):
            client.host.send(client.connection, frame + bytes(64))
