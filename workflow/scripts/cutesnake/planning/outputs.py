"""Find missing, damaged and stale results before the graph is built, with reasons.

Every record and page has its provenance (`model/provenance.py`). It is compared with what the result would be made from
now: by content, so that dates, copies and links decide nothing. Current results are remembered with stamps of their
files and a digest of their inputs. A run with nothing to do then only reads stamps.
"""

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutesnake.model import paths, provenance, record
from cutesnake.model.case_id import CaseId
from cutesnake.model.catalog import roots
from cutesnake.model.dsls import DSLS
from cutesnake.model.paths import ROOT
from cutesnake.planning import installed, looked_at
from cutesnake.planning.looked_at import memory, stamp
from cutesnake.planning.staleness import digest_data, digest_files

KIND, SEEN = "products", "seen"  # of the memory
SHOWN = 3  # findings that a line names
CODE = {"workflow": "the workflow's code", "ptxsim": "the code of ptxsim"}
# Stages that make a folder, with the record that stands for it.
FOLDERS = {"plot": "pictures.json", "overview": "pictures.json", "anatomy": "anatomy.json"}
NO_WORD = "it does not say what it was made from"

Recipe = Mapping[str, Any]  # code, params: name -> digest; versions: distribution -> version, None if not installed
Problem = tuple[str, str]  # kind (damaged, stale, missing), the reason


@dataclass(frozen=True)
class Product:
    """What a job makes, named by its first output, and what it is made from."""

    path: str  # a record, a page or a folder; other products name it as what they read
    stage: str  # named like the schema of its record
    recipe: Callable[[], Recipe]
    reads: tuple[str, ...] = ()  # results and files of the project, as in the rule's input
    others: tuple[tuple[str, str], ...] = ()  # (path, stage) of records and pages that the same job writes
    linked: tuple[str, ...] = ()  # pages of other jobs, for which the job writes placeholders
    limit_s: float | None = None  # of the time that it is given
    spare: bool = False  # nothing that was made from it needs it any more

    def __post_init__(self) -> None:
        object.__setattr__(self, "recipe", functools.cache(self.recipe))

    @property
    def named(self) -> dict[str, str]:
        """What it reads, by the names that records have for files."""
        return {provenance.name_of(path): path for path in self.reads}

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths of the product's files."""
        return self.path, *(path for path, _ in self.others)


def recipe(code: Mapping[str, str], distributions: Iterable[str] = (), **params: Any) -> Recipe:
    """Return a job's inputs besides files: code by name, distributions, parameters."""
    return {
        "code": dict(sorted(code.items())),
        "params": {name: digest_data(value) for name, value in params.items()},
        "versions": {name: installed.version(name) for name in sorted(distributions)},
    }


@dataclass
class Findings:
    """Products to make again by reason, and those that no user's change explains."""

    why: dict[str, str] = field(default_factory=dict)
    unexplained: list[str] = field(default_factory=list)
    followed: set[str] = field(default_factory=set)  # of them, what follows from another one

    def damage(self) -> str | None:
        """One line on what is missing or damaged."""
        if not self.unexplained:
            return None
        return f"made again, with what follows: {_some([f'{path} ({self.why[path]})' for path in self.unexplained])}"

    def staleness(self) -> str | None:
        """One line on what is stale, and why; what only follows is not counted."""
        stale = [path for path in self.why if path not in self.followed and path not in self.unexplained]
        stale = [path for path in stale if self.why[path] not in (FORCED, MISSING)]
        if not stale:
            return None
        reasons = list(dict.fromkeys(self.why[path] for path in stale))
        return f"{len(stale)} stale, made again with what follows: {_some(reasons)}"


FOLLOWS, FORCED, MISSING = "made from ", "forced", "missing"


