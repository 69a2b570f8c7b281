"""The statistics of turns, on a clock that the test advances."""

from __future__ import annotations

from kraftlog.server.turns import LOG_INTERVAL_NS, LONG_NS, MIN_RECORDED_NS, SPAN_NS, TurnClock

MS = 1_000_000


class ClockScene:
    """A `TurnClock` whose time advances only by `spend`, with or without CPU time."""

    def __init__(self) -> None:
        self.now_ns = 1000 * MS
        self.cpu_ns = 0
        self.lines: list[str] = []
        self.turns = TurnClock(lambda: self.now_ns, lambda: self.cpu_ns, self.lines.append)
        self.turns.is_serving = True

    def spend(self, cause: str, took_ns: int, *, on_cpu: bool = True) -> None:
        self.now_ns += took_ns
        if on_cpu:
            self.cpu_ns += took_ns
        self.turns.step(cause)

    def turn(self, *steps: tuple[str, int]) -> None:
        """Run a turn with these steps: each has a cause and takes some nanoseconds."""
        self.turns.begin()
        for cause, took_ns in steps:
            self.spend(cause, took_ns)
        self.turns.end("small steps")

    def long_turns(self) -> dict[str, tuple[int, int]]:
        return {
            cause: (account.count, account.total_ns)
            for cause, account in self.turns.long_turns.items()
        }


def test_long_turn_is_counted_by_its_longest_step() -> None:
    scene = ClockScene()
    scene.turn(("Metadata", 2 * MS), ("CreateTopics", 4 * MS), ("append", MS - 1))
    assert scene.long_turns() == {"CreateTopics": (1, 7 * MS - 1)}
    assert {cause: it.total_ns for cause, it in scene.turns.steps.items()} == {
        "Metadata": 2 * MS,
        "CreateTopics": 4 * MS,
    }
    assert scene.turns.longest_ns() == 7 * MS - 1


def test_step_before_the_first_turn_counts_from_the_start() -> None:
    scene = ClockScene()
    scene.spend("open", 2 * MS)
    assert {cause: it.total_ns for cause, it in scene.turns.steps.items()} == {"open": 2 * MS}


def test_turn_below_the_limit_is_not_counted() -> None:
    scene = ClockScene()
    scene.turn(("Metadata", LONG_NS - 1))
    assert (scene.long_turns(), scene.lines, scene.turns.longest_ns()) == ({}, [], 0)


def test_steps_of_an_earlier_turn_do_not_count_for_a_long_one() -> None:
    scene = ClockScene()
    scene.turn(("Metadata", LONG_NS - 1))
    scene.turn(("append", MIN_RECORDED_NS), ("roll", LONG_NS - MIN_RECORDED_NS))
    assert scene.lines == [
        "a turn of the event loop took 5 ms, 5 ms of it CPU time: roll 4 ms, append 1 ms"
    ]


def test_time_off_the_processor_does_not_count() -> None:
    scene = ClockScene()
    scene.turns.begin()
    scene.spend("Metadata", 100 * MS, on_cpu=False)
    scene.turns.end("end")
    assert (scene.long_turns(), scene.lines) == ({}, [])
    scene.turn(("Metadata", LONG_NS))
    assert scene.long_turns() == {"Metadata": (1, LONG_NS)}


def test_log_line_of_a_turn_of_many_small_steps_names_no_step() -> None:
    scene = ClockScene()
    scene.turn(*[("append", MS // 2)] * 20)
    assert scene.long_turns() == {"small steps": (1, 10 * MS)}
    assert scene.lines == [
        "a turn of the event loop took 10 ms, 10 ms of it CPU time: many small steps"
    ]


def test_long_turns_are_logged_at_most_every_ten_seconds() -> None:
    scene = ClockScene()
    for _ in range(4):
        scene.turn(("Metadata", LONG_NS))
    assert len(scene.lines) == 1
    scene.now_ns += LOG_INTERVAL_NS
    scene.turn(("Metadata", LONG_NS))
    assert scene.lines[1:] == [
        (
            "a turn of the event loop took 5 ms, 5 ms of it CPU time: Metadata 5 ms"
            "; 3 more long turns since the last line"
        )
    ]
    assert scene.long_turns() == {"Metadata": (5, 5 * LONG_NS)}


def test_longest_turn_expires_after_two_spans() -> None:
    scene = ClockScene()
    scene.turn(("Metadata", LONG_NS))
    scene.now_ns += SPAN_NS
    scene.turn()
    assert scene.turns.longest_ns() == LONG_NS
    scene.now_ns += SPAN_NS
    scene.turn()
    assert scene.turns.longest_ns() == 0


def test_clients_time_ends_with_the_step_that_exceeds_it() -> None:
    scene = ClockScene()
    scene.turns.begin()
    assert scene.turns.step_ended_ns < scene.turns.requests_until_ns
    scene.spend("Metadata", 3 * MS)
    assert scene.turns.step_ended_ns >= scene.turns.requests_until_ns


def test_long_turn_before_clients_connect_is_counted_not_logged() -> None:
    scene = ClockScene()
    scene.turns.is_serving = False
    scene.turn(("replay", LONG_NS))
    assert (scene.long_turns(), scene.lines) == ({"replay": (1, LONG_NS)}, [])
