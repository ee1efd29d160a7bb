"""Whether a time measured while another card of the machine is measured, too, is that of the card alone.

    python benchmarks/workflow/cards_times.py FOLDER [rounds]

Measures the cases of `cards_times.txt` (for sm_90a) `rounds` (3) times over: on two cards at once, then those that
the first card has had on the first alone, and those of the second on the second alone. So each case is held against
itself on the same card, minutes apart, and what two cards of one make differ by does not come in. The cases are those
six of `cards_h200.json` that differed by more than 1.5 % in something, and twelve of the others. Of each figure of
each case it takes the median of the rounds' ratios. How far two lone measurements of a case on one card lie apart in
two of the rounds stands beside it: no ratio can be nearer to 1 than that. Where the power limit holds a case back its
time follows the clock that the card has in that minute; of these time times clock is compared as well.

It needs what `cards.py` needs. FOLDER gets `times.json`, what is said below, and the logs and records of all runs.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import cards

from cutesnake.planning import machine

CASES = Path(__file__).parent / "cards_times.txt"


def by_card(run: dict[str, Any]) -> dict[str, list[str]]:
    """Keys of a run's cases by the card that has timed them."""
    found: dict[str, list[str]] = {}
    for job in run["each"]:
        if job["stage"] == "timing":
            found.setdefault(job["card"], []).append(job["case"])
    return found


def said(differences: cards.Times) -> dict[str, Any]:
    """How many of the differences, in percent, are beyond what counts as alike, which, and how far they lie apart."""
    beyond = {f"{case}, {figure}": round(value, 2) for (case, figure), value in sorted(differences.items())}
    beyond = {key: value for key, value in beyond.items() if abs(value) > cards.ALIKE_PERCENT}
    return {
        "figures": len(differences),
        f"beyond {cards.ALIKE_PERCENT} %": len(beyond),
        "median": round(statistics.median(differences.values()), 3) if differences else None,
        "largest": round(max(map(abs, differences.values()), default=0.0), 2),
        "which": beyond,
    }


def compared(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Times beside the other card against those alone, by the median of the rounds and in each; where the power limit
    held a case back in both, its time by its clock too."""
    both = [cards.times(one["together"]) for one in rounds]
    alone = [cards.times(*one["alone"].values()) for one in rounds]
    each = [cards.percent(*pair) for pair in zip(both, alone, strict=True)]
    by_clock = [cards.percent(cards.cycles(one["together"]), cards.cycles(*one["alone"].values())) for one in rounds]
    found = {"median of the rounds": said(medians(each))}
    if limited := medians(by_clock):
        there = {key: value for key, value in medians(each).items() if key in limited}
        found |= {"at the power limit": said(there), "at the power limit, time times clock": said(limited)}
    found |= {f"round {number}": said(one) for number, one in enumerate(each, 1)}
    where = [{case: card for card, cases in by_card(one["together"]).items() for case in cases} for one in rounds]
    for first, second in itertools.combinations(range(len(rounds)), 2):
        moved = {case for case in where[first] if where[first][case] != where[second].get(case)}
        same = {key: value for key, value in cards.percent(alone[second], alone[first]).items() if key[0] not in moved}
        if same:
            found[f"alone, round {second + 1} against round {first + 1}, the same card"] = said(same)
    return found


def medians(rounds: list[cards.Times]) -> cards.Times:
    """Of what all rounds have."""
    keys = set.intersection(*(set(one) for one in rounds))
    return {key: statistics.median(one[key] for one in rounds) for key in keys}


def one_round(folder: Path, devices: dict[str, str], keys: list[str]) -> dict[str, Any]:
    together = cards.run(folder / "together", ",".join(devices.values()), keys)
    alone = {
        card: cards.run(folder / f"alone_{devices[card]}", devices[card], cases)
        for card, cases in by_card(together).items()
    }
    return {"together": together, "alone": alone}


def main(folder: str, rounds: str = "3") -> None:
    out = Path(folder).resolve()
    out.mkdir(parents=True, exist_ok=True)
    devices = {card.uuid_hash: str(card.index) for card in machine.probe().alike()[:2]}
    if len(devices) < 2:
        sys.exit("there are no two cards alike on this machine, or CUDA_VISIBLE_DEVICES does not name them")
    keys, done = CASES.read_text().split(), []
    cards.run(out / "warm", ",".join(devices.values()), keys[:: max(1, len(keys) // cards.WARM_UP)])
    for number in range(int(rounds)):
        done.append(one_round(out / f"round_{number + 1}", devices, keys))
        found = compared(done)
        (out / "times.json").write_text(json.dumps({"compared": found, "rounds": done}, indent=1))
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
