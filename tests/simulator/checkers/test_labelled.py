"""The linearizability checker agrees with the known verdicts of 108 third-party histories.

They are expected beside the checkout, as they are not part of this repository.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from kraftlog_simulator.checkers.linearizability import LINEARIZABLE, NOT_LINEARIZABLE, check
from kraftlog_simulator.checkers.models import KeyValue, Register
from tests.simulator.checkers.labelled_histories import FOLDER, etcd_histories, store_histories

needs_histories = pytest.mark.skipif(
    not os.path.isdir(FOLDER), reason="no labelled histories in ../shared/data/histories"
)


@needs_histories
def test_verdicts_agree_on_102_histories_of_registers_in_etcd() -> None:
    verdicts: Counter[str] = Counter()
    for name, history, expected in etcd_histories():
        assert check(history, Register()).outcome == expected, name
        verdicts[expected] += 1
    assert verdicts == {LINEARIZABLE: 23, NOT_LINEARIZABLE: 79}


@needs_histories
def test_verdicts_agree_on_6_histories_of_key_value_stores() -> None:
    verdicts: Counter[str] = Counter()
    for name, history, expected in store_histories():
        assert check(history, KeyValue()).outcome == expected, name
        verdicts[expected] += 1
    assert verdicts == {LINEARIZABLE: 3, NOT_LINEARIZABLE: 3}
