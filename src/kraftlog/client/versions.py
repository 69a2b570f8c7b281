"""In which version a broker is asked: the newest that it, our schemas and this client know.

The client builds each request in one form only. Where a later version asks for another form (ids
in place of names, lists in place of one), it stays with the last version of the form it has;
brokers from Kafka 2.1 to 4.x take those.
"""

from __future__ import annotations

from kraftlog.errors import UnsupportedApiError
from kraftlog.value import TYPE_CHECKING
from kraftlog.wire.apis import APIS, ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kraftlog.wire.apis import Api
    from kraftlog.wire.schema import Message

NEWEST_OF_OUR_FORM = {
    ApiKey.PRODUCE: 12,  # from 13 on: topics by id
    ApiKey.FETCH: 12,  # from 13 on: topics by id
    ApiKey.OFFSET_COMMIT: 9,  # from 10 on: topics by id
    ApiKey.OFFSET_FETCH: 7,  # from 8 on: several groups
    ApiKey.FIND_COORDINATOR: 3,  # from 4 on: several keys
    ApiKey.DELETE_TOPICS: 5,  # from 6 on: by name or by id
    ApiKey.LEAVE_GROUP: 2,  # from 3 on: several members
    ApiKey.INIT_PRODUCER_ID: 5,  # 6 is for transactions in two phases, and not stable
}

_by_name: dict[str, Api] = {}


def api_named(name: str) -> Api:
    """The API of a name, as in `ListOffsets`."""
    if not _by_name:
        _by_name.update({api.name: api for api in APIS.values()})
    api = _by_name.get(name)
    if api is None:
        raise UnsupportedApiError(f"unknown API {name}")
    return api


def api_of(request: Message) -> Api:
    return api_named(type(request).__name__.removesuffix("Request"))


def chosen_version(api: Api, served: Mapping[int, tuple[int, int]], broker: str) -> int:
    """The version to ask in, of a broker that serves these."""
    theirs = served.get(api.key)
    if theirs is None:
        raise UnsupportedApiError(f"{broker} does not serve {api.name}")
    newest = min(NEWEST_OF_OUR_FORM.get(api.key, api.last), theirs[1])
    if newest < max(api.first, theirs[0]):
        raise UnsupportedApiError(
            f"{broker} serves {api.name} in versions {theirs[0]} to {theirs[1]}, and this client "
            f"speaks {api.first} to {NEWEST_OF_OUR_FORM.get(api.key, api.last)}"
        )
    return newest
