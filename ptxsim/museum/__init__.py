"""Shipped bugs of GPU kernels, each as a small kernel before and after its fix.

python -m ptxsim.museum                  # run all pairs and print what was found
python -m ptxsim.museum NAME             # print one kernel as a diff, and the findings before and after
python -m ptxsim.museum --json FILE      # write a record per pair
"""

from pathlib import Path

from ptxsim.museum.exhibit import AREAS, CHECKED, Exhibit

__all__ = ["AREAS", "CHECKED", "Exhibit", "exhibits"]

BUGS = Path(__file__).parent / "bugs"


def exhibits() -> dict[str, Exhibit]:
    """Return all exhibits by name, in alphabetical order."""
    return {path.stem: Exhibit.read(path) for path in sorted(BUGS.glob("*.toml"))}
