"""Envelope: a request of a client that one of Kafka's brokers forwards to the controller.

kraftlog's own brokers ask the authorizer themselves, and forward in it only requests whose
decisions depend on the client (decision 0008). The authorizer is asked about the client inside, if
the broker may do CLUSTER_ACTION.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode, ProtocolError, UnsupportedVersionError
from kraftlog.node.access import is_permitted
from kraftlog.node.api_table import SERVED, handler
from kraftlog.node.controller_request import ForwardedClient
from kraftlog.node.handlers.forwarding import FOR_CLIENT, has_no_controller
from kraftlog.node.pending_response import PendingResponse
from kraftlog.node.sliced import LARGE_REQUEST_BYTES, read_and_serve
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire import codec
from kraftlog.wire.apis import APIS, ApiKey
from kraftlog.wire.frames import LENGTH_SIZE, read_request_head
from kraftlog.wire.messages.envelope import EnvelopeResponse
from kraftlog.wire.messages.principal import DefaultPrincipalData

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from kraftlog.node.interfaces import ServingNode
    from kraftlog.types import Now
    from kraftlog.wire.frames import RequestHead
    from kraftlog.wire.messages.envelope import EnvelopeRequest

#: The version before the encoded principal.
VERSION_BYTES = 2
#: The APIs that Kafka's brokers forward; Kafka refuses an Envelope with any other.
FORWARDABLE = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UNREGISTER_CONTROLLER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    )
)


def handle(node: ServingNode, pending: PendingResponse, request: EnvelopeRequest, now: Now) -> None:
    data = request.request_data
    try:
        head = read_request_head(data, 0, len(data))
        code = _error_for(head, pending)
        if code != ErrorCode.NONE:
            pending.respond(EnvelopeResponse(error_code=code))
            return
        client = _client(request, head)
        if client is None and (node.authorizer is not None or head.api_key in FOR_CLIENT):
            code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
            pending.respond(EnvelopeResponse(error_code=code))
            return
        enveloped = EnvelopedResponse(pending, head, client)
        if len(data) > LARGE_REQUEST_BYTES:
            node.sliced.run(enveloped, read_and_serve(node, enveloped, data, head.body))
            return
        request_type = APIS[head.api_key].request()
        inner = codec.decode_request(request_type, head.version, data, head.body, len(data))
    except ProtocolError:
        # Kafka, too, answers an unreadable embedded request with this code.
        pending.respond(EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    if not is_permitted(node, enveloped, inner):
        return
    steps = handler(head.api_key)(node, enveloped, inner, now)
    if steps is not None:
        node.sliced.run(enveloped, steps)


def _client(request: EnvelopeRequest, head: RequestHead) -> ForwardedClient | None:
    """The client; None if its principal or its host can't be read."""
    data, address = request.request_principal or b"", bytes(request.client_host_address)
    try:
        version = int.from_bytes(data[:VERSION_BYTES], "big")
        principal = codec.decode(DefaultPrincipalData, version, data, VERSION_BYTES)
    except (ProtocolError, UnsupportedVersionError):
        return None
    if len(address) not in {4, 16}:
        return None
    # As Java prints them.
    parts = [f"{each}" for each in address]
    if len(address) == 16:
        parts = [f"{address[i] << 8 | address[i + 1]:x}" for i in range(0, 16, 2)]
    host = ("." if len(address) == 4 else ":").join(parts)
    return ForwardedClient(
        f"{principal.type}:{principal.name}", host, head.client_id, principal.token_authenticated
    )


def _error_for(head: RequestHead, pending: PendingResponse) -> int:
    """The error code if the embedded request is not served."""
    if head.api_key not in FORWARDABLE:
        return ErrorCode.INVALID_REQUEST
    api, served = APIS[head.api_key], SERVED.get(head.api_key)
    is_served = served is not None and head.version in served.versions
    if not is_served or not api.listeners & pending.connection.serves:
        return ErrorCode.UNSUPPORTED_VERSION
    return ErrorCode.NONE


class EnvelopedResponse(PendingResponse):
    """The response to the embedded request; the Envelope's response contains it.

    NOT_CONTROLLER becomes the error of the Envelope: it is for the broker, not for the client.
    """

    __slots__ = ("_client", "envelope")

    is_forwarded = True

    def __init__(
        self, envelope: PendingResponse, head: RequestHead, client: ForwardedClient | None
    ) -> None:
        super().__init__(envelope.connection)
        self.envelope = envelope
        self._client = client
        self.api = APIS[head.api_key]
        self.version = head.version
        self.correlation_id = head.correlation_id
        self.client_id = head.client_id
        self.received_ms = envelope.received_ms
        envelope.waiter = self

    def client(self) -> tuple[str, str]:
        client = self._client
        return super().client() if client is None else (client.principal, client.host)

    @property
    def is_by_token(self) -> bool:
        return self._client is not None and self._client.is_by_token

    def respond(self, response: Any) -> None:
        if has_no_controller(response):
            self.envelope.respond(EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER))
        else:
            super().respond(response)

    def respond_in_steps(self, response: Any, items: int) -> Iterator[int]:
        if has_no_controller(response):
            self.respond(response)
        else:
            yield from super().respond_in_steps(response, items)

    def _send(self, pieces: list[Any]) -> None:
        data = b"".join(pieces)[LENGTH_SIZE:]
        self.envelope.respond(EnvelopeResponse(response_data=data, error_code=ErrorCode.NONE))

    def cancel(self) -> None:
        """The connection is closed."""
        self.abandon()
