"""Servers that fork.

A clean process per job, which dies with whoever asked, and jobs that do without a server.
"""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, SimpleNamespace

import pytest

from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT, SCRIPTS
from cutesnake.planning import staleness
from cutesnake.runtime import job, kinds, pool
from cutesnake.stages.compile.compile import compile_build

FOLDER = Path(__file__).parents[1]
PATHS = os.pathsep.join([str(FOLDER), str(ROOT), str(SCRIPTS)])
KIND = "nothing"  # there is no such kind: its server imports nothing


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Servers for this test, which knows the tasks of this folder."""
    monkeypatch.setenv("PYTHONPATH", PATHS)
    monkeypatch.setenv(pool.VARIABLE, "")
    process = pool.start([KIND, "scripts", "simulator", "cute:sm_90a"])
    yield
    process.kill()
    process.wait()


def run(task: str, limit_s: float | None = 30.0, **arguments: object) -> int | None:
    return pool.run(KIND, f"fork_tasks:{task}", arguments, limit_s=limit_s)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return bool(condition())


def test_a_job_has_a_process_a_session_an_environment_and_a_folder_of_its_own(served, tmp_path, monkeypatch) -> None:
    result = []
    for name in ("first", "second"):
        monkeypatch.setenv("MARK", name)
        monkeypatch.chdir(tmp_path)
        assert run("tell", path=str(tmp_path / name)) == 0
        result.append(json.loads((tmp_path / name).read_text()))
    first, second = result
    assert first["parent"] == second["parent"] != os.getpid() and first["pid"] != second["pid"]
    assert first["session"] == first["pid"] and first["cwd"] == str(tmp_path)
    assert (first["mark"], second["mark"]) == ("first", "second")


def test_a_job_prints_where_it_is_told_to(served, tmp_path) -> None:
    with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
        arguments = {"path": str(tmp_path / "told")}
        assert pool.run(KIND, "fork_tasks:tell", arguments, (out.fileno(), err.fileno())) == 0
    assert ((tmp_path / "out").read_text(), (tmp_path / "err").read_text()) == ("told\n", "complained\n")


@pytest.mark.slow
def test_what_the_kind_needs_is_imported_before_the_fork(served, tmp_path) -> None:
    assert pool.run("simulator", "fork_tasks:tell", {"path": str(tmp_path / "told")}) == 0
    assert json.loads((tmp_path / "told").read_text())["torch"]


def test_how_a_job_ended_is_told_and_the_next_one_runs(served, tmp_path) -> None:
    assert run("crash") == -signal.SIGSEGV
    assert run("leave", code=3) == 3
    assert run("complain") == 1
    assert run("tell", path=str(tmp_path / "told")) == 0


def test_a_job_that_ends_before_its_client_goes_on_is_done_all_the_same(served, tmp_path, monkeypatch) -> None:
    send = socket.send_fds

    def send_and_sleep(*arguments):
        sent = send(*arguments)
        time.sleep(1.0)  # by then the job has ended, and the server has answered and closed the connection
        return sent

    monkeypatch.setattr(socket, "send_fds", send_and_sleep)
    assert run("tell", path=str(tmp_path / "told")) == 0


def test_the_limit_ends_a_job_with_what_it_started(served, tmp_path) -> None:
    assert run("wait", limit_s=2.0, path=str(tmp_path / "started")) is None
    for process in map(int, (tmp_path / "started").read_text().split()):
        assert wait_for(lambda process=process: not is_running(process), 5)


def test_what_a_job_leaves_running_is_ended(served, tmp_path) -> None:
    assert run("leave_behind", path=str(tmp_path / "left")) == 0
    assert wait_for(lambda: not is_running(int((tmp_path / "left").read_text())), 5)


def test_a_job_dies_with_whoever_asked_for_it(served, tmp_path) -> None:
    started = tmp_path / "started"
    code = f"from cutesnake.runtime import pool; pool.run({KIND!r}, 'fork_tasks:wait', {{'path': {str(started)!r}}})"
    client = subprocess.Popen([sys.executable, "-c", code])
    assert wait_for(started.exists)
    client.kill()
    client.wait()
    for process in map(int, started.read_text().split()):
        assert wait_for(lambda process=process: not is_running(process), 5)


@pytest.mark.fault("Machine", "a run with servers is killed", "servers and their jobs end")
def test_servers_and_their_jobs_die_with_the_run(tmp_path) -> None:
    started, environment = tmp_path / "started", {**os.environ, "PYTHONPATH": PATHS}
    task = f"pool.run({KIND!r}, 'fork_tasks:wait', {{'path': {str(started)!r}}})"
    code = f"from cutesnake.runtime import pool; server = pool.start([{KIND!r}]); "
    code += f"print(server.pid, flush=True); {task}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as main:
        server = int(main.stdout.readline())
        assert wait_for(started.exists)
        main.kill()
    for process in (server, *map(int, started.read_text().split()[:1])):
        assert wait_for(lambda process=process: not is_running(process), 5)


@pytest.mark.fault("Kernels", "`compile` kills its server", "jobs continue without the server")
def test_a_job_is_done_without_a_server_that_was_killed(served, tmp_path, monkeypatch) -> None:
    with pytest.raises(pool.NotServedError):
        run("kill_server")
    with pytest.raises(pool.NotServedError):
        run("tell", path=str(tmp_path / "never"))
    monkeypatch.syspath_prepend(str(FOLDER))
    job.do(KIND, "inspect", str(tmp_path / "log"), "fork_tasks:tell", path=str(tmp_path / "told"))
    assert json.loads((tmp_path / "told").read_text())["pid"] == os.getpid()


def test_another_interpreter_finds_no_server(served, monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/other/bin/python")
    with pytest.raises(pool.NotServedError):
        run("leave", code=0)


def test_a_script_ends_as_its_job_ended(served, tmp_path) -> None:
    for task, arguments, message in (
        ("crash", {}, "the process of this job was ended by SIGSEGV"),
        ("leave", {"code": 3}, "3"),
    ):
        with pytest.raises(SystemExit) as ended:
            job.do(KIND, "inspect", str(tmp_path / "log"), f"fork_tasks:{task}", **arguments)
        assert message in str(ended.value.code)


def test_one_of_several_jobs_that_fails_keeps_no_other_from_being_done(served, tmp_path) -> None:
    jobs = [{"code": code, "path": str(tmp_path / str(code))} for code in (0, 3, 4, 0)]
    with pytest.raises(SystemExit) as ended:
        job.do_each(KIND, "correctness", str(tmp_path / "log"), "fork_tasks:leave_reported", jobs)
    assert ended.value.code == 3 and (tmp_path / "4").exists()
    job.do_each(KIND, "correctness", str(tmp_path / "log"), "fork_tasks:leave_reported", jobs[:1])


def test_a_script_depends_on_the_module_that_it_names_in_a_task() -> None:
    assert SCRIPTS / "cutesnake/stages/inspect/build.py" in staleness.closure("compile.py")


SCRIPT = """
import json, os, sys
report = [os.environ["OMP_NUM_THREADS"], os.environ["TMPDIR"], __name__, sys.argv, "snakemake.io" in sys.modules]
json.dump(report, open({path!r}, "w"))
sys.exit({code})
"""


def test_a_script_is_forked_unless_it_has_an_environment_of_its_own(served, tmp_path) -> None:
    plain = dict.fromkeys(("conda_env", "container_img", "env_modules", "bench_record"))
    script = SimpleNamespace(**plain, log=[], threads=3, resources={"tmpdir": str(tmp_path)})
    file, reported = tmp_path / "tmp1.compile.py", tmp_path / "told"
    file.write_text(SCRIPT.format(path=str(reported), code=0))
    run_as_it_was: list[str] = []
    execute = job.forked_scripts(lambda script, command, **options: run_as_it_was.append(command))
    execute(script, "one", fname=str(file))
    assert json.loads(reported.read_text()) == ["3", str(tmp_path), "__main__", [str(file)], True]
    file.write_text(SCRIPT.format(path=str(reported), code=3))
    with pytest.raises(subprocess.CalledProcessError, match="returned non-zero exit status 3"):
        execute(script, "two", fname=str(file))
    assert not run_as_it_was
    script.conda_env = "env"
    execute(script, "three", fname=str(file))
    script.conda_env = None
    pool.stop()
    execute(script, "four", fname=str(file))
    assert run_as_it_was == ["three", "four"]


def test_jobs_that_are_given_up_end_with_what_they_started(served, tmp_path) -> None:
    # As Ctrl-C has it. The main process waits for jobs in threads, which no signal reaches.
    ends: list[BaseException] = []

    def ask() -> None:
        try:
            run("wait", limit_s=None, path=str(tmp_path / "started"))
        except pool.CancelledError as error:
            ends.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert wait_for((tmp_path / "started").exists)
    pool.give_up()
    thread.join(10)
    assert len(ends) == 1
    for process in map(int, (tmp_path / "started").read_text().split()):
        assert wait_for(lambda process=process: not is_running(process), 5)
    assert run("leave", code=3) == 3, "others are served"


def test_what_the_dsl_looks_up_for_every_operation_is_found_as_it_finds_it() -> None:
    """By its names, which the pinned DSL still has, and as it calls them."""
    folder = importlib.util.find_spec("cutlass").submodule_search_locations[0]
    text = Path(folder, "_mlir_helpers/op.py").read_text()
    assert "next(itertools.islice(_CO_POSITIONS(code), lasti // 2, None))" in text
    assert "_is_framework_module(module_name) or" in text
    asked = []
    op = SimpleNamespace(_CO_POSITIONS=CodeType.co_positions, _is_framework_module=lambda name: asked.append(name))
    kinds.remember_places(op)
    for function in (wait_for, run, wait_for):
        assert list(op._CO_POSITIONS(function.__code__)) == list(function.__code__.co_positions())
    assert op._CO_POSITIONS(run.__code__) is op._CO_POSITIONS(run.__code__)
    assert [op._is_framework_module("a"), op._is_framework_module("a")] == [None, None] and asked == ["a"]
    kinds.remember_places(SimpleNamespace())  # a DSL without them


@pytest.mark.slow
def test_a_forked_build_is_the_same_to_the_byte_as_a_started_one(served, tmp_path, monkeypatch) -> None:
    kernel, operator = load_kernel("elementwise_add", "cute"), load_operator("elementwise_add")
    variant = kernel.variants(operator.Workload(100, 100, "fp32"), "sm_90a")[0]
    ask, statuses = pool.run, []

    def noted(*arguments: object) -> int | None:
        statuses.append(ask(*arguments))
        return statuses[-1]

    monkeypatch.setattr(pool, "run", noted)
    result = []
    for name in ("forked", "started"):
        if name == "started":
            pool.stop()
        folder = tmp_path / name / "compile/elementwise_add/cute/sm_90a" / variant.id
        compile_build("elementwise_add", "cute", "sm_90a", variant, folder)
        result.append({path.name: path.read_bytes() for path in folder.iterdir() if path.name != "build.json"})
    assert statuses == [0]
    assert result[0] == result[1] and "kernel.cubin" in result[0]
