"""What happens in a fork is reported, and touches nothing else."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from tests.mutants.warm import NOT_IN_PLACE

# The worker that runs the tests has more threads than one.
SCRIPT = """
import json, os, sys, threading, time
from tests import in_place
from tests.mutants.warm import in_child

state = []

def fails():
    print("before")
    raise KeyError("the reason")

def refuses():
    raise in_place.NotInPlaceError("too much")

def prints():
    state.append(1)
    os.write(2, b"to stderr ")
    print("to stdout")
    return len(state)

outcomes = [in_child(prints, 60), in_child(prints, 60), in_child(fails, 60), in_child(refuses, 60)]
outcomes.append(in_child(lambda: time.sleep(1000), 0.1))
threading.Thread(target=threading.Event().wait, daemon=True).start()
try:
    in_child(prints, 60)
except AssertionError:
    outcomes.append("refused")
print(json.dumps(outcomes))
"""


def test_a_fork_reports_its_end_whatever_it_is() -> None:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, check=True
    )
    first, second, failed, refused, hanging, with_thread = json.loads(process.stdout)
    assert first == second == [1, "to stderr to stdout\n"]
    assert failed[0] == 2
    assert failed[1].startswith("before\nTraceback")
    assert "the reason" in failed[1]
    assert refused == [NOT_IN_PLACE, "too much\n"]
    assert hanging == [-signal.SIGALRM, ""]
    assert with_thread == "refused"
