"""Results of a run as one table for pandas."""

from pathlib import Path
from typing import Any


def read_results(folder: Path | str = "results") -> Any:
    """Return a DataFrame with a row per kernel, workload, target and device of all operators.

    folder: results of a run, or the site. Columns: `operator` and the columns of `compare/<operator>.csv`. Raises
    FileNotFoundError if no table exists.
    """
    import pandas

    files = sorted(Path(folder, "compare").glob("*.csv"))
    if not files:
        raise FileNotFoundError(f"{folder}/compare: no table; run snakemake first")
    frames = [pandas.read_csv(file) for file in files]
    for file, frame in zip(files, frames, strict=True):
        if "operator" not in frame:
            frame.insert(0, "operator", file.stem)
    return pandas.concat(frames, ignore_index=True)


def write_results(frame: Any, folder: Path | str) -> None:
    """Write a DataFrame of `read_results` as `results.csv` and `results.parquet` into a folder."""
    import fastparquet  # 16 MB installed with cramjam, pyarrow 170

    frame.to_csv(Path(folder, "results.csv"), index=False)
    fastparquet.write(str(Path(folder, "results.parquet")), frame, write_index=False)
