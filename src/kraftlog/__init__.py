"""kraftlog: Kafka without ZooKeeper and without a JVM."""

from kraftlog.value import TYPE_CHECKING
from kraftlog.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from kraftlog.client.admin import Admin as Admin
    from kraftlog.client.client import Client as Client


def __getattr__(name: str) -> object:
    """`Client` and `Admin` are imported on first use, so that importing kraftlog stays cheap."""
    if name == "Client":
        from kraftlog.client.client import Client

        return Client
    if name == "Admin":
        from kraftlog.client.admin import Admin

        return Admin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
