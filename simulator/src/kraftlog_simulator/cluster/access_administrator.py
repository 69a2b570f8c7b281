"""The administrator of ACLs: allows the stranger to create topics, and takes it back, in turn."""

from __future__ import annotations

from kraftlog.authorization.acls import Operation, PatternType, Permission, ResourceType
from kraftlog.errors import RETRIABLE
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kraftlog.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kraftlog_simulator.cluster.clients import RETRY_MS, Client
from kraftlog_simulator.cluster.stranger import OPEN, PRINCIPAL
from kraftlog_simulator.violation import Violation

if TYPE_CHECKING:
    from typing import Any

    from kraftlog.types import Now
    from kraftlog.wire.schema import Message
    from kraftlog_simulator.cluster.clients import ClientWorld

REQUEST_MS = 2000
#: The time between two changes: minimum and maximum.
CHANGE_MS = (100, 1500)
#: The only ACL that there ever is: type, name, kind of pattern, operation, permission.
ACL = (ResourceType.TOPIC, OPEN, PatternType.PREFIXED, Operation.CREATE, Permission.ALLOW)


class AccessAdministrator(Client):
    """Grants and revokes, one after the other; a request is repeated until it has succeeded."""

    def __init__(self, world: ClientWorld, number: int) -> None:
        super().__init__(world, number)
        #: What is wanted, and what the last successful request has made true.
        self.wants_granted = self.is_granted = False
        self._awaits_response = False
        self._retry_at_ms = 0

    def begin(self) -> None:
        self._change()

    def _change(self) -> None:
        if self.world.healed:
            return
        self.want(granted=not self.wants_granted)
        self.world.schedule(self.world.time + self.rng.between(*CHANGE_MS), self._change)

    def want(self, *, granted: bool) -> None:
        self.wants_granted = granted
        self.take_turn()

    @property
    def is_idle(self) -> bool:
        return not self._awaits_response and self.wants_granted == self.is_granted

    def deadline(self) -> int | None:
        return None if self.is_idle or self._awaits_response else self._retry_at_ms

    def work(self, now: Now) -> None:
        if self.is_idle or self._awaits_response or self._retry_at_ms > now.monotonic_ms:
            return
        self._awaits_response = True
        granted = self.wants_granted
        api_key, request = _grant() if granted else _revoke()

        def on_response(response: Any, now: Now) -> None:
            self._awaits_response = False
            self._retry_at_ms = now.monotonic_ms + RETRY_MS
            if response is not None:
                self._answered(response, granted=granted)

        self.send_request(self.some_broker(), api_key, request, REQUEST_MS, on_response)

    def _answered(self, response: Any, *, granted: bool) -> None:
        result = response.results[0] if granted else response.filter_results[0]
        if result.error_code in RETRIABLE:
            return
        if result.error_code:
            raise Violation("administrator", f"error {result.error_code} for an ACL")
        self.world.saw("ACL granted" if granted else "ACL revoked")
        self.is_granted = granted
        self.world.progress += 1


def _grant() -> tuple[int, Message]:
    resource_type, name, pattern_type, operation, permission_type = ACL
    creation = AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern_type,
        principal=PRINCIPAL,
        host="*",
        operation=operation,
        permission_type=permission_type,
    )
    return ApiKey.CREATE_ACLS, CreateAclsRequest(creations=[creation])


def _revoke() -> tuple[int, Message]:
    resource_type, name, pattern_type, operation, permission_type = ACL
    removal = DeleteAclsFilter(
        resource_type_filter=resource_type,
        resource_name_filter=name,
        pattern_type_filter=pattern_type,
        principal_filter=PRINCIPAL,
        host_filter="*",
        operation=operation,
        permission_type=permission_type,
    )
    return ApiKey.DELETE_ACLS, DeleteAclsRequest(filters=[removal])
