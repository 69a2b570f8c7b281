"""The states of a consumer group and of its members."""

from __future__ import annotations


class ConsumerGroupState:
    """State names as clients see them."""

    #: No members; kept while it has offsets.
    EMPTY = "Empty"
    #: The target assignment is older than the group epoch.
    ASSIGNING = "Assigning"
    #: Not all members have their target assignment.
    RECONCILING = "Reconciling"
    STABLE = "Stable"


#: All states of consumer groups, and Dead, which clients may ask for.
CONSUMER_GROUP_STATES = (
    ConsumerGroupState.EMPTY,
    ConsumerGroupState.ASSIGNING,
    ConsumerGroupState.RECONCILING,
    ConsumerGroupState.STABLE,
)


class MemberState:
    """States of a member, as in its record."""

    #: It has all partitions of its epoch's target assignment.
    STABLE = 0
    #: It has yet to revoke partitions before it may enter the next epoch.
    UNREVOKED_PARTITIONS = 1
    #: It waits for partitions that other members have yet to release.
    UNRELEASED_PARTITIONS = 2
    #: Written by a newer coordinator.
    UNKNOWN = 127


#: The member epochs of requests to join, to leave, and to leave for a while as a static member.
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
