"""`Asked`: a request, who sent it, and what the authorizer says about it."""

from __future__ import annotations

from kraftlog.authorization.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    RESOURCE_TYPES,
    Operation,
    ResourceType,
)
from kraftlog.authorization.hosts import java_address
from kraftlog.effects import printable
from kraftlog.errors import ErrorCode
from kraftlog.node.error_responses import error_response
from kraftlog.types import METADATA_TOPIC, METADATA_TOPIC_ID, NULL_UUID
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from kraftlog.authorization.authorizer import Authorizer
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Uuid

#: Operations that exist on each type of resource, as bits are set for them in responses.
SUPPORTED = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


class Asked:
    """One request to an authorizer's node."""

    __slots__ = ("authorizer", "host", "node", "pending", "principal", "request")

    def __init__(
        self, authorizer: Authorizer, node: ServingNode, pending: PendingResponse, request: Any
    ) -> None:
        self.authorizer, self.node = authorizer, node
        self.pending, self.request = pending, request
        client = pending.client()
        self.principal, self.host = client[0], java_address(client[1])

    def may(self, operation: int, resource: int, name: str) -> bool:
        """Whether the client may do something; nothing is logged."""
        return self.authorizer.allows(self.principal, self.host, operation, resource, name)

    def allows(self, operation: int, resource: int, name: str) -> bool:
        """Whether the client may do what it asks for; a denial is logged."""
        if self.may(operation, resource, name):
            return True
        self.denied(operation, resource, name)
        return False

    def denied(self, operation: int, resource: int, name: str) -> None:
        api = self.pending.api
        assert api is not None
        self.node.denials.add(
            lambda: (
                f"denied {printable(self.principal)} from {self.host} the operation "
                f"{OPERATIONS[operation]} on {RESOURCE_TYPES[resource]} {printable(name)} "
                f"({api.name})"
            ),
            self.node.now,
        )

    def allows_on_cluster(self, operation: int) -> bool:
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_on_cluster(self, operation: int) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_on_topic(self, operation: int, name: str) -> bool:
        return self.allows(operation, ResourceType.TOPIC, name)

    def allows_on_group(self, operation: int, name: str) -> bool:
        return self.allows(operation, ResourceType.GROUP, name)

    def operations(self, resource: int, name: str) -> int:
        """The operations that the client may do, as bits."""
        return sum([1 << each for each in SUPPORTED[resource] if self.may(each, resource, name)])

    def operations_on_cluster(self) -> int:
        """As bits; none for those who may not describe the cluster."""
        if not self.may_on_cluster(Operation.DESCRIBE):
            return 0
        return self.operations(ResourceType.CLUSTER, CLUSTER_NAME)

    def topic_name(self, name: str | None, topic_id: Uuid = NULL_UUID) -> str | None:
        """The name of a topic that is named or has this id; None if there is none with the id."""
        if topic_id == NULL_UUID:
            return name or ""
        if topic_id == METADATA_TOPIC_ID:
            return METADATA_TOPIC
        topic = self.node.image.topics.get(topic_id)
        return None if topic is None else topic.name

    # Answers -------------------------------------------------------------------------------------

    def refuse(self, code: int = ErrorCode.CLUSTER_AUTHORIZATION_FAILED) -> bool:
        """Respond with an error; the handler doesn't see the request."""
        api = self.pending.api
        assert api is not None
        self.pending.respond(error_response(api.key, self.pending.version, self.request, code))
        return False

    def split(
        self,
        items: str,
        is_allowed: Callable[[Any], bool],
        results: str,
        refused: Callable[[Any], Any],
        **others: Any,
    ) -> bool:
        """Leave the items that are allowed in the request, and answer for the others.

        `items` and `results`: the fields of the request and of the response; `others`: further
        fields of a response to a request of which nothing is left.
        """
        asked = getattr(self.request, items) or ()
        allowed, denied = [], []
        for each in asked:
            if is_allowed(each):
                allowed.append(each)
            else:
                denied.append(refused(each))
        if not denied:
            return True
        if not allowed:
            self.respond(**{results: denied, **others})
            return False
        setattr(self.request, items, allowed)
        self.add(results, denied)
        return True

    def respond(self, **fields: Any) -> None:
        api = self.pending.api
        assert api is not None
        response_type: Any = api.response()
        self.pending.respond(response_type(**fields))

    def add(self, results: str, more: Iterable[Any]) -> None:
        """Add to a field of the response, once there is one."""

        def complete(response: Any) -> None:
            setattr(response, results, [*getattr(response, results), *more])

        self.then(complete)

    def then(self, complete: Callable[[Any], None]) -> None:
        """Call a function with the response before it is sent."""
        before = self.pending.complete

        def both(response: Any) -> None:
            if before is not None:
                before(response)
            complete(response)

        self.pending.complete = both
