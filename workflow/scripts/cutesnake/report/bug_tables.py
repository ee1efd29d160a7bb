"""Tables of shipped bugs (benchmarks/museum) and of planted ones (benchmarks/planted), from their records."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import yaml

from cutesnake.model.paths import ROOT

FOLDER, PLANTED = ROOT / "benchmarks/museum", ROOT / "benchmarks/planted"
CHECKED = ("ordering", "fence", "hang", "bounds")
NEAR = 20  # lines
AUTHORS = {"ours": "this project", "flashinfer-python": "NVIDIA, CUTLASS examples", "tilegym": "NVIDIA, TileGym"}


class Planted(msgspec.Struct, kw_only=True, rename={"caught": "found"}):
    """A planted bug; distance: lines from the edit to the finding, None if missed."""

    caught: bool | str
    distance: int | None

    @property
    def near(self) -> bool:
        """Say whether the finding is near the edit."""
        return self.distance is not None and self.distance <= NEAR


class Bug(Planted, kw_only=True, rename={"caught": "found", "source": "from"}):
    """A shipped bug; after: findings with the fix, distance: from its lines."""

    title: str
    upstream: list[str]
    area: str
    source: str
    missed: str
    kinds: list[str]
    schedule: str
    after: list[str]
    explained: str = ""

    @property
    def reported(self) -> str:
        """Return the kinds of findings, and a schedule that is not the first."""
        return ", ".join(self.kinds) + ("" if self.schedule == "eager" else f" under `{self.schedule}`")


def records(folder: Path = FOLDER) -> dict[str, Bug]:
    """Return the records of all cases by name."""
    files = [msgspec.json.decode(path.read_bytes(), type=dict[str, Bug]) for path in sorted(folder.glob("*.json"))]
    return {name: bug for file in files for name, bug in file.items()}


def bugs(part: str) -> str:
    """Return one table of cases: missed, found, or with findings after the fix."""
    parts = {
        "missed": lambda x: not x.caught,
        "found": lambda x: x.caught,
        "after": lambda x: x.after or x.explained,
    }
    chosen = {name: x for name, x in records().items() if parts[part](x)}
    if part == "after":
        rows = [[f"`{name}`", "; ".join(x.after) or "known faults only", x.explained] for name, x in chosen.items()]
        return _table(("case", "findings after the fix", "explanation"), rows)
    rows = []
    for name, x in sorted(chosen.items(), key=lambda item: (item[1].source, item[0])):
        links = ", ".join(f"[{_short(url)}]({url})" for url in x.upstream)
        rows.append([f"`{name}`", x.title, links, x.missed if part == "missed" else x.reported])
    return _table(("case", "bug", "fix, report or code", "why" if part == "missed" else "reported as"), rows)


def bugs_summary() -> str:
    """Return counts per area."""
    every = records()
    rows = []
    areas = [*CHECKED, *sorted({x.area for x in every.values()} - set(CHECKED))]
    groups = [(area, [x for x in every.values() if x.area == area]) for area in areas]
    groups.append(("first four areas", [x for x in every.values() if x.area in CHECKED]))
    for area, group in groups:
        wheels, caught = sum(x.source == "wheels" for x in group), sum(bool(x.caught) for x in group)
        numbers = (len(group), wheels, caught, sum(x.near for x in group), sum(not x.after for x in group))
        rows.append([area, *map(str, numbers)])
    near = f"found within {NEAR} lines of the fix"
    header = ("area", "cases", "from wheels", "found", near, "nothing new after the fix")
    return _table(header, rows)


def planted_bugs(part: str) -> str:
    """Count planted bugs, or say why some were missed; ValueError without reason."""
    listed = yaml.safe_load((PLANTED / "bugs.yaml").read_text())
    results = msgspec.json.decode((PLANTED / "results.json").read_bytes(), type=dict[str, Planted])
    real = {name: x for name, x in results.items() if x.caught or name not in listed["harmless"]}
    why = {name: reason for reason, names in listed["missed"].items() for name in names}
    missed = [name for name, x in real.items() if not x.caught]
    if unexplained := set(missed) ^ set(why):
        raise ValueError(f"bugs.yaml: missed does not agree with results.json: {', '.join(sorted(unexplained))}")
    if part == "missed":
        return _table(
            ("why missed", "bugs"), ([reason, str(n)] for reason, n in Counter(why[name] for name in missed).items())
        )
    rows = []
    for author, own in (("NVIDIA", False), ("this project", True)):
        names = [name for name, (_, kernel, *_) in listed["kernels"].items() if kernel.startswith("cute_") == own]
        of = [x for name, x in real.items() if name.partition(":")[0] in names]
        numbers = (len(names), len(of), sum(bool(x.caught) for x in of), sum(x.near for x in of))
        rows.append([author, *map(str, numbers)])
    header = ("kernels of", "kernels", "bugs", "found", f"within {NEAR} lines")
    return _table(header, rows)


def _short(url: str) -> str:
    """Return repository and number, commit or tag of an address."""
    repository, *rest = url.removeprefix("https://github.com/").split("/")[1:]
    kind, name = (*rest, "", "")[:2]
    if kind in ("pull", "issues"):
        return f"{repository}#{name}"
    return f"{repository}@{name[:9] if kind == 'commit' else name}"


def _table(header: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (header, *rows))
    return "\n".join([first, "|---" * len(header) + "|", *others])


def findings_on_right_kernels() -> str:
    """Return builds with right outputs in the recorded simulated checks, and those with findings."""
    builds: dict[tuple[str, str], list[bool]] = {}
    for path in sorted((ROOT / "recorded/builds").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            build = json.loads(line)
            source = build["records"]["compile"]["source"]
            for x in build["records"].values():
                checks = (x.get("metrics") or {}).get("checks", []) if x.get("backend") == "ptxsim" else []
                if checks and all(output["passed"] for check in checks for output in check["outputs"].values()):
                    reported = any(check["findings"] for check in checks)
                    builds.setdefault((source, build["build"]), []).append(reported)
    rows = []
    for source in sorted({source for source, _ in builds}):
        of = {name: reported for (author, name), reported in builds.items() if author == source}
        kernels = {name.rsplit("/", 2)[0] for name in of}
        runs = sum(map(len, of.values()))
        rows.append([AUTHORS.get(source, source), *map(str, (len(kernels), len(of), runs, sum(map(any, of.values()))))])
    return _table(("written by", "kernels", "builds", "workloads", "builds with findings"), rows)
