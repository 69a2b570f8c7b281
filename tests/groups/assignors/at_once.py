"""An assignment without its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraftlog.groups.assignors.builtin import BUILTIN_ASSIGNORS
from kraftlog.steps import result_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.groups.assignors.interface import (
        Assignments,
        MemberSubscription,
        SubscribedTopics,
    )


def assign(
    name: str, members: Mapping[str, MemberSubscription], topics: SubscribedTopics
) -> Assignments:
    return result_of(BUILTIN_ASSIGNORS[name](members, topics))
