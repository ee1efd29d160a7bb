"""Fetch stage: the listed files of a pinned wheel, checked before unpacking.

A wheel comes from the folder named by CUTESNAKE_WHEELS or from results/fetch/wheels/ when it lies there, else from
the user's package index through pip. No module of the wheel is imported and no set-up code of it runs.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from cutesnake.model import record
from cutesnake.model.inputs import InputError, check_input
from cutesnake.planning import strict_yaml

RECORD = "fetched.json"
MANIFEST = ".fetched.json"  # a second copy: Snakemake deletes a rule's output before it runs the rule again
MOST_BYTES = 64 << 20  # that the chosen files of a wheel unpack to; today's take 3 MB
MOST_FILES = 10_000
MOST_SECONDS = 1800.0  # of a download
WHEELS = "wheels"  # next to the packages: results/fetch/wheels/


class FetchError(OSError):
    """A package that cannot be had, in one line that says what would help."""


def fetch(package: str, folder: Path | str, upstream: Path | str) -> None:
    """Fetch the listed files of `package` and write `fetched.json` in `folder`.

    `upstream` is the `upstream.yaml` that pins it. The folder appears whole or not at all. Raises FetchError for an
    unknown package, a wheel that cannot be downloaded, has another sha256 than the pinned one, or lacks a listed file.
    """
    folder, pin = Path(folder), _pin(package, Path(upstream))
    if _is_fetched(pin, folder):
        if not (folder / RECORD).exists():
            entry = record.plain(record.read("fetch", folder / MANIFEST))
            record.write("fetch", folder / RECORD, entry | {"provenance": {}})
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{package}.partial-"
    for leftover in folder.parent.glob(f"{prefix}*"):  # from a killed job
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=folder.parent) as name:
        partial = Path(name)
        wheel = _offered(pin, folder.parent) or _download(package, pin, partial, folder.parent)
        _check_sha256(wheel, pin)
        unpacked = partial / "unpacked"
        files = _unpack(wheel, pin, unpacked)
        for name in (RECORD, MANIFEST):
            record.write("fetch", unpacked / name, _entry(package, pin, files))
        if folder.exists():
            folder.replace(partial / "previous")
        unpacked.replace(folder)


def fetched(package: str, root: Path | str = "results/fetch") -> Path:
    """Return a package's folder below `root`; FetchError names the command to fetch."""
    folder = Path(root) / package
    if not (folder / RECORD).exists():
        raise FetchError(f"{folder} is not there; fetch it with: snakemake --cores 1 {folder / RECORD}")
    return folder


