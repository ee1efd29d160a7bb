"""Who wrote and tuned a kernel, from kernels/authors.yaml."""

from functools import lru_cache
from pathlib import Path

import msgspec

from cutesnake.model.catalog import ContractError, load_kernel, users_own
from cutesnake.model.contract import OWN
from cutesnake.model.paths import ROOT
from cutesnake.model.records.common import Part, Positive
from cutesnake.model.records.verdict import Author
from cutesnake.planning import strict_yaml

FILE = ROOT / "kernels/authors.yaml"


class Known(Part):
    """Author of all kernels of a source."""

    name: str
    work: str


class Design(Part):
    """Documented versions of a kernel."""

    versions: Positive
    evidence: str


class AuthorsFile(Part):
    """kernels/authors.yaml."""

    sources: dict[str, Known]
    packages: dict[str, Known]
    dsls: dict[str, Known]
    kernels: dict[str, Design]


@lru_cache(maxsize=1)
def read_authors(path: Path = FILE) -> AuthorsFile:
    """Read and check the file of authors."""
    return msgspec.convert(strict_yaml.read(path), AuthorsFile)


def author(operator: str, kernel: str, dsl: str, source: str) -> Author:
    """Return who wrote and tuned a kernel."""
    known = read_authors()
    if source == OWN and users_own(operator, kernel):
        return Author("the user", "from a folder outside this repository", None)
    result = known.dsls.get(dsl) or known.sources.get(source)
    if result is None:
        packages = _packages(operator, kernel)
        result = next((known.packages[name] for name in packages if name in known.packages), None)
        result = result or Known(", ".join(packages) or source, "as installed")
    design = known.kernels.get(f"{operator}/{kernel}")
    versions, evidence = (design.versions, design.evidence) if design else (None, None)
    return Author(result.name, result.work, versions, evidence)


def _packages(operator: str, kernel: str) -> list[str]:
    try:
        return list(getattr(load_kernel(operator, kernel), "NEEDS", {}).values())
    except (ContractError, ValueError):
        return []
