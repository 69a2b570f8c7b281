"""What a producer claims of a batch without opening it, and what a lie could cost others."""

from __future__ import annotations

import pytest

from kraftlog.errors import ErrorCode
from kraftlog.simulator.host import VirtualHost
from tests.node.talk import make_host
from tests.node.test_hot_produce import RECORD, claiming
from tests.node.test_producers import Writer
from tests.node.test_requests import batch

MOST = 2**31 - 1


@pytest.mark.parametrize("codec", range(5))
def test_counts_that_lie_are_refused_and_cost_others_nothing(codec: int) -> None:
    """Two of them made the next roll end the node, and its recovery cut acknowledged records."""
    host = make_host()
    writer = Writer(host)
    for _ in range(2):  # the first time the ordinary way, the second time the quick one
        assert writer.write(batch(b"acknowledged"))[0] == ErrorCode.NONE
        liar = claiming(codec, RECORD, MOST)
        assert writer.write(liar) == (ErrorCode.INVALID_RECORD, -1)
    log = host.runner.directory.logs["demo", 0]
    log.roll(host.now.wall_ms)
    assert writer.write(batch(b"acknowledged"))[0] == ErrorCode.NONE
    host.files.kill()
    again = VirtualHost(host.files)
    assert again.node.by_log["demo", 0].end == 3
    assert again.said == []
