"""`ConnectedToCluster`: what `Client` and `Admin` have in common."""

from __future__ import annotations

from kraftlog.client import arguments
from kraftlog.client.cluster import Cluster
from kraftlog.client.security import security_of
from kraftlog.value import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self


class ConnectedToCluster:
    """Holds the connections to a cluster, and closes them at the end of a `with` block."""

    def __init__(
        self,
        servers: str,
        client_id: str,
        timeout_s: float,
        *,
        controllers: bool,
        security: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = Cluster(
            arguments.text("servers", servers, "localhost:9092"),
            client_id=arguments.text("client_id", client_id),
            timeout_s=arguments.seconds("timeout_s", timeout_s),
            is_controllers=controllers,
            security=security_of(security) if security else None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.cluster.close()
