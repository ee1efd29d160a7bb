"""The list of combinations that `cute_sm100` is simulated in: it is the issue's, whole, and can be gone on with."""

import json
import sys
from collections import Counter

import pytest

from builds import build
from cutesnake.model.paths import ROOT
from kernels.mla_decode import cute_sm100

FOLDER = ROOT / "benchmarks/mla_cute_sm100"
sys.path.insert(0, str(FOLDER))

import combinations as listed  # noqa: E402


def test_every_combination_comes_under_every_schedule_once() -> None:
    launches = Counter((one, order) for one, orders in listed.to_run({}) for order in orders)
    assert len({one for one, _ in launches}) == 405
    assert set(launches.values()) == {1} and len(launches) == 405 * len(listed.SCHEDULES) == 10_935


def test_combinations_of_one_plan_have_all_schedules_between_them() -> None:
    alike: dict[tuple[int, int, str], set[listed.Order]] = {}
    for one, part in listed.combinations():
        if one.blocks == 1:
            alike.setdefault((one.kv_length, one.batch, one.dtype), set()).update(part)
    assert all(found == set(listed.SCHEDULES) for found in alike.values())


def test_what_was_run_is_not_run_again_and_is_told_in_a_line(tmp_path) -> None:
    out = tmp_path / "out.jsonl"
    (one, orders), *_ = listed.to_run({})
    out.write_text(json.dumps({"combo": one, "schedules": orders, "faults": ["late 0: race"]}) + "\n")
    again = listed.to_run({done: set(ran) for done, (ran, _) in listed.read([out]).items()})
    assert not any(set(left) & set(orders) for other, left in again if other == one)
    told = json.loads(listed.summary([out]))
    assert told["combinations"] == [
        {"combo": list(one), "schedules": sorted(map(listed.SCHEDULES.index, orders)), "faults": ["late 0: race"]}
    ]


@pytest.mark.slow
def test_several_processes_run_what_is_left_and_stop_in_time(tmp_path, monkeypatch):
    """Of a list of two combinations; and none of them where there is no time."""
    one, other = (listed.Combination(1, 1, 1, 1, dtype) for dtype in ("fp16", "fp8"))
    monkeypatch.setattr(listed, "combinations", lambda: iter([(one, listed.SCHEDULES), (other, listed.SCHEDULES)]))
    out, builds = tmp_path / "out.jsonl", tmp_path / "builds"
    builds.mkdir()
    for found in (one, other):
        variant = cute_sm100.variants(found.workload, "sm_100a")[0]
        (builds / variant.id).symlink_to(build("mla_decode", "cute_sm100", "sm_100a", variant))
    assert listed.run(builds, out, 0, 2, False) == 0 and not out.exists()
    done = [{"combo": one, "schedules": listed.SCHEDULES[3:], "faults": []}]
    done += [{"combo": other, "schedules": listed.SCHEDULES[:-2], "faults": []}]
    out.write_text("".join(json.dumps(line) + "\n" for line in done))
    assert listed.run(builds, out, 600, 2, True) == 0
    assert {found: len(ran) for found, (ran, _) in listed.read([out]).items()} == dict.fromkeys((one, other), 27)
    assert len(out.read_text().splitlines()) > 3, "no line but those that were there"


@pytest.mark.parametrize("name", ["combinations_v13.json", "combinations.json"])
def test_a_recorded_run_is_whole_and_found_nothing_wrong(name) -> None:
    told = json.loads((FOLDER / name).read_text())
    every = list(range(len(listed.SCHEDULES)))
    assert len(told["combinations"]) == 405 and all(row["schedules"] == every for row in told["combinations"])
    assert not any(row["faults"] for row in told["combinations"])


def test_what_was_run_of_todays_kernel_found_nothing_wrong_and_the_documents_say_how_much_that_is() -> None:
    told = json.loads((FOLDER / "combinations.json").read_text())["combinations"]
    known = {tuple(one) for one, _ in listed.combinations()}
    assert {tuple(row["combo"]) for row in told} <= known and not any(row["faults"] for row in told)
    launches = sum(len(row["schedules"]) for row in told)
    said = f"{launches:,} of the 10,935 launches, {len(told)} of the 405 combinations"
    for document in (FOLDER / "README.md", ROOT / "kernels/mla_decode/README.md"):
        assert said in " ".join(document.read_text().split())


def test_launches_in_variants_that_do_not_come_first_found_nothing_wrong() -> None:
    found = [json.loads(line) for line in (FOLDER / "others.jsonl").read_text().splitlines()]
    assert found and not any(entry["faults"] for entry in found)
    for entry in found:
        variants = [v.id for v in cute_sm100.variants(listed.Combination(*entry["combo"]).workload, "sm_100a")]
        assert entry["variant"] in variants[1:]
    kinds = {entry["variant"].partition("_")[2] for entry in found}
    assert {"pairs2", "pairs4", "softmax4", "in_place"} <= kinds
