"""One command that measures what of `cute_sm90` waits for a card, on one H100 or H200.

    python benchmarks/mla_cute_sm90/next_card.py FOLDER            # builds where the DSL is, then measures
    python benchmarks/mla_cute_sm90/next_card.py FOLDER --build    # builds only; needs no GPU; carry FOLDER over then

It makes the builds that FOLDER/compile/ lacks (eleven, about a minute each; delete the folder after a change of the
kernel) and prints four tables in Markdown:

    plan      the schedule made on the card: checked against the host's for four sets of lengths, then timed, warm and
              cold; and what a call takes by tables of fixed sizes beside one by a schedule for its lengths alone
    padding   what it costs, row by row, that NaN past a request's end cannot pass: beside a build that lets it through
    rule      where the variant that `variants` names first is over 3 % behind the best, over all workloads
    times     the default variant's time of every workload, warm and cold

FOLDER/next_card.json has every figure. All are medians of turns as in groups.py: warm of graphs of up to 20 calls, cold
of lone calls after 512 MB were written. The builds of the table `padding` are bound to the same tensors, the workspace
among them: where in memory partial results lie makes more of a difference. `again` is the same build once more.
FlashMLA is not needed: for it beside ours see groups.py.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow" / "scripts"), str(Path(__file__).parent)]

import groups  # noqa: E402

from cutesnake.model.contract import Variant  # noqa: E402
from cutesnake.stages.load.build import LoadedBuild  # noqa: E402
from kernels.mla_decode import cute_sm90  # noqa: E402
from kernels.mla_decode.cute_sm90 import choice  # noqa: E402
from kernels.mla_decode.cute_sm90.layout import TRUSTED  # noqa: E402
from kernels.mla_decode.operator import Workload, make_inputs, make_outputs  # noqa: E402

KINDS = {"cluster1": {"cluster": 1}, "cluster2": {"cluster": 2}, "halves": {"cluster": 2, "halves": True}}
PLAIN = {"halves_met": {**KINDS["halves"], "meets": True}, "single": {"cluster": 1, "single": True}}
MORE = {"": {}, "_planned": {"planned": True}, f"_{TRUSTED}": {"padding": TRUSTED}}
PADDED_TURNS = 48  # what padding costs is as little as two measurements of a row differ by
AGAIN = " again"  # behind the name of a build: bound a second time
PLANS = [Workload(1, 8192), Workload(32, 4096), Workload(128, 4096), Workload(1024, 300)]
PLANS += [Workload(batch, length, lengths="ragged") for batch, length in ((48, 8192), (133, 16384), (1024, 8192))]
CHECKED = [Workload(1, 4096), Workload(24, 4096), Workload(133, 16384, lengths="ragged"), Workload(1024, 300)]
PADDED = [Workload(1, 1000), Workload(1, 4096), Workload(1, 8192), Workload(1, 8150), Workload(3, 5000)]
PADDED += [Workload(4, 4096), Workload(6, 2048), Workload(7, 333), Workload(16, 4096), Workload(32, 1000)]
PADDED += [Workload(128, 4050)]


def variants() -> list[Variant]:
    """Every build of this script: three kinds, each plain, planned on the card and trusted; and those of which
    there is the plain one alone: halves that meet, and single CTAs without clusters."""
    every = [
        Variant(f"bf16_{kind}{end}", {"dtype": "bf16", **params, **more})
        for kind, params in KINDS.items()
        for end, more in MORE.items()
    ]
    return [*every, *(Variant(f"bf16_{kind}", {"dtype": "bf16", **params}) for kind, params in PLAIN.items())]


def folder(root: Path, name: str) -> Path:
    return root / "compile" / "mla_decode" / "cute_sm90" / "sm_90a" / name


def build(root: Path) -> None:
    """Make what is missing. Ends with one line where something is, and the DSL is not here."""
    from cutesnake.stages.compile.compile import compile_build

    for variant in variants():
        place = folder(root, variant.id)
        if (place / "build.json").exists():
            continue
        compile_build("mla_decode", "cute_sm90", "sm_90a", variant, place)
        made = json.loads((place / "build.json").read_text())
        if made["status"] != "ok":
            sys.exit(
                f"{variant.id} does not compile here: {made['reason']}. Build on a machine with the DSL (--build)."
            )
        print(f"built {variant.id}", flush=True)


def bind(root: Path, name: str, work: Workload, inputs: Any, outputs: Any) -> Any:
    return cute_sm90.bind(LoadedBuild(folder(root, name.removesuffix(AGAIN))), work, inputs, outputs)


def times(
    root: Path, work: Workload, names: list[str], turns: int = groups.TURNS, alike: bool = False
) -> dict[str, dict[str, float]]:
    """Warm and cold microseconds of a call of each build, in turn; `plan_us` and `plan_cold_us` where it has a plan.

    `alike`: the builds take the same arguments, and all get those of the first, tensors and all.
    """
    import torch

    inputs, outputs, stream = make_inputs(work, 1, "cuda"), make_outputs(work, "cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    runners = {name: bind(root, name, work, inputs, outputs) for name in names}
    if alike:
        arguments = runners[names[0]].enqueue.arguments
        for name, runner in runners.items():
            runners[name] = replace(runner, enqueue=replace(runner.enqueue, arguments=arguments))
    timed = {name: groups.timed(runner, stream) for name, runner in runners.items()}
    groups.in_turn(timed, stream, turns)
    found: dict[str, dict[str, float]] = {}
    for name, one in timed.items():
        found[name] = {"warm_us": statistics.median(one.warm), "cold_us": statistics.median(one.cold)}
        if one.runner.plan:
            found[name] |= plan_times(one.runner, stream)
    return found


def plan_times(runner: Any, stream: Any) -> dict[str, float]:
    from cutesnake.stages.measure.clock import Stamper
    from cutesnake.stages.measure.plan_time import time_plan

    found = time_plan(runner, stream, Stamper())
    return {"plan_us": found["plan_us"], "plan_cold_us": found["plan_cold_us"]}


def check_plan(root: Path, work: Workload, name: str) -> None:
    """The tables that the card writes over others are the host's, entry for entry. Ends with one line if not."""
    import torch

    inputs, outputs, stream = make_inputs(work, 1, "cuda"), make_outputs(work, "cuda"), torch.cuda.Stream()
    runner = cute_sm90.bind(LoadedBuild(folder(root, name)), work, inputs, outputs)
    tables = runner.enqueue.arguments[5:8]  # type: ignore[attr-defined]
    want = [table.clone() for table in tables]
    for table in tables:
        table.fill_(-7)
    torch.cuda.synchronize()
    runner.plan(stream.cuda_stream)  # type: ignore[misc]
    stream.synchronize()
    asked = int(want[1][-1])  # items; nothing is written behind them
    for table, other, title in zip(tables, want, ("items", "offsets", "merges"), strict=True):
        rows = asked if title == "items" else len(table)
        if not bool((table[:rows] == other[:rows]).all()):
            sys.exit(f"{name}, {work.id}: the {title} that the card wrote are not the host's; nothing was timed")


