"""Latencies of the quorum's work, over a window (Q35)."""

from __future__ import annotations

from math import isnan

from kraftlog.node.quorum.times import SPAN_MS, QuorumTimes, Window


def test_q35_a_window_forgets_what_is_older_than_two_spans() -> None:
    window = Window()
    assert isnan(window.average(5))
    assert isnan(window.most(5))
    assert window.per_second(5) == 0
    window.add(10, SPAN_MS)
    window.add(20, SPAN_MS + 1)
    assert (window.average(SPAN_MS + 1), window.most(SPAN_MS + 1)) == (15, 20)
    window.add(3, 2 * SPAN_MS)
    assert (window.average(2 * SPAN_MS), window.most(2 * SPAN_MS)) == (11, 20)
    assert window.per_second(3 * SPAN_MS - 1) == 33_000 / (2 * SPAN_MS - 1)
    assert (window.average(3 * SPAN_MS), window.most(3 * SPAN_MS)) == (3, 3)
    assert isnan(window.average(4 * SPAN_MS))


def test_q35_commits_are_timed_from_their_append() -> None:
    times = QuorumTimes()
    times.append(2, 2, 100, leads=True)
    times.append(1, 3, 110, leads=True)
    assert times.waiting_ms(150) == 50
    times.commit(2, 130)
    assert (times.waiting_ms(150), times.moved_ms) == (40, 130)
    times.commit(3, 150)
    assert times.waiting_ms(1000) == 0
    assert (times.commits.average(150), times.commits.most(150)) == (35, 40)


def test_q35_elections_are_timed_from_the_first_candidacy() -> None:
    times = QuorumTimes()
    times.know_leader(50, leads=False)
    assert isnan(times.elections.average(50))
    times.stand(100)
    times.stand(200)
    times.append(1, 1, 250, leads=True)
    times.know_leader(300, leads=False)
    assert times.elections.most(300) == 200
    assert times.waiting_ms(300) == 0, "what it appended is another leader's to commit"
    times.append(4, 5, 310, leads=False)
    assert times.fetched.per_second(310) == 4_000 / SPAN_MS
