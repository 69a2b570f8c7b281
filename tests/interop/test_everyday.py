"""Every client does everyday work against a node with the same results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop.cache import UnavailableError
from tests.interop.everyday import work
from tests.interop.everyday.clients import CLIENTS, JAVA, Client
from tests.interop.everyday.work import batches, outcomes_in
from tests.server.node_process import NodeProcess
from tests.time_limit import LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.driver import Driver


@pytest.fixture
def data(tmp_path: Path) -> str:
    return str(tmp_path / "data")


@pytest.fixture
def address(tmp_path: Path, data: str) -> Iterator[str]:
    """The address of a node without topics, which must stop without output."""
    node = NodeProcess(data, errors=str(tmp_path / "errors.txt"), topics={})
    try:
        yield node.address
        assert node.stop() == 0
        assert node.logged_errors() == []
    finally:
        node.kill_if_running()


@pytest.mark.interop
@pytest.mark.parametrize("client", [pytest.param(c, id=c.name.split()[0]) for c in CLIENTS])
def test_clients_report_the_same_facts_of_everyday_work(
    client: Client, address: str, data: str
) -> None:
    try:
        facts = client.work(address)
    except UnavailableError as error:
        pytest.skip(f"{client.name}: {error}")
    assert facts == client.expected()
    check_stored_batches(data)


def test_kafkas_clients_report_the_same_facts_of_everyday_work(
    jvm: Driver, address: str, data: str
) -> None:
    shown = jvm.tool("EverydayWork", address, str(LIMIT_S), seconds=2 * LIMIT_S).ok().stdout
    facts = outcomes_in(shown)
    assert facts == JAVA.expected()
    check_stored_batches(data)


def check_stored_batches(data: str) -> None:
    """Batches on disk have the codecs and producer ids that the client was configured to send."""
    stored = {name: {b.codec for b in batches(data, f"codec-{name}-0")} for name in work.CODECS}
    assert stored == {name: {code} for code, name in enumerate(work.CODECS)}
    assert all(batch.producer_id >= 0 for batch in batches(data, "numbered-0"))
