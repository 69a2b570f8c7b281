"""Who leads what, when brokers come and go; ElectLeaders; the return to preferred leaders."""

from __future__ import annotations

from kraftlog.controller.partition_change import Wanted, partition_change, without
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kraftlog.controller.index import Keys
    from kraftlog.controller.state import State
    from kraftlog.types import Uuid
    from kraftlog.wire.schema import Message


def broker_goes(
    state: State, broker_id: int, directories: Sequence[Uuid] | None = None
) -> list[Message]:
    """It leaves every ISR and leads nothing any more; who is left in sync takes over (V2, V3).

    `directories`: only what lives in these of its directories is gone.
    """
    keys = state.index.in_isr.get(broker_id, {})
    if directories is not None:
        keys = {k: None for k in keys if state.partitions[k].directory(broker_id) in directories}
    return _take_out(state, broker_id, keys)


def broker_returns(state: State, broker_id: int) -> list[Message]:
    """It takes over what nobody leads, where it may (V2)."""

    def alive(broker: int) -> bool:
        return broker == broker_id or state.active(broker)

    changes: list[Message] = []
    for key in sorted(state.index.leaderless):
        change = partition_change(state, state.partitions[key], Wanted(), alive)
        if change is not None:
            changes.append(change)
    return changes


def unclean_shutdown(state: State, broker_id: int) -> list[Message]:
    """It may have lost what was not on its disk: it is neither in sync nor eligible."""
    index = state.index
    keys = {**index.in_isr.get(broker_id, {}), **index.in_elr.get(broker_id, {})}
    return _take_out(state, broker_id, keys, unclean=frozenset((broker_id,)))


def _take_out(
    state: State, broker_id: int, keys: Keys, unclean: frozenset[int] = frozenset()
) -> list[Message]:
    def alive(broker: int) -> bool:
        return broker != broker_id and state.active(broker)

    changes: list[Message] = []
    for key in sorted(keys):
        partition = state.partitions[key]
        wanted = Wanted(isr=without(partition.isr, (broker_id,)), unclean=unclean)
        change = partition_change(state, partition, wanted, alive)
        if change is not None:
            changes.append(change)
    return changes
