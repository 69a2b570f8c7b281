"""The error of a request that needs a leader, while none is known."""

from __future__ import annotations

import pytest

from kraftlog.client import nodes
from kraftlog.client.cluster import Cluster
from kraftlog.client.model import Broker
from kraftlog.client.no_leader import NoLeaderError, explain_missing_leader
from kraftlog.errors import ClientError, ErrorCode, RefusedError, UnreachableError


def timeout_error(*, was_sent: bool = True) -> UnreachableError:
    error = UnreachableError("host:9092: request timed out")
    error.was_sent = was_sent
    return error


@pytest.mark.parametrize(
    ("was_sent", "responds", "expected"),
    [(True, True, NoLeaderError), (True, False, UnreachableError), (False, True, UnreachableError)],
)
def test_a_timeout_means_no_leader_if_the_broker_is_responsive(
    *,
    was_sent: bool,
    responds: bool,
    expected: type[ClientError],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Connection:
        def call(self, *_: object) -> None:
            if not responds:
                raise timeout_error()

    monkeypatch.setattr(Cluster, "connection", lambda *_: Connection())
    cluster = Cluster("h:9092", client_id="", timeout_s=1)
    error = explain_missing_leader(cluster, timeout_error(was_sent=was_sent))
    assert type(error) is expected


@pytest.mark.parametrize(
    ("servers", "knows"), [("h:1", "It knows the"), ("h:1,h:2", "They know the")]
)
def test_the_error_names_the_controllers_that_the_servers_know(servers: str, knows: str) -> None:
    cluster = Cluster(servers, client_id="", timeout_s=1, is_controllers=True)
    cluster.brokers = {1: Broker(1, "h", 1)}
    refused = RefusedError(ErrorCode.NOT_CONTROLLER, api="DescribeQuorum", broker="b")
    assert f"{knows} controllers 1 at h:1." in str(explain_missing_leader(cluster, refused))


def test_an_error_that_needs_no_explanation_is_raised_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = RefusedError(ErrorCode.UNSUPPORTED_VERSION, api="DescribeQuorum", broker="b")

    def call(*_: object, **__: object) -> None:
        raise refused

    monkeypatch.setattr(Cluster, "call", call)
    with pytest.raises(RefusedError) as raised:
        nodes.quorum(Cluster("h:1", client_id="", timeout_s=1))
    assert raised.value is refused
    assert raised.value.__cause__ is None
