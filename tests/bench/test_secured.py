"""The nodes of the comparison with TLS, logins, ACLs and quotas: with kraftlog alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench.beside import secured
from bench.beside.frame_client import create_topic
from bench.beside.logins import log_in
from bench.beside.peers import running
from bench.beside.rows import KRAFTLOG
from bench.beside.secured_nodes import AUTHORIZER, SecuredNode, add_user, write_certificates

from kraftlog import Client
from kraftlog.errors import ErrorCode, RefusedError
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_certificates(str(tmp_path_factory.mktemp("secured")))


@pytest.fixture
def node(tmp_path: Path, certificates: str) -> Iterator[SecuredNode]:
    node = SecuredNode(KRAFTLOG, str(tmp_path / "node"), certificates, AUTHORIZER)
    with running(node):
        yield node


def test_clients_log_in_over_tls(node: SecuredNode, certificates: str) -> None:
    add_user(node)
    assert log_in(node.login_port, certificates, 2) > 0
    assert secured.log_in(node, certificates, 1) > 0
    assert secured.long_turns(node) >= 0


def test_with_the_acls_the_client_may_send_to_its_topic_alone(node: SecuredNode) -> None:
    for topic in (secured.ACL_TOPIC, "topic-1"):
        create_topic(node.port, topic)
    secured.add_acls(node)
    with Client(node.address, timeout_s=LIMIT_S) as client:
        client.produce(secured.ACL_TOPIC, b"allowed")
        with pytest.raises(RefusedError) as refused:
            client.produce("topic-1", b"denied")
    assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
