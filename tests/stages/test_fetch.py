"""Fetch: tiny wheels made here, no network."""

import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from cutesnake.model import record
from cutesnake.model.inputs import check_input
from cutesnake.model.paths import ROOT
from cutesnake.stages import fetch as stage
from cutesnake.stages.fetch import FetchError, fetch, fetched, pins_by_file

WHEEL = "tiny-1.0-py3-none-any.whl"
MEMBERS = {
    "tiny/kernel.py": "x = 1\n",
    "tiny/more/deep.py": "y = 2\n",
    "tiny/setup.py": "raise SystemExit('set-up code ran')\n",
    "tiny-1.0.dist-info/METADATA": "Name: tiny\n",
}
FOR_PIP = {
    "tiny-1.0.dist-info/RECORD": "",
    "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
LISTED = ["tiny/kernel.py", "tiny/more/"]


def make_wheel(place: Path, members: dict[str, str] = MEMBERS) -> str:
    """Write the wheel into `place`; returns its sha256."""
    place.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(place / WHEEL, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return hashlib.sha256((place / WHEEL).read_bytes()).hexdigest()


class Workplace:
    def __init__(self, root: Path) -> None:
        self.wheels = root / "fetch" / "wheels"
        self.folder = root / "fetch" / "tiny"
        self.upstream = root / "upstream.yaml"
        self.pin(make_wheel(self.wheels))

    def pin(self, sha256: str, files: list[str] = LISTED) -> None:
        entry = {"version": "1.0", "wheel": WHEEL, "sha256": sha256, "licence": "MIT", "homepage": "https://none"}
        self.upstream.write_text(yaml.safe_dump({"tiny": {**entry, "files": files}}))

    def fetch(self) -> None:
        fetch("tiny", self.folder, self.upstream)

    def files(self) -> list[str]:
        result = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(str(path.relative_to(self.folder)) for path in result)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.delenv("CUTESNAKE_WHEELS", raising=False)
    monkeypatch.setattr(stage, "_download", lambda *_: pytest.fail("asked for the network"))
    return Workplace(tmp_path)


def refuse_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real download, with a pip that finds no index."""
    monkeypatch.undo()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


def test_only_listed_files_are_unpacked(place: Workplace) -> None:
    place.fetch()
    assert place.files() == [".fetched.json", "fetched.json", "tiny/kernel.py", "tiny/more/deep.py"]
    entry = record.plain(record.read("fetch", place.folder / "fetched.json"))
    digest = hashlib.sha256(MEMBERS["tiny/kernel.py"].encode()).hexdigest()
    assert entry["files"]["tiny/kernel.py"] == digest
    assert (entry["package"], entry["version"], entry["licence"]) == ("tiny", "1.0", "MIT")
    assert [path.name for path in place.folder.parent.iterdir() if path.name.startswith(".")] == []


def test_fetched_already_needs_neither_wheel_nor_network(place: Workplace) -> None:
    place.fetch()
    (place.wheels / WHEEL).unlink()
    before = (place.folder / "fetched.json").stat().st_mtime_ns
    place.fetch()
    assert (place.folder / "fetched.json").stat().st_mtime_ns == before


def test_record_deleted_by_snakemake_comes_back_without_network(place: Workplace) -> None:
    place.fetch()
    (place.wheels / WHEEL).unlink()
    (place.folder / "fetched.json").unlink()
    place.fetch()
    record.read("fetch", place.folder / "fetched.json")


@pytest.mark.parametrize("damage", ["edited", "missing"])
def test_damaged_file_is_fetched_again(place: Workplace, damage: str) -> None:
    place.fetch()
    kernel = place.folder / "tiny/kernel.py"
    if damage == "edited":
        kernel.write_text("x = 3\n")
    else:
        kernel.unlink()
    place.fetch()
    assert kernel.read_text() == MEMBERS["tiny/kernel.py"]


def test_changed_list_is_fetched_again(place: Workplace) -> None:
    place.fetch()
    place.pin(hashlib.sha256((place.wheels / WHEEL).read_bytes()).hexdigest(), ["tiny/kernel.py"])
    place.fetch()
    assert "tiny/more/deep.py" not in place.files()


def test_wheel_from_a_named_folder(place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (place.wheels / WHEEL).rename(elsewhere / WHEEL)
    monkeypatch.setenv("CUTESNAKE_WHEELS", str(elsewhere))
    place.fetch()
    assert "tiny/kernel.py" in place.files()


@pytest.mark.fault("Users", "a wheel with another checksum", "not unpacked")
def test_wrong_sha256_unpacks_nothing(place: Workplace) -> None:
    place.pin("0" * 64)
    with pytest.raises(FetchError, match=rf"sha256 is [0-9a-f]{{64}}, expected {'0' * 64}\. Nothing"):
        place.fetch()
    assert not place.folder.exists()
    assert sorted(path.name for path in place.folder.parent.iterdir()) == ["wheels"]


def test_wrong_sha256_leaves_what_was_fetched_before(place: Workplace) -> None:
    place.fetch()
    place.pin("0" * 64)
    with pytest.raises(FetchError, match="expected 0000"):
        place.fetch()
    assert "tiny/kernel.py" in place.files()


def test_truncated_wheel_is_named_as_such(place: Workplace) -> None:
    wheel = place.wheels / WHEEL
    wheel.write_bytes(wheel.read_bytes()[:-40])
    with pytest.raises(FetchError, match="cut short"):
        place.fetch()
    assert not place.folder.exists()


def test_unknown_package(place: Workplace) -> None:
    with pytest.raises(FetchError, match=r"'tilegim' is not in .*; it knows: tiny"):
        fetch("tilegim", place.folder, place.upstream)


def test_missing_member(place: Workplace) -> None:
    place.pin(make_wheel(place.wheels), ["tiny/renamed.py"])
    with pytest.raises(FetchError, match=r"holds no tiny/renamed\.py"):
        place.fetch()
    assert not place.folder.exists()


@pytest.mark.fault("Users", "a wheel with paths that leave its folder", "not unpacked")
@pytest.mark.parametrize("name", ["tiny/../../escaped.py", "/tmp/escaped.py", "tiny/..\\escaped.py"])
def test_path_that_leaves_the_folder(place: Workplace, name: str) -> None:
    place.pin(make_wheel(place.wheels, {"tiny/kernel.py": "", name: "bad"}), ["tiny/kernel.py", name])
    with pytest.raises(FetchError, match="leaves the folder"):
        place.fetch()
    assert not place.folder.exists()
    assert not list(place.folder.parent.rglob("escaped.py"))


@pytest.mark.fault("Machine", "no network", "one line with what to put where, if something must be fetched")
def test_no_network_says_which_file_to_put_where(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    sha256 = hashlib.sha256((place.wheels / WHEEL).read_bytes()).hexdigest()
    (place.wheels / WHEEL).unlink()
    refuse_network(monkeypatch)
    with pytest.raises(FetchError) as caught:
        place.fetch()
    message = str(caught.value)
    assert "\n" not in message
    for part in ("tiny 1.0", WHEEL, sha256, str(place.wheels), "CUTESNAKE_WHEELS"):
        assert part in message
    assert not place.folder.exists()


@pytest.mark.fault("Machine", "an index that sends a wheel endlessly slowly", "one line after half an hour")
def test_a_download_that_trickles_is_ended(place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.wheels / WHEEL).unlink()
    refuse_network(monkeypatch)
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    monkeypatch.setattr(stage, "MOST_SECONDS", 0.2)
    with pytest.raises(FetchError, match=r"tiny 1.0 was not downloaded within 0.2 s.*put tiny-1.0-py3-none-any.whl"):
        place.fetch()
    assert not place.folder.exists()


def test_download_goes_through_the_users_pip(place: Workplace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = tmp_path / "index"
    index.mkdir()
    (place.wheels / WHEEL).unlink()
    place.pin(make_wheel(index, MEMBERS | FOR_PIP))
    refuse_network(monkeypatch)
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    place.fetch()
    assert "tiny/kernel.py" in place.files()


def test_a_pin_of_another_name_has_a_folder_of_its_own(place: Workplace, tmp_path: Path, monkeypatch) -> None:
    """A further pin of a wheel lists files that the project's own pin does not."""
    sha256 = make_wheel(tmp_path / "index", MEMBERS | FOR_PIP)
    (place.wheels / WHEEL).unlink()
    place.pin(sha256, ["tiny/setup.py"])
    mine = tmp_path / "mine.yaml"
    mine.write_text(place.upstream.read_text().replace("tiny:", "mine:", 1))
    assert [file for file, _ in pins_by_file([place.upstream, mine]).values()] == [place.upstream, mine]
    refuse_network(monkeypatch)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    fetch("mine", place.folder.with_name("mine"), mine)
    assert (place.folder.with_name("mine") / "tiny/setup.py").exists() and not place.folder.exists()


@pytest.mark.fault("Users", "a pin with the name of one of the project's", "one line")
def test_a_name_that_two_files_pin_is_refused(place: Workplace, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(place.upstream.read_text())
    with pytest.raises(FetchError, match=r"mine.yaml: tiny is pinned in .*upstream.yaml already"):
        pins_by_file([place.upstream, mine])


def test_what_pip_did_not_foresee_is_told_by_its_last_line(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a full disk pip says `ERROR: Exception:` and a traceback."""
    (place.wheels / WHEEL).unlink()
    refuse_network(monkeypatch)
    message = (
        "ERROR: Exception:\nTraceback (most recent call last):\n  ...\nOSError: [Errno 28] No space left on device\n"
    )
    monkeypatch.setattr(stage.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 2, "", message))
    with pytest.raises(FetchError, match=r"downloaded \(OSError: \[Errno 28\] No space left on device\)"):
        place.fetch()


def test_killed_job_leaves_no_partial_folder_behind(place: Workplace) -> None:
    script = f"""
import os, signal
from cutesnake.stages import fetch
unpack = fetch._unpack
def die(*arguments):
    unpack(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
fetch._unpack = die
fetch.fetch("tiny", {str(place.folder)!r}, {str(place.upstream)!r})
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT / "workflow" / "scripts", capture_output=True)
    assert done.returncode == -9
    assert not place.folder.exists()
    place.fetch()
    assert sorted(path.name for path in place.folder.parent.iterdir()) == ["tiny", "wheels"]


def test_fetched_says_how_to_fetch(tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"snakemake --cores 1 .*tiny/fetched\.json"):
        fetched("tiny", tmp_path)


def test_pins_of_the_repository_are_whole() -> None:
    pins = yaml.safe_load((ROOT / "kernels" / "upstream.yaml").read_text())
    for package, pin in pins.items():
        entry = stage._entry(package, pin, {"some": "0" * 64})
        record.check("fetch", json.loads(json.dumps(entry)), package)
        assert pin["version"] in pin["wheel"]


@pytest.mark.slow
@pytest.mark.parametrize("package", ["flashinfer-python", "tilegym"])
def test_pinned_wheels(package: str, tmp_path: Path) -> None:
    fetch(package, tmp_path / package, ROOT / "kernels" / "upstream.yaml")
    entry = record.plain(record.read("fetch", tmp_path / package / "fetched.json"))
    assert len(entry["files"]) >= len(entry["listed"])


def test_a_wheel_that_would_fill_the_disk_is_refused(place: Workplace) -> None:
    """With a sum that is right: whoever pinned it may have been careless."""
    place.pin(make_wheel(place.wheels, {**MEMBERS, "tiny/more/bomb": "0" * (stage.MOST_BYTES + 1)}))
    assert (place.wheels / WHEEL).stat().st_size < 1 << 20
    with pytest.raises(FetchError, match=r"unpacks to 67,108,\d\d\d bytes"):
        place.fetch()
    assert not place.folder.exists() and place.files() == []


def test_a_wheel_of_too_many_files_is_refused(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "MOST_FILES", 1)
    with pytest.raises(FetchError, match="in 2 files"):
        place.fetch()


@pytest.mark.fault("Users", "a wrong pin in `kernels/upstream.yaml`", "one line")
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sha256", "abc", "tiny/sha256"),
        ("files", [], "tiny/files"),
        ("wheel", "../tiny.whl", "tiny/wheel"),
        ("extra", 1, "extra"),
        ("version", None, "version"),
    ],
)
def test_pins_are_checked(place: Workplace, key: str, value: object, message: str) -> None:
    pins = yaml.safe_load(place.upstream.read_text())
    pins["tiny"][key] = value
    place.upstream.write_text(yaml.safe_dump(pins))
    with pytest.raises(FetchError, match=message):
        place.fetch()


@pytest.mark.fault("Users", "a pin that is there twice", "one line")
def test_a_pin_that_is_there_twice_is_refused(place: Workplace) -> None:
    place.upstream.write_text(place.upstream.read_text() * 2)
    with pytest.raises(FetchError, match="the key 'tiny' is there twice"):
        place.fetch()


def test_the_pins_of_this_project_fit_their_schema() -> None:
    check_input("upstream", yaml.safe_load((ROOT / "kernels/upstream.yaml").read_text()), "kernels/upstream.yaml")
