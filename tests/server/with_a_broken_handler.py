"""A node with internal errors: in a quorum step, a read, a decision, a response."""

from __future__ import annotations

import sys
from typing import Any

from kraftlog.cli import main
from kraftlog.controller import partitions
from kraftlog.node import api_table
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.list_config_resources import ListConfigResourcesResponse


def broken(*_: Any) -> None:
    raise KeyError("a deliberate mistake")


def broken_within_the_quorum(node: Any, *_: Any) -> None:
    node.quorum._step(broken)


def answers_what_can_not_be_said(_: Any, slot: Any, *__: Any) -> None:
    slot.respond(ListConfigResourcesResponse(error_code=1 << 20, config_resources=()))


if __name__ == "__main__":
    api_table._handlers[ApiKey.METADATA] = broken_within_the_quorum
    api_table._handlers[ApiKey.DESCRIBE_CLUSTER] = broken
    api_table._handlers[ApiKey.LIST_CONFIG_RESOURCES] = answers_what_can_not_be_said
    partitions.decide_create_partitions = broken  # type: ignore[assignment]  # the bug
    sys.exit(main())
