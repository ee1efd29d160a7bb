"""Tables of predictions against measurements, from the lines that `predict.py` wrote.

python -m benchmarks.prediction.table workflow/validation/*.jsonl          # the summary, in Markdown
python -m benchmarks.prediction.table workflow/validation/*.jsonl --rows   # and every row
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read(paths: Iterable[Path]) -> list[Row]:
    """Return the rows of some files, each with the file's name as its `set`."""
    return [json.loads(line) | {"set": path.stem} for path in paths for line in path.read_text().splitlines()]


def error_percent(row: Row) -> float:
    """Predicted against measured: positive where the prediction is too slow."""
    return 100.0 * (float(row["predicted_us"]) / float(row["measured_us"]) - 1.0)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of them do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summary(rows: Sequence[Row]) -> list[str]:
    """Summarize errors: count, median, ninetieth percentile, mean, maximum, and signed median."""
    good = [row for row in rows if row["predicted_us"] is not None]
    failed = len(rows) - len(good)
    if not good:
        return ["0", "-", "-", "-", "-", "-", str(failed)]
    errors = [error_percent(row) for row in good]
    sizes = [abs(error) for error in errors]
    figures = [statistics.median(sizes), percentile(sizes, 0.9), statistics.mean(sizes), max(sizes)]
    return [str(len(good)), *(f"{figure:.1f}" for figure in figures), f"{statistics.median(errors):+.1f}", str(failed)]


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


HEADER = ("rows", "median %", "90th percentile %", "mean %", "worst %", "signed median %", "not predicted")


def by(rows: Sequence[Row], key: Callable[[Row], str]) -> list[list[str]]:
    names = sorted({key(row) for row in rows})
    return [[name, *summary([row for row in rows if key(row) == name])] for name in names]


def tables(rows: Sequence[Row]) -> str:
    """Return tables by set (source file), by family, by GPU and sample kind."""
    lines = [
        [name, *summary([row for row in rows if row["set"] == name])]
        for name in dict.fromkeys(row["set"] for row in rows)
    ]
    out = [markdown(("set", *HEADER), lines)]
    out.append(markdown(("family", *HEADER), by(rows, lambda row: f"{row['operator']} / {row['kernel']}")))
    out.append(markdown(("card, samples", *HEADER), by(rows, lambda row: f"{row['device']}, {row['kind']}")))
    return "\n\n".join(out)


def all_rows(rows: Sequence[Row]) -> str:
    header = ("case", "card", "samples", "SM MHz", "measured µs", "predicted µs", "error %")
    lines = []
    for row in rows:
        name = f"{row['operator']}/{row['kernel']}/{row['variant']}/{row['workload']}"
        cells = [name, row["device"], row["kind"], str(row["sm_clock_mhz"]), f"{row['measured_us']:.1f}"]
        if row["predicted_us"] is None:
            cells += ["-", str(row["error"])]
        else:
            cells += [f"{row['predicted_us']:.1f}", f"{error_percent(row):+.1f}"]
        lines.append(cells)
    return markdown(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--rows", action="store_true", help="every row too")
    options = parser.parse_args()
    rows = read(options.files)
    print(tables(rows))
    if options.rows:
        print("\n" + all_rows(rows))


if __name__ == "__main__":
    main()
