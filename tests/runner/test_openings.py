"""Logs are opened in slices: however many there are, a turn stays short."""

from __future__ import annotations

import pytest

from kraftlog.metadata.preconfigured import preconfigured_records
from kraftlog.runner.runner import OPENING_BYTES_A_STEP, OPENING_BYTES_A_TURN
from kraftlog.wire.apis import ApiKey
from tests.node.talk import CLUSTER_ID, Talker, make_host
from tests.node.test_requests import batch, produce

STEPS_A_TURN = OPENING_BYTES_A_TURN // OPENING_BYTES_A_STEP
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
    host = make_host(first.files, demo=1)
    host.node.replay(
        preconfigured_records(
            cluster_id=CLUSTER_ID, node_id=1, host="h", port=9092, topics={"many": LOGS}
        )
    )
    online: list[int] = []
    while not online or host.runner.has_work:
        host.turn()
        online.append(sum(partition.online for partition in host.node.partitions.values()) - 1)
    assert online[-1] == LOGS
    opened = [after - before for before, after in zip([0, *online], online, strict=False)]
    assert max(opened) <= STEPS_A_TURN
