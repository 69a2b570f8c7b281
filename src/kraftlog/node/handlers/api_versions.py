"""ApiVersions 0-4: the supported APIs and features.

A request of an unsupported version (`request` is None) gets UNSUPPORTED_VERSION in a response of
version 0, with the version range of ApiVersions itself, from which clients choose another version.
"""

from __future__ import annotations

from kraftlog.errors import ErrorCode
from kraftlog.metadata.features import KRAFT_VERSION, OFFERED
from kraftlog.node.api_table import SERVED, served_on
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import FIRST_OWN, OWN_CLIENT, ApiKey
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
