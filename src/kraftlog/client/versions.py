"""Chooses the API version of a request: the newest that the broker and this client support.

The client builds each request in one form. If a later version needs another form (ids instead of
names, several groups instead of one), the client stays at the last version before it. Brokers from
Kafka 2.1 to 4.x support these versions.
"""

from __future__ import annotations

from kraftlog.errors import UnsupportedApiError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, FIRST_OWN, ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.wire.apis import Api
    from kraftlog.wire.schema import Message

#: The newest versions that this client uses, of APIs whose later versions need another form.
NEWEST_SUPPORTED = {
    ApiKey.PRODUCE: 12,  # 13 has topic ids
    ApiKey.FETCH: 12,  # 13 has topic ids
    ApiKey.OFFSET_COMMIT: 9,  # 10 has topic ids
    ApiKey.OFFSET_FETCH: 7,  # 8 has several groups
    ApiKey.FIND_COORDINATOR: 3,  # 4 has several keys
    ApiKey.DELETE_TOPICS: 5,  # 6 has names or ids
    ApiKey.LEAVE_GROUP: 2,  # 3 has several members
    ApiKey.INIT_PRODUCER_ID: 5,  # 6 is for two-phase commit and unstable
}

_by_name: dict[str, Api] = {}


def api_named(name: str) -> Api:
    """The API with this name, such as `ListOffsets`."""
    if not _by_name:
        _by_name.update({api.name: api for api in APIS.values()})
    api = _by_name.get(name)
    if api is None:
        raise UnsupportedApiError(f"unknown API {name}")
    return api


def api_of(request: Message) -> Api:
    return api_named(type(request).__name__.removesuffix("Request"))


def chosen_version(api: Api, supported: Mapping[int, tuple[int, int]], broker: str) -> int:
    """The version of a request to a broker that supports these ranges of versions."""
    broker_range = supported.get(api.key)
    if broker_range is None:
        raise UnsupportedApiError(f"{broker} does not support {api.name}")
    newest = min(NEWEST_SUPPORTED.get(api.key, api.last), broker_range[1])
    if newest < max(api.first, broker_range[0]):
        raise UnsupportedApiError(
            f"{broker} supports {api.name} versions {broker_range[0]} to {broker_range[1]}, this "
            f"client {api.first} to {NEWEST_SUPPORTED.get(api.key, api.last)}"
        )
    return newest


def check_consistency(
    request: Message, supported: Mapping[int, tuple[int, int]], broker: str
) -> None:
    """Refuse a linearizable read at a broker of Kafka, which would ignore the request's field."""
    if getattr(request, "linearizable", False) and max(supported, default=0) < FIRST_OWN:
        raise UnsupportedApiError(f"{broker} is not a node of kraftlog: its reads may be stale")
