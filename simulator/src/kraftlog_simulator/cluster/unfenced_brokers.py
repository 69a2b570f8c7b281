"""The invariant that a broker has replayed its registration before it is unfenced (V5)."""

from __future__ import annotations

from kraftlog.value import TYPE_CHECKING
from kraftlog_simulator.cluster.invariants import ClusterInvariant

if TYPE_CHECKING:
    from kraftlog.metadata.image import Image
    from kraftlog.metadata.values import BrokerImage
    from kraftlog_simulator.cluster.world import ClusterWorld


class ReplayedBeforeUnfenced(ClusterInvariant):
    """V5: an unfenced broker has replayed the metadata up to its registration.

    Otherwise it would be elected, or join an ISR, with the replicas of an older image.
    """

    name = "an unfenced broker has replayed its registration"

    def __init__(self, world: ClusterWorld) -> None:
        super().__init__(world)
        self._brokers: dict[int, BrokerImage] = {}

    def on_image(self, image: Image) -> None:
        for broker in image.brokers.values():
            if self._brokers.get(broker.id) is not broker:
                self._brokers[broker.id] = broker
                if not broker.fenced:
                    self._check(broker)

    def _check(self, broker: BrokerImage) -> None:
        node = self.world.replicas[broker.id]
        if node.core is None or not node.is_registered:
            return  # the registered process has ended
        applied = node.node.quorum.applied
        if applied <= broker.epoch:
            self.fail(
                f"{node} is unfenced in broker epoch {broker.epoch}, but has replayed only "
                f"{applied} offsets"
            )