def pins_by_file(files: Sequence[Path]) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Return each pin with its `upstream.yaml`; FetchError for a bad or repeated pin."""
    out: dict[str, tuple[Path, dict[str, Any]]] = {}
    for file in files:
        for name, pin in _pins(file).items():
            if name in out:
                raise FetchError(f"{file}: {name} is pinned in {out[name][0]} already; give this pin another name")
            out[name] = file, pin
    return out


def _pin(package: str, upstream: Path) -> dict[str, Any]:
    pins = _pins(upstream)
    if package not in pins:
        raise FetchError(f"{package!r} is not in {upstream}; it knows: {', '.join(sorted(pins))}")
    return pins[package]


def _pins(upstream: Path) -> dict[str, Any]:
    try:
        pins: dict[str, Any] = strict_yaml.read(upstream)
    except strict_yaml.YamlError as error:
        raise FetchError(str(error)) from error
    try:
        check_input("upstream", pins, upstream)
    except InputError as error:
        raise FetchError(str(error)) from error
    return pins


def _entry(package: str, pin: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    keys = ("version", "wheel", "sha256", "licence", "homepage")
    named = {key: pin[key] for key in keys} | {"listed": pin["files"], "files": files}
    return {"stage": "fetch", "status": "ok", "reason": None, "provenance": {}, "package": package, **named}


def _is_fetched(pin: dict[str, Any], folder: Path) -> bool:
    """Return whether the folder holds this pin with every file intact."""
    try:
        entry = record.plain(record.read("fetch", folder / MANIFEST))
        same = all(entry[key] == pin[key] for key in ("version", "sha256")) and entry["listed"] == pin["files"]
        return same and all(_sha256(folder / name) == digest for name, digest in entry["files"].items())
    except (OSError, record.RecordError):
        return False


def _offered(pin: dict[str, Any], root: Path) -> Path | None:
    """Return the wheel if it is already in a local folder."""
    places = [Path(os.environ["CUTESNAKE_WHEELS"])] if os.environ.get("CUTESNAKE_WHEELS") else []
    candidates = [place / pin["wheel"] for place in (*places, root / WHEELS)]
    return next((path for path in candidates if path.is_file()), None)


def _download(package: str, pin: dict[str, Any], folder: Path, root: Path) -> Path:
    """Download with this Python's pip, which follows the user's configuration."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-input"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder)]
    command.append(f"{pin['wheel'].split('-')[0]}=={pin['version']}")  # a pin may have another name than its package
    try:  # pip itself ends a download that stops for 15 seconds, but not one that trickles
        done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        raise FetchError(
            f"{package} {pin['version']} was not downloaded within {MOST_SECONDS:g} s; name a faster index, or "
            f"put {pin['wheel']} (sha256 {pin['sha256']}) into {root / WHEELS}"
        ) from None
    wheel = folder / pin["wheel"]
    if done.returncode or not wheel.is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        # Of an error that pip did not foresee, a full disk say, it prints the traceback, which ends with what it was.
        message = [line for line in lines if line.startswith("ERROR:") and line != "ERROR: Exception:"] or lines
        raise FetchError(
            f"{package} {pin['version']} could not be downloaded ({message[-1] if message else 'pip is silent'}). "
            f"Without a network, put {pin['wheel']} (sha256 {pin['sha256']}) into {root / WHEELS} or into a folder "
            "named by the environment variable CUTESNAKE_WHEELS"
        )
    return wheel


def _check_sha256(wheel: Path, pin: dict[str, Any]) -> None:
    got = _sha256(wheel)
    if got != pin["sha256"]:
        cut = "" if zipfile.is_zipfile(wheel) else ", and it is cut short or no wheel at all"
        raise FetchError(
            f"{wheel}: sha256 is {got}, expected {pin['sha256']}{cut}. Nothing of it was unpacked; "
            "delete it where you put it there yourself, and check the package index where pip downloaded it"
        )


def _unpack(wheel: Path, pin: dict[str, Any], folder: Path) -> dict[str, str]:
    """Write the listed files of the wheel below `folder`; returns {path: sha256}."""
    with zipfile.ZipFile(wheel) as archive:
        members = [name for name in archive.namelist() if not name.endswith("/")]
        chosen: set[str] = set()
        for path in pin["files"]:
            result = [name for name in members if name == path or (path.endswith("/") and name.startswith(path))]
            if not result:
                raise FetchError(f"{wheel.name} holds no {path}; correct its entry in kernels/upstream.yaml")
            chosen.update(result)
        _check_size(wheel, [archive.getinfo(name) for name in chosen])
        for name in sorted(chosen):
            pure = PurePosixPath(name)
            if pure.is_absolute() or ".." in pure.parts or "\\" in name:
                raise FetchError(f"{wheel.name}: the path {name!r} leaves the folder; nothing of it is used")
            target = folder / pure
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
    return {name: _sha256(folder / name) for name in sorted(chosen)}


def _check_size(wheel: Path, members: list[zipfile.ZipInfo]) -> None:
    """Raise FetchError for a wheel that would fill the disk, by stated sizes."""
    size = sum(member.file_size for member in members)
    if size > MOST_BYTES or len(members) > MOST_FILES:
        raise FetchError(
            f"{wheel.name}: what is listed of it unpacks to {size:,} bytes in {len(members):,} files, more than the "
            f"{MOST_BYTES:,} bytes and {MOST_FILES:,} files allowed; nothing of it was unpacked"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
