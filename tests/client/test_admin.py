"""`kraftlog.Admin` with a quorum of kraftlog's controllers, and with one of Apache Kafka's."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from kraftlog import Admin
from kraftlog.client.admin import Listener
from kraftlog.errors import ConfigError
from kraftlog.raft.messages import ElectionState
from kraftlog.server.files import OsFiles
from tests.client.waiting import until
from tests.interop.kafka_broker import KafkaNodes
from tests.runner.surviving import write_directory
from tests.runner.test_repair import ME, log_of
from tests.server.quorum_of_processes import BROKER, CONTROLLERS, Quorum

FIRST, SECOND, THIRD = CONTROLLERS


def test_importing_kraftlog_does_not_load_the_client() -> None:
    program = "import kraftlog, sys; print([m for m in sys.modules if 'kraftlog.client' in m])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_d5_r12_admin_describes_adds_updates_and_removes_voters(tmp_path: Path) -> None:
    quorum = Quorum(tmp_path, dynamic=True)
    try:
        quorum.start(FIRST, SECOND, BROKER)
        with Admin(quorum.address) as brokers, controllers_of(quorum) as controllers:
            change_voters(quorum, controllers)
            assert [each.id for each in brokers.describe_cluster().brokers] == [BROKER]
            run_documented_example(quorum.address)
            brokers.reassign_voters([FIRST])
            until(lambda: voters(brokers), [FIRST])
            with pytest.raises(ConfigError, match="controller 9 is not a voter; the voters are 1"):
                brokers.remove_voter(9)
            add_caught_up_voter(quorum, brokers, SECOND)
            quorum.kill(SECOND)
            until(lambda: lag_reasons(brokers), {FIRST: "", SECOND: "down"})
    finally:
        quorum.end()


@pytest.mark.usefixtures("jvm")  # skips without Java
@pytest.mark.long
def test_d5_admin_changes_the_voters_of_apache_kafka(tmp_path: Path) -> None:
    """Three controllers of Kafka; the first is formatted as the only voter."""
    quorum = Quorum(tmp_path, dynamic=True)
    with ExitStack() as stack:
        KafkaNodes(tmp_path, stack).start(*CONTROLLERS)
        admin = stack.enter_context(controllers_of(quorum))
        change_voters(quorum, admin)
        add_caught_up_voter(quorum, admin, THIRD)


def run_documented_example(address: str) -> None:
    """Run the example of docs/use/client.md that uses Admin, against this address."""
    text = (Path(__file__).parents[2] / "docs" / "use" / "client.md").read_text()
    blocks = [block.partition("```")[0] for block in text.split("```python\n")[1:]]
    (example,) = [block for block in blocks if "Admin(" in block]
    exec(example.replace("localhost:9092", address), {})


def change_voters(quorum: Quorum, admin: Admin) -> None:
    """Add the second controller, update its record and remove it."""
    quorum_description = admin.describe_quorum()
    assert (quorum_description.leader_id, voters(admin)) == (FIRST, [FIRST])
    assert quorum_description.high_watermark > 0
    add_caught_up_voter(quorum, admin, SECOND)
    controller_listener = listener(quorum, SECOND)
    admin.update_voter(SECOND, [controller_listener])
    listeners = dict(admin.describe_quorum().listeners)
    assert listeners[SECOND] == (
        (controller_listener.name, controller_listener.host, controller_listener.port),
    )
    directory = admin.remove_voter(SECOND, dry_run=True)
    assert sorted(voters(admin)) == [FIRST, SECOND]
    assert admin.remove_voter(SECOND) == directory
    until(lambda: voters(admin), [FIRST])


def add_caught_up_voter(quorum: Quorum, admin: Admin, node_id: int) -> None:
    """Add a controller to the voters, once it fetches as an observer."""
    until(lambda: node_id in [each.id for each in admin.describe_quorum().observers], True)
    observer = next(each for each in admin.describe_quorum().observers if each.id == node_id)
    admin.add_voter(node_id, observer.directory_id, [listener(quorum, node_id)])
    until(lambda: sorted(voters(admin)), [FIRST, node_id])


def controllers_of(quorum: Quorum) -> Admin:
    return Admin(f"127.0.0.1:{quorum.ports[FIRST]}", controllers=True)


def listener(quorum: Quorum, node_id: int) -> Listener:
    return Listener("CONTROLLER", "127.0.0.1", quorum.ports[node_id])


def voters(admin: Admin) -> list[int]:
    return [each.id for each in admin.describe_quorum().voters]


def lag_reasons(admin: Admin) -> dict[int, str]:
    return {each.id: each.lag_reason for each in admin.describe_quorum().voters}


def test_the_plan_of_a_repair_changes_nothing(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    write_directory(OsFiles(), data, ME, log_of("a", "b"), ElectionState(8, 1), committed=3)
    new = [(ME.id, Listener("CONTROLLER", "new.example", 9093))]
    plan = Admin.plan_repair(data, new)
    assert (plan.current_voters, plan.new_voters, plan.loss) == ((1, 2, 3), (3,), "4@7")
    assert any("offset 4 (epoch 7)" in line for line in plan.lines)
    assert Admin.plan_repair(data, new) == plan
