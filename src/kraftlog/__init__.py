"""kraftlog: Kafka without ZooKeeper and without a JVM."""

from kraftlog.version import VERSION

__version__ = VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kraftlog.client.client import Client as Client


def __getattr__(name: str) -> object:
    """`Client` is loaded when it is first asked for: importing kraftlog stays cheap."""
    if name == "Client":
        from kraftlog.client.client import Client

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
