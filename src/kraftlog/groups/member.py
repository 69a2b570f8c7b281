"""`Member`: one client in a group, as it joined."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from kraftlog.groups.timers import Timer
    from kraftlog.wire.messages.join_group import JoinGroupRequest

#: Supported protocols in order of preference: (name, metadata).
Protocols = tuple[tuple[str, bytes], ...]


class Member:
    """A member; only its group sets `joining` and `protocols`, because the group counts them."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "joining",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
        "syncing",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        #: Pending responses: JoinGroup waits for the generation to be complete, SyncGroup for the
        #: assignment.
        self.joining: Any = None
        self.syncing: Any = None
        #: Whether it has no generation yet; then it may not know its id, and sends no heartbeats.
        self.is_new = False
        self.session: Timer | None = None

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support {protocol}")

    def vote(self, candidates: set[str]) -> str:
        """Its preferred protocol among those that all members support."""
        return next(name for name, _ in self.protocols if name in candidates)

    @property
    def has_pending_request(self) -> bool:
        """Whether a pending request replaces its heartbeats."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


def protocols_of(request: JoinGroupRequest) -> Protocols:
    """The protocols of a request; the first of duplicates counts."""
    named: dict[str, bytes] = {}
    for protocol in request.protocols:
        named.setdefault(protocol.name, protocol.metadata)
    return tuple(named.items())


def rebalance_timeout_of(request: JoinGroupRequest) -> int:
    """The rebalance timeout; version 0 has only the session timeout."""
    given = request.rebalance_timeout_ms
    return request.session_timeout_ms if given == -1 else given


def protocol_names(protocols: Protocols) -> Sequence[str]:
    return [name for name, _ in protocols]