def look(products: Iterable[Product], forced: Callable[[Product], bool] = lambda product: False) -> Findings:
    """Look at all products in their order, each after those that it reads."""
    products, result = list(products), Findings()
    makers = {path: product for product in products for path in product.paths}
    there: set[str] = set()  # products, by their paths
    for product in products:
        if not os.path.lexists(product.path):
            continue
        if product.stage == "page" and provenance.is_placeholder(product.path):
            result.why[product.path] = MISSING
            continue
        there.add(product.path)
        before = [maker for path in product.reads if (maker := makers.get(path)) and not maker.spare]
        missing = next((maker.path for maker in before if maker.path not in there), None)
        again = next((maker.path for maker in before if maker.path in result.why), None)
        if missing is not None:
            result.why.setdefault(missing, MISSING)
            if missing not in result.unexplained and knows(missing):
                result.unexplained.append(missing)
        kind, why = _problem(product) or (None, "")
        if kind == "damaged":
            result.why[product.path] = why
            result.unexplained.append(product.path)
        elif missing is not None or again is not None:
            what = f"{missing}, which is missing" if missing else f"{again}, which is made again"
            result.why[product.path] = f"{FOLLOWS}{what}"
            result.followed.add(product.path)
        elif kind is not None:
            result.why[product.path] = why
        elif forced(product):
            result.why[product.path] = FORCED
    _look_at_spare(products, result)
    return result


def forced_by(arguments: Iterable[str]) -> set[str]:
    """Return rules and files that a command line reruns with `--forcerun`."""
    result, taking = set(), False
    for argument in arguments:
        name, sign, value = argument.partition("=")
        if argument.startswith("-"):
            taking = name in ("-R", "--forcerun")
            result |= {value} if taking and sign else set()
        elif taking:
            result.add(argument)
    return result


def knows(path: str) -> bool:
    """Whether a product was there at the end of a run, or was looked at."""
    return any(memory().knows(kind, path) for kind in (KIND, SEEN))


def remember(products: Iterable[Product]) -> None:
    """Note at the end of a run which files exist, to detect later losses."""
    for product in products:
        if not knows(product.path) and os.path.lexists(product.path):
            memory().entries.setdefault(SEEN, {})[product.path] = []
            memory().changed = True
    memory().save()


def _look_at_spare(products: Iterable[Product], result: Findings) -> None:
    """Report a missing spare product only if its folder exists without it."""
    for product in products:
        gone = product.spare and not os.path.lexists(product.path)
        if gone and os.path.isdir(os.path.dirname(product.path)) and knows(product.path):
            result.why[product.path] = MISSING
            result.unexplained.append(product.path)


def _problem(product: Product) -> Problem | None:
    """Return what is wrong with an existing product, None if it is current."""
    expected = _expected(product)
    known = memory().entries.get(KIND, {}).get(product.path)
    if known is not None and known[0] == expected and _unchanged(known[1]) and _opened_same(known[2]):
        memory().used.add((KIND, product.path))
        return None
    recipe = product.recipe()
    try:
        stamps, made = _whole(product)
    except FileNotFoundError as error:
        return "damaged", f"{Path(error.filename or product.path).name} is missing"
    except OSError as error:
        return "damaged", f"{Path(error.filename or product.path).name}: {error.strerror or error}"
    except ValueError as error:
        message = str(error).removeprefix(f"{product.path}: ").removesuffix("; delete it and run again")
        return "damaged", message
    why = difference(made, recipe, product.named, product.limit_s)
    if why is not None:
        return "stale", why
    opened = (made or {}).get("opened", {})
    memory().entries.setdefault(KIND, {})[product.path] = [expected, stamps, opened]
    memory().used.add((KIND, product.path))
    memory().changed = True
    return None


def difference(
    made: Mapping[str, Any] | None, recipe: Recipe, files: Mapping[str, str], limit_s: float | None = None
) -> str | None:
    """Describe how a result's provenance differs from its present inputs; None if equal.

    files: name -> path of what the job would be given. A distribution that is not installed here is not compared:
    builds are taken to machines without their compilers.
    """
    if made is None:
        return NO_WORD
    for name, version in recipe["versions"].items():
        before = made["versions"].get(name)
        if version is not None and before != version:
            return f"{name} {before or 'not installed'} → {version}"
    for name in sorted(recipe["code"].keys() | made["code"].keys()):
        if recipe["code"].get(name) != made["code"].get(name):
            return f"{CODE.get(name, name)} changed"
    for name in sorted(recipe["params"].keys() | made["params"].keys()):
        if recipe["params"].get(name) != made["params"].get(name):
            return f"its {name} changed"
    if added := sorted(files.keys() - made["files"].keys()):
        return f"{FOLLOWS}{_number(added)} less than now"
    if removed := sorted(made["files"].keys() - files.keys()):
        return f"{FOLLOWS}{_number(removed)} that no longer count"
    for name, path in files.items():
        now = content_of(path)
        if now is not None and made["files"][name] != now:
            return f"{FOLLOWS}another {name}" if name.startswith("results/") else f"{name} changed"
    for name, digest in made.get("opened", {}).items():
        if content_of(path_of(name)) != digest:
            return f"{name} changed"
    if limit_s is not None and (made.get("limit_s") or limit_s) < limit_s:
        return f"the time limit was {made['limit_s']:g} s and is {limit_s:g} s"
    return None


