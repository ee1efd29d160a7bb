"""Two users run the workflow on one machine at once."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from project import TINY, append, copy_project, replace

NOBODY = 65534
# Another user who can read all files, since the interpreter may lie in root's home, and write none of root's.
AS_NOBODY = (
    *("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"),
    *(
        "--inh-caps=-all,+dac_read_search",
        "--ambient-caps=-all,+dac_read_search",
        "--bounding-set=-all,+dac_read_search",
    ),
)
LOAD = """
import sys
from pathlib import Path
from cutesnake.stages.load import cute
with cute.opened_by(lambda folder, name: name):
    cute.open_function(Path(sys.argv[1]))
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not shutil.which("setpriv"), reason="root can act as another user, with setpriv"
    ),
]


def start(user: tuple[str, ...], folder: Path, *arguments: str) -> subprocess.Popen:
    home = folder.parents[1] / ("nobody" if user else "root") / "home"
    home.mkdir(exist_ok=True)
    machine = folder / "tests/machines/none.json"
    environment = {**os.environ, "HOME": str(home), "CUTESNAKE_MACHINE": str(machine), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"PYTHONPATH": f"{folder}:{folder}/workflow/scripts"}
    command = [*user, sys.executable, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def loads(user: tuple[str, ...], folder: Path, build: Path) -> bool:
    """Whether a user loads a build.

    Fails if it is refused for another reason than who compiled it.
    """
    one = start(user, folder, "-c", LOAD, str(build))
    message = one.communicate(timeout=60)[0]
    assert one.returncode == 0 or "was not compiled by this user" in message, message
    return one.returncode == 0


def change(build: Path) -> None:
    """Change a library, and its checksum in the record."""
    library, record = build / "kernel.so", build / "build.json"
    before = hashlib.sha256(library.read_bytes()).hexdigest()
    append(library, "something else")
    replace(record, before, hashlib.sha256(library.read_bytes()).hexdigest())


@pytest.mark.fault(
    "Users", "two users run the workflow at once", "both runs end; builds of the other user are not loaded"
)
def test_two_users_run_at_the_same_time_and_load_nothing_of_each_other(shared) -> None:
    # Fault: two users of one machine. Outcome: each run ends; builds of the other user are not loaded.
    folders = []
    for name in ("root", "nobody"):
        folder = copy_project(shared / name / "project")
        if name == "nobody":
            subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", shared / name], check=True)
            (shared / name / "home").mkdir()
            os.chown(shared / name / "home", NOBODY, NOBODY)
        folders.append(folder)
    users = ((), AS_NOBODY)
    run = ("-m", "snakemake", "--cores", "1", "results/mla_report.html", "--configfile", TINY)
    running = [start(user, folder, *run) for user, folder in zip(users, folders, strict=True)]
    for one in running:
        message = one.communicate(timeout=300)[0]
        assert one.returncode == 0, message
    pages = [folder / "results/mla_report.html" for folder in folders]
    assert [page.stat().st_uid for page in pages] == [0, NOBODY]

    own, foreign = (
        next((folder / "results/compile").glob("elementwise_add/cute/*/*/build.json")).parent for folder in folders
    )
    assert loads((), folders[0], own) is loads((), folders[0], foreign) is True  # equal sources give equal bytes
    change(own)
    change(foreign)
    assert loads((), folders[0], foreign) is loads(AS_NOBODY, folders[1], own) is False

    one = start(AS_NOBODY, folders[0], *run, "--dry-run")
    message = one.communicate(timeout=60)[0]
    assert one.returncode != 0 and "cannot be written" in message and "Traceback" not in message
