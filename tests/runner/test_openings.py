"""Logs are opened in slices: however many there are, a turn stays short."""

from __future__ import annotations

import pytest

from kraftlog.runner.openings import A_STEP_COSTS, BYTES_A_TURN
from kraftlog.simulator.host import VirtualHost
from kraftlog.wire.apis import ApiKey
from tests.node.talk import Talker, make_host
from tests.node.test_requests import batch, produce

STEPS_A_TURN = BYTES_A_TURN // A_STEP_COSTS
LOGS = 3 * STEPS_A_TURN


@pytest.mark.parametrize("clean", [True, False], ids=["closed", "killed"])
def test_a_turn_opens_so_many_logs_and_leaves_the_rest_to_the_next(clean: bool) -> None:
    first = make_host(demo=1, many=LOGS)
    for index in range(LOGS):
        request = produce(batch(b"x"), topic="many", index=index)
        Talker(first).ask(ApiKey.PRODUCE, 9, request)
    if clean:
        first.runner.close()
    else:
        first.files.kill()
    host = VirtualHost(first.files, settled=False)
    online: list[int] = []
    while not online or online[-1] < LOGS + 1:
        host.deliver()
        host.one_turn()
        online.append(sum(partition.is_open for partition in host.node.partitions.values()))
        assert len(online) < LOGS
    opened = [after - before for before, after in zip([0, *online], online, strict=False)]
    assert max(opened) <= STEPS_A_TURN
