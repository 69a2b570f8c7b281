"""V20: with ELR the cluster's min.insync.replicas counts; a file that says otherwise is logged."""

from __future__ import annotations

from kraftlog.config.keys import BROKER
from tests.node.frame_client import create_topics, set_config
from tests.virtual_host import SETTINGS, VirtualHost

MIN_ISR = "min.insync.replicas"


def lines_of(host: VirtualHost) -> list[str]:
    return [line for line in host.log_lines if "of this broker's file has no effect" in line]


def test_v20_a_broker_file_without_effect_is_logged_once() -> None:
    """The leader counts as the controller does, whatever its own file says."""
    host = VirtualHost(settings=SETTINGS + f"{MIN_ISR}=2\n")
    create_topics(host, {"demo": 1})
    assert lines_of(host) == [], "the controller's file, which is this one, has set the cluster's"
    set_config(host, BROKER, "", MIN_ISR, 1)
    set_config(host, BROKER, "", MIN_ISR, 1)
    (line,) = lines_of(host)
    assert line.startswith(f"{MIN_ISR}=2 of this broker's file has no effect")
    assert "the cluster's value counts, which is 1." in line
    assert line.endswith(f"--entity-default --add-config {MIN_ISR}=2")
    (partition,) = host.node.replica_manager.partitions.values()
    assert partition.append_config.min_insync_replicas == 1
    for text, count in ((f"{MIN_ISR}=2\n", 1), (f"{MIN_ISR}=1\n", 0), ("", 0)):
        host.files.kill()  # the cluster's value is in the log that the next start replays
        host = VirtualHost(host.files, SETTINGS + text)
        assert len(lines_of(host)) == count
