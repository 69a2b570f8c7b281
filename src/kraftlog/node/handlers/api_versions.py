"""ApiVersions 0-5: the supported APIs and features.

A request of an unsupported version (`request` is None) gets UNSUPPORTED_VERSION in a response of
version 0, with the version range of ApiVersions itself, from which clients choose another version.

A client of version 5 names the cluster and the broker to which it intends to connect. A broker that
is not this one answers REBOOTSTRAP_REQUIRED: DNS or a load balancer has led the client to it
(KIP-1242). As in Kafka, controllers do not compare the names.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.metadata.features import KRAFT_VERSION, OFFERED
from kraftlog.node.api_table import SERVED, served_on
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import BROKER, FIRST_OWN, OWN_CLIENT, ApiKey
from kraftlog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from kraftlog.node.interfaces import ServingNode
    from kraftlog.node.pending_response import PendingResponse
    from kraftlog.types import Now
    from kraftlog.wire.messages.api_versions import ApiVersionsRequest

#: The first version whose clients accept a minimum feature level of 0.
ZERO_SINCE = 4
#: The first version with the name and version of the client's software.
SOFTWARE_SINCE = 3
#: The client does not name a node.
NO_NODE = -1
#: Only kraftlog's own clients and nodes see APIs with keys from here on.
HIDDEN_FROM = FIRST_OWN


def handle(
    node: ServingNode,
    pending: PendingResponse,
    request: ApiVersionsRequest | None,
    now: Now,  # noqa: ARG001 - interface of handlers
) -> None:
    if request is None:
        served, code = [SERVED[ApiKey.API_VERSIONS]], ErrorCode.UNSUPPORTED_VERSION
    elif code := _error(node, pending, request):
        pending.respond(ApiVersionsResponse(error_code=code, api_keys=()))
        return
    else:
        served, code = served_on(pending.connection.serves), ErrorCode.NONE
        if request.client_software_name != OWN_CLIENT:
            served = [api for api in served if api.key < HIDDEN_FROM]
    keys = [
        ApiVersion(api_key=api.key, min_version=api.first, max_version=api.last) for api in served
    ]
    response = ApiVersionsResponse(error_code=code, api_keys=keys)
    if request is not None:
        _add_features(node, pending, response)
    pending.respond(response)


def _error(node: ServingNode, pending: PendingResponse, request: ApiVersionsRequest) -> int:
    names_cluster, names_node = request.cluster_id is not None, request.node_id != NO_NODE
    if names_cluster is not names_node or (
        pending.version >= SOFTWARE_SINCE
        and not (
            _is_software_text(request.client_software_name)
            and _is_software_text(request.client_software_version)
        )
    ):
        return ErrorCode.INVALID_REQUEST
    if names_cluster and pending.connection.serves == BROKER:
        is_other_cluster = node.quorum.core.cluster_id_differs(request.cluster_id)
        if is_other_cluster or request.node_id != node.config.node_id:
            return ErrorCode.REBOOTSTRAP_REQUIRED
    return ErrorCode.NONE


def _is_software_text(text: str) -> bool:
    """Whether it has letters, digits, `-` and `.` alone, and neither of these two at an end."""
    ends, others = text[:1] + text[-1:], text.replace("-", "").replace(".", "")
    return text.isascii() and ends.isalnum() and others.isalnum()


def _add_features(
    node: ServingNode, pending: PendingResponse, response: ApiVersionsResponse
) -> None:
    """Add the supported and the finalized features."""
    response.supported_features = [
        SupportedFeatureKey(name=name, min_version=low, max_version=high)
        for name, (low, high) in OFFERED.items()
        if low > 0 or pending.version >= ZERO_SINCE
    ]
    response.finalized_features_epoch = node.quorum.applied - 1
    # kraft.version is in the quorum's control records, not in the image.
    finalized = {**node.image.features, KRAFT_VERSION: node.quorum.core.log.voter_set.kraft_version}
    response.finalized_features = [
        FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
        for name, level in sorted(finalized.items())
        if level or name != KRAFT_VERSION
    ]
