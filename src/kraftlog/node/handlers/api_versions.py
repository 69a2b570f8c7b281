"""ApiVersions 0-4: what this node serves.

Asked in a version that does not exist it answers in version 0 with UNSUPPORTED_VERSION and one
entry, its own range: clients of every kind find their way from that.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.node.api_table import SERVED, served_on
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import ApiKey
from kraftlog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

if TYPE_CHECKING:
    from kraftlog.node.node import Node
    from kraftlog.node.slots import Slot
    from kraftlog.types import Now
    from kraftlog.wire.messages.api_versions import ApiVersionsRequest


def handle(node: Node, slot: Slot, request: ApiVersionsRequest | None, now: Now) -> None:  # noqa: ARG001 - every handler is called alike
    if request is None:
        served, code = [SERVED[ApiKey.API_VERSIONS]], ErrorCode.UNSUPPORTED_VERSION
    else:
        served, code = served_on(slot.connection.listener), ErrorCode.NONE
    keys = [ApiVersion(api_key=s.key, min_version=s.first, max_version=s.last) for s in served]
    slot.answer(ApiVersionsResponse(error_code=code, api_keys=keys))
