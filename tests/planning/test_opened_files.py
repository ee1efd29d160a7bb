"""What a kernel's `compile` reads without importing it is found.

Data files, and modules whose names are computed.
"""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import importlib, json, os, sys
from pathlib import Path
from cutesnake.stages.compile.opened_files import Opened

sys.path.insert(0, sys.argv[1])
import before
opened = Opened([Path(sys.argv[1])])
exec(sys.argv[2])
print(json.dumps(opened.files()))
"""


def opened(folder: Path, code: str) -> set[str]:
    """Files that code opens, in a process of its own.

    An audit hook cannot be taken away.
    """
    from cutesnake.model.paths import SCRIPTS

    (folder / "before.py").write_text("")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), code],
        capture_output=True,
        text=True,
        cwd=folder,
        env={"PYTHONPATH": str(SCRIPTS), "PATH": "/usr/bin:/bin"},
        check=True,
    )
    return {str(Path(path).relative_to(folder.resolve())) for path in json.loads(done.stdout)}


def test_files_that_are_read_are_found_and_written_ones_are_not(tmp_path) -> None:
    (tmp_path / "tiles.json").write_text("{}")
    code = "open('tiles.json').read(); Path('tiles.json').read_bytes(); os.close(os.open('tiles.json', os.O_RDONLY))"
    assert opened(tmp_path, code) == {"tiles.json"}
    assert opened(tmp_path, "open('made.txt', 'w').write('a')") == set()


def test_a_file_that_is_not_there_counts_since_it_may_come(tmp_path) -> None:
    assert opened(tmp_path, "try: open('optional.json')\nexcept OSError: pass") == {"optional.json"}


def test_a_module_of_a_computed_name_is_found(tmp_path) -> None:
    (tmp_path / "schedule_a.py").write_text("")
    assert opened(tmp_path, "importlib.import_module('sched' + 'ule_a')") == {"schedule_a.py"}


def test_what_lies_elsewhere_or_was_made_does_not_count(tmp_path) -> None:
    for name in ("results", ".hidden", "__pycache__"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text("{}")
    code = "[open(f'{name}/a.json') for name in ('results', '.hidden', '__pycache__')]; open(os.__file__)"
    assert opened(tmp_path, code) == set()


def test_a_file_behind_a_link_counts_where_it_is(tmp_path) -> None:
    (tmp_path / "tiles.json").write_text("{}")
    (tmp_path / "link.json").symlink_to("tiles.json")
    assert opened(tmp_path, "open('link.json')") == {"tiles.json"}