def measure_plan(root: Path) -> Iterator[dict[str, Any]]:
    for kind in KINDS:
        for work in CHECKED:
            check_plan(root, work, f"bf16_{kind}_planned")
    for work in PLANS:
        plain = next(one.id for one in choice.variants(work) if choice.has_another(one))
        found = times(root, work, [plain, f"{plain}_planned"])
        by_host, by_card = found[plain], found[f"{plain}_planned"]
        yield {
            "workload": work.id,
            "variant": plain,
            "plan, warm": by_card["plan_us"],
            "plan, cold": by_card["plan_cold_us"],
            "call, host's schedule": by_host["warm_us"],
            "call, fixed tables": by_card["warm_us"],
            "ratio": by_card["warm_us"] / by_host["warm_us"],
        }


def measure_padding(root: Path) -> Iterator[dict[str, Any]]:
    for work in PADDED:
        plain = next(one.id for one in choice.variants(work) if choice.has_another(one))
        names = [plain, f"{plain}{AGAIN}", f"{plain}_{TRUSTED}", f"{plain}_{TRUSTED}{AGAIN}"]
        found = times(root, work, names, PADDED_TURNS, alike=True)
        trusted = found[f"{plain}_{TRUSTED}"]["warm_us"]
        yield {
            "workload": work.id,
            "variant": plain,
            "let through": trusted,
            "let through, again": found[f"{plain}_{TRUSTED}{AGAIN}"]["warm_us"],
            "kept out": found[plain]["warm_us"],
            "kept out, again": found[f"{plain}{AGAIN}"]["warm_us"],
            "kept out / let through": found[plain]["warm_us"] / trusted,
        }


def measure_all(root: Path) -> Iterator[dict[str, Any]]:
    for group, workloads in groups.GROUPS.items():
        for work in workloads:
            names = [variant.id for variant in cute_sm90.variants(work, "sm_90a") if variant.id in plain_names()]
            found = times(root, work, names)
            best = min(found, key=lambda name: found[name]["warm_us"])
            default = found[names[0]]
            yield {
                "group": group,
                "workload": work.id,
                "default": names[0],
                "warm": default["warm_us"],
                "cold": default["cold_us"],
                "best": best,
                "behind, %": 100 * (default["warm_us"] / found[best]["warm_us"] - 1),
            }


def plain_names() -> set[str]:
    return {f"bf16_{kind}" for kind in (*KINDS, *PLAIN)}


def table(rows: list[dict[str, Any]]) -> str:
    """Rows in Markdown; figures with as many digits as are worth reading."""
    if not rows:
        return "none"
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [
        [
            f"{v:.3g}" if isinstance(v, float) and v < 10 else f"{v:.1f}" if isinstance(v, float) else v
            for v in row.values()
        ]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def main(root: Path) -> None:
    """Measure and print. Ends with one line where no card of sm_90 is visible."""
    import torch

    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        sys.exit("no H100 or H200 is visible here: nothing was measured; the builds in the folder can be carried over")
    began = time.monotonic()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    print(f"## {found['device']}\n\nMicroseconds.\n")
    for title, measured in (("plan", measure_plan), ("padding", measure_padding), ("times", measure_all)):
        found[title] = list(measured(root))
        if title == "times":
            behind = [row for row in found[title] if row["behind, %"] > groups.RULE_PERCENT]
            print(
                f"### rule\n\n{len(found[title]) - len(behind)} of {len(found[title])} within 3 %.\n\n{table(behind)}\n"
            )
        print(f"### {title}\n\n{table(found[title])}\n", flush=True)
        draft = root / "next_card.json.tmp"
        draft.write_text(json.dumps(found, indent=1))
        draft.replace(root / "next_card.json")
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--build"]):
        sys.exit(__doc__)
    build(Path(sys.argv[1]))
    if not sys.argv[2:]:
        main(Path(sys.argv[1]))
