"""Clients with linearizable reads of configs at any node (P6, P7).

A read must return, for each config, the newest change that was acknowledged before the read began,
or a later one.
"""

from __future__ import annotations

from kraftlog.config.keys import CLIENT_METRICS
from kraftlog.config.layers import DYNAMIC_CLIENT_METRICS_CONFIG
from kraftlog.errors import ErrorCode
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kraftlog_simulator.nodes.clients import (
    INTERVAL_KEY,
    MIN_INTERVAL_MS,
    SUBSCRIPTION_COUNT,
    NodeWorkload,
)
from kraftlog_simulator.nodes.node_process import NodeProcess
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog_simulator.nodes.world import NodeWorld
    from kraftlog_simulator.process import Replica

#: The time between reads: minimum and maximum.
GAP_MS = (5, 60)
DESCRIBE_VERSION = 4


class NodeReaders:
    """All clients that read configs at any node, until the workload's reads stop."""

    def __init__(self, world: NodeWorld) -> None:
        assert isinstance(world.workload, NodeWorkload)
        self.world = world
        self.workload = world.workload
        #: How many reads got a response without an error.
        self.reads_done = 0
        self._rng = world.rng("readers")
        world.schedule(world.time, self._read)

    def _read(self) -> None:
        world = self.world
        world.schedule(world.time + self._rng.between(*GAP_MS), self._read)
        if self.workload.is_reading and world.running:
            self.read_at(self._rng.pick(world.running))

    def read_at(self, replica: Replica) -> None:
        assert isinstance(replica, NodeProcess)
        self._send_read(replica, replica.incarnation, dict(self.workload.newest))

    def _send_read(self, replica: NodeProcess, incarnation: int, newest: dict[str, int]) -> None:
        if replica.core is None or incarnation != replica.incarnation:
            return
        if replica.paused:
            replica.waiting.append((self._send_read, (replica, incarnation, newest)))
            return
        resources = [
            DescribeConfigsResource(
                resource_type=CLIENT_METRICS,
                resource_name=f"c{number}",
                configuration_keys=[INTERVAL_KEY],
            )
            for number in range(SUBSCRIPTION_COUNT)
        ]
        replica.send_as_client(
            ApiKey.DESCRIBE_CONFIGS,
            DESCRIBE_VERSION,
            DescribeConfigsRequest(resources=resources, linearizable=True),
            lambda response: self._on_response(replica, response, newest),
        )

    def _on_response(self, replica: NodeProcess, response: Any, newest: dict[str, int]) -> None:
        codes = {result.error_code for result in response.results}
        if codes == {ErrorCode.REQUEST_TIMED_OUT}:
            self.world.saw("read given up")
            return
        if codes != {ErrorCode.NONE}:
            raise Violation("client history", f"{replica} responds to a read with errors {codes}")
        for result in response.results:
            seen = self._offset_seen(result)
            needed = newest.get(result.resource_name, -1)
            if seen < needed:
                what = f"{replica} reads {result.resource_name} as of offset {seen}"
                why = f"{needed} was acknowledged before the read began"
                raise Violation("client history", f"{what}, but {why}")
        self.reads_done += 1
        self.world.progress += 1
        self.world.saw("read at any replica")

    def _offset_seen(self, result: Any) -> int:
        """The offset of the record that set the returned value; -1 if the config is not set."""
        for config in result.configs:
            if (
                config.name == INTERVAL_KEY
                and config.config_source == DYNAMIC_CLIENT_METRICS_CONFIG
            ):
                return self.world.offset_of[int(config.value) - MIN_INTERVAL_MS]
        return -1
