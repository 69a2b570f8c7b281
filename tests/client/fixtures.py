"""Fixtures that run the client tests against kraftlog and against Apache Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kraftlog import Client
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KAFKA = pytest.param("kafka", marks=[pytest.mark.interop, pytest.mark.xdist_group("jvm")])


@pytest.fixture(scope="session")
def our_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a node started by `kraftlog start`."""
    folder = tmp_path_factory.mktemp("node")
    started = NodeProcess(str(folder / "data"), errors=str(folder / "errors.txt"), topics={})
    try:
        yield started.address
        assert started.stop() == 0
    finally:
        started.kill_if_running()


@pytest.fixture(params=["our_node", KAFKA])
def address(request: pytest.FixtureRequest) -> str:
    cluster_address: str = request.getfixturevalue(request.param)
    return cluster_address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address, timeout_s=LIMIT_S) as connected:
        yield connected


@pytest.fixture
def named(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """A function that appends the test's name to a prefix, as tests share a cluster."""
    test_name = f"{request.module.__name__.rpartition('.')[2]}-{request.node.name}"
    test = "".join(letter if letter.isalnum() else "-" for letter in test_name)
    return lambda prefix: f"{prefix}-{test}"
