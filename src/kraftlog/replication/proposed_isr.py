"""`ProposedIsr`: what a leader has proposed to the controller (V1)."""

from __future__ import annotations

from kraftlog.value import Value


class ProposedIsr(Value):
    """An ISR that the leader has proposed, and the state of the partition that it changes.

    The broker epochs are those of the processes that had caught up: another process of a broker may
    have lost its records (KAFKA-14139).
    """

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
