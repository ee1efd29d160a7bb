"""Shipped bugs of GPU kernels, each as a small kernel before and after its fix.

python -m ptxsim.museum                  # run all pairs and print what was found
python -m ptxsim.museum NAME             # print one kernel as a diff, and the findings before and after
python -m ptxsim.museum --json FILE      # write a record per pair
"""

from importlib import import_module
from pkgutil import iter_modules

from ptxsim.museum import bugs
from ptxsim.museum.exhibit import AREAS, CHECKED, Exhibit

__all__ = ["AREAS", "CHECKED", "Exhibit", "exhibits"]


def exhibits() -> dict[str, Exhibit]:
    """Return all exhibits by name, in alphabetical order."""
    names = sorted(module.name for module in iter_modules(bugs.__path__))
    return {name: import_module(f"{bugs.__name__}.{name}").EXHIBIT for name in names}
