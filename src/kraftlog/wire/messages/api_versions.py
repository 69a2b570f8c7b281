"""ApiVersions: the supported APIs, versions and features; every client's first request."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.schema import Message, array, boolean, int16, int32, int64, string

if TYPE_CHECKING:
    from collections.abc import Sequence


class ApiVersionsRequest(Message, versions=(0, 5), flexible=3):
    client_software_name: str = string(since=3, default="", ignorable=True)
    client_software_version: str = string(since=3, default="", ignorable=True)
    #: The cluster and the node to which the client intends to connect; both or neither.
    cluster_id: str | None = string(since=5, nullable=True, default=None, ignorable=True)
    node_id: int = int32(since=5, default=-1, ignorable=True)


class ApiVersion(Message):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Message):
    name: str = string(since=3, default="")
    min_version: int = int16(since=3, default=0)
    max_version: int = int16(since=3, default=0)


class FinalizedFeatureKey(Message):
    name: str = string(since=3, default="")
    max_version_level: int = int16(since=3, default=0)
    min_version_level: int = int16(since=3, default=0)


class ApiVersionsResponse(Message, versions=(0, 5), flexible=3):
    error_code: int = int16()
    api_keys: Sequence[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1, default=0, ignorable=True)
    supported_features: Sequence[SupportedFeatureKey] = array(
        SupportedFeatureKey, since=3, tag=0, default=(), ignorable=True
    )
    finalized_features_epoch: int = int64(since=3, tag=1, default=-1, ignorable=True)
    finalized_features: Sequence[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, since=3, tag=2, default=(), ignorable=True
    )
    zk_migration_ready: bool = boolean(since=3, tag=3, default=False, ignorable=True)
