"""A node with deliberate errors: in a quorum step, a handler, a decision and a response."""

from __future__ import annotations

import sys
from typing import Any

from kraftlog.cli import main
from kraftlog.controller import partitions
from kraftlog.node import api_table
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.list_config_resources import ListConfigResourcesResponse


def raise_error(*_: Any) -> None:
    raise KeyError("a deliberate mistake")


def raise_error_in_a_quorum_step(node: Any, *_: Any) -> None:
    node.quorum._run_step(raise_error)


def respond_unencodably(_: Any, pending: Any, *__: Any) -> None:
    pending.respond(ListConfigResourcesResponse(error_code=1 << 20, config_resources=()))


if __name__ == "__main__":
    api_table._handlers[ApiKey.METADATA] = raise_error_in_a_quorum_step
    api_table._handlers[ApiKey.DESCRIBE_CLUSTER] = raise_error
    api_table._handlers[ApiKey.LIST_CONFIG_RESOURCES] = respond_unencodably
    partitions.decide_create_partitions = raise_error  # type: ignore[assignment]  # deliberate
    sys.exit(main())
