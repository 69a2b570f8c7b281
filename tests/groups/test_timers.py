"""Timers: postponing one adds no heap entry, and each fires once, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kraftlog.groups.timers import Timer, Timers
from kraftlog.types import Now


def test_a_postponed_timer_has_one_entry_and_fires_at_its_last_time() -> None:
    timers = Timers()
    fired: list[int] = []
    timer = Timer(lambda now: fired.append(now.monotonic_ms))
    for at in range(10, 1000):
        timers.set(timer, at)
    assert len(timers._heap) == 1
    timers.poll(Now(998, 0))
    assert (fired, timers.deadline()) == ([], 999)
    timers.poll(Now(999, 0))
    assert (fired, timers.deadline()) == ([999], None)


def test_a_timer_set_to_now_by_another_fires_in_the_same_poll() -> None:
    timers = Timers()
    fired: list[str] = []
    second = Timer(lambda _: fired.append("second"))

    def first(now: Now) -> None:
        fired.append("first")
        timers.set(second, now.monotonic_ms)

    timers.set(Timer(first), 5)
    timers.poll(Now(5, 0))
    assert fired == ["first", "second"]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["set", "cancel", "poll"]), st.integers(0, 20))
    )
)
def test_timers_fire_at_the_same_times_as_those_of_a_plain_table(
    steps: list[tuple[int, str, int]],
) -> None:
    timers = Timers()
    fired: list[int] = []
    timers_by_number = [_timer_that_appends(number, fired) for number in range(4)]
    table: dict[int, int] = {}
    time = 0
    for number, action, ms in steps:
        if action == "set":
            timers.set(timers_by_number[number], time + ms)
            table[number] = time + ms
        elif action == "cancel":
            timers.cancel(timers_by_number[number])
            table.pop(number, None)
        else:
            time += ms
            timers.poll(Now(time, 0))
            due = {timer_number for timer_number, due_at in table.items() if due_at <= time}
            assert set(fired) == due
            assert len(fired) == len(due)
            fired.clear()
            table = {
                timer_number: due_at for timer_number, due_at in table.items() if due_at > time
            }
        assert timers.deadline() == min(table.values(), default=None)


def _timer_that_appends(number: int, fired: list[int]) -> Timer:
    return Timer(lambda _: fired.append(number))
