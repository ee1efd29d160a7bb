"""What a schedule picks where thousands of pieces of work wait."""

import random
from dataclasses import dataclass

import pytest

from ptxsim.core.schedule import MANY, Schedule
from ptxsim.core.work import Heads, Kind, Pipe, Pipes, Task


@dataclass(slots=True)
class Split(Task):
    kind: Kind


def test_a_fixed_schedule_picks_the_same_of_many_as_of_few() -> None:
    draw = random.Random(0)
    for name in ("eager", "late", "tma_late", "mma_late"):
        plan, pipes = Schedule(name), Pipes()
        for number in range(4 * MANY):
            for _ in range(draw.randrange(1, 3)):
                pipes.post(Pipe("bulk", 0, number), Split(draw.choice(("copy", "store", "mma"))))
        while pipes.queues:
            order = list(pipes.queues)
            heads = [pipes.queues[pipe][0] for pipe in order]
            picked = plan.choose([], Heads(pipes, order))
            assert picked == plan.choose([], heads)
            pipes.take(order[picked])


def test_copies_that_wait_for_the_end_are_not_looked_at_each_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    pipes = Pipes()
    for _ in range(4 * MANY):
        pipes.post(pipes.own(0), Split("copy"))
    heads = Heads(pipes, list(pipes.queues))
    monkeypatch.setattr(Heads, "__getitem__", lambda self, k: pytest.fail(f"copy {k} was looked at"))
    assert Schedule("tma_late").choose([], heads) == 0


@pytest.mark.parametrize("name", ["random", "warps"])
def test_the_choices_of_a_cluster_depend_on_no_cluster_before_it(name: str) -> None:
    def choices(before: int, launch: int, cluster: int) -> list[int]:
        plan = Schedule(name)
        for n in range(before):
            plan.begin(0, n)
            plan.quantum()
        plan.begin(launch, cluster)
        return [plan.quantum() for _ in range(40)]

    assert choices(0, 0, 7) == choices(3, 0, 7) != choices(3, 0, 8)
    assert choices(0, 1, 0) == choices(3, 1, 0) != choices(0, 0, 0)
