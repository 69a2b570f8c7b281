"""Proposals for tests, made at once instead of in steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.node.quorum.proposal import Proposal
from kraftlog.steps import result_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kraftlog.wire.schema import Message


def proposal_of(records: Iterable[Message]) -> Proposal:
    return result_of(Proposal.make_in_steps(records, timestamp_ms=0))