def carried(results: Path, packages: Mapping[str, str | None]) -> frozenset[str]:
    """Return builds on disk that a machine without their compiler uses as they are.

    They are named `operator/kernel/target`. packages: distribution -> version, None if it is not installed here.
    """
    if all(packages.get(name) for dsl in DSLS.values() for name in dsl.build_packages):
        return frozenset()
    return frozenset(CaseId.parse(path).family for path in (results / "compile").glob("*/*/*/*/build.json"))


def content_of(path: str | Path) -> str | None:
    """Digest a file or folder's record, Python by meaning; None if missing."""
    name = str(path)
    if name.endswith(".py"):
        return digest_files([Path(name)]) if os.path.isfile(name) else None
    return looked_at.digest(str(provenance.record_of(name)))


def path_of(name: str) -> Path:
    """Return the file that a record names so, see `provenance.name_of`."""
    if name.startswith("kernels/"):
        result = (root / name.removeprefix("kernels/") for root in roots())
        return next((path for path in result if path.exists()), ROOT / name)
    return Path(name) if name.startswith("results/") else ROOT / name


def _expected(product: Product) -> str:
    """Digest of all that a product depends on, as it is now."""
    files = [(path, content_of(path)) for path in product.reads]
    return digest_data([product.recipe(), files, product.limit_s, _schemas()])


def _unchanged(stamps: Mapping[str, str]) -> bool:
    try:
        return all(stamp(path) == before for path, before in stamps.items())
    except OSError:
        return False


def _opened_same(opened: Mapping[str, str | None]) -> bool:
    return all(content_of(path_of(name)) == digest for name, digest in opened.items())


def _whole(product: Product) -> tuple[dict[str, str], dict[str, Any] | None]:
    """Return a product's stamps and provenance; OSError or ValueError if damaged or missing."""
    made, stamps = None, {}
    for place, (path, stage) in enumerate(((product.path, product.stage), *product.others)):
        for file, result in _files(Path(path), stage):
            stamps[str(file)] = stamp(file)
            if place == 0 and result is not None:
                made = result
    for path in product.linked:
        stamps[path] = stamp(path)
        provenance.read_page(Path(path))
    return stamps, made


def _files(path: Path, stage: str) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    """Yield the checked files of a record, page or folder; first with provenance."""
    if path.suffix == ".html":
        made = provenance.read_page(path)
        yield path, made
        yield from _named(path.parent, (made or {}).get("made", {}))
    elif stage in FOLDERS or path.suffix == ".json":
        yield from _files_of_record(path / FOLDERS[stage] if stage in FOLDERS else path, stage)
    else:
        provenance.check_regular(path)
        yield path, None


SCHEMAS = {"overview": "plot", "anatomy": "anatomy_index"}


def _files_of_record(path: Path, stage: str) -> Iterator[tuple[Path, dict[str, Any] | None]]:
    provenance.check_regular(path)
    entry, made = record.read_whole(SCHEMAS.get(stage, stage), path)
    if made is not None and entry.get("limit_s"):
        made = {**made, "limit_s": entry["limit_s"]}
    yield path, made
    files = entry["files"] if stage in ("compile", "fetch") else (made or {}).get("made", {})
    yield from _named(path.parent, files)


def _named(folder: Path, files: Mapping[str, str]) -> Iterator[tuple[Path, None]]:
    """Yield the files that a record or page names with their digests."""
    for name, digest in files.items():
        file = Path(name) if name.startswith("results/") else folder / name
        provenance.check_regular(file)
        with file.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise ValueError(f"{file.name} is not the file that was made: its sha256 differs")
        yield file, None


def _some(findings: list[str]) -> str:
    rest = [f"{len(findings) - SHOWN} more"] if len(findings) > SHOWN else []
    return "; ".join([*findings[:SHOWN], *rest])


def _number(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} files ({names[0]}, …)"


@functools.cache
def _schemas() -> str:
    """Digest the types of records: fitting an older type is checked again."""
    texts = (path.read_bytes() for path in sorted(paths.SCHEMAS.glob("*.json")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:16]
