"""Templates of repeated Fetch requests: of a consumer's partition, or of a follower's session."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kraftlog.node.templates.request_templates import ServedRequest, Template


def maker_of(served: ServedRequest) -> Callable[[], Template | None] | None:
    request = served.request
    if max(request.replica_id, request.replica_state.replica_id) >= 0:
        from kraftlog.node.fetch import follower_template

        return follower_template.maker_of(served)
    from kraftlog.node.fetch import consumer_template

    return consumer_template.maker_of(served)
