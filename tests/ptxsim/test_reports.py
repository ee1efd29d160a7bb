"""SARIF, JUnit XML and annotations of the command, with its exit status."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import ptxsim
from ptxsim import CaptureError, Finding, Result
from ptxsim.commandline import reports
from ptxsim.commandline.compared import Difference
from ptxsim.commandline.main import main
from ptxsim.commandline.output import Outcome
from ptxsim.core.run import CHECKS
from ptxsim.host.linking import compiler

FOLDER = Path(__file__).parent
PACKAGE = Path(ptxsim.__file__).parent
ARGUMENTS = ("--arg=f32[64]=arange", "--arg=f32[64]=nan", "--arg=int:64")
TOO_SHORT = ("--arg=f32[64]=arange", "--arg=f32[32]=nan", "--arg=int:64")


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The compiled kernel, in a folder below the current one."""
    try:
        words = compiler()
    except CaptureError as error:
        pytest.skip(str(error))
    place = tmp_path / "kernel"
    place.mkdir()
    subprocess.run([*words, "-c", "-fPIC", "-o", place / "kernel.o", FOLDER / "handmade.c"], check=True)
    shutil.copy(FOLDER / "handmade.ptx", place / "kernel.ptx")
    (place / "build.json").write_text(json.dumps({"function": "scale"}))
    monkeypatch.chdir(tmp_path)
    return Path("kernel")


def check_sarif(log: dict[str, Any]) -> dict[str, Any]:
    """Assert what SARIF 2.1.0's schema requires of the objects that a log has.

    Return its run.
    """
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]
    driver = run["tool"]["driver"]
    assert isinstance(driver["name"], str) and driver["name"]
    rules = [rule["id"] for rule in driver["rules"]]
    assert len(set(rules)) == len(rules) and all(rule["shortDescription"]["text"] for rule in driver["rules"])
    for invocation in run["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
        for note in invocation["toolExecutionNotifications"]:
            assert note["message"]["text"] and note["level"] in ("none", "note", "warning", "error")
    for result in run["results"]:
        assert result["message"]["text"] and result["level"] in ("none", "note", "warning", "error")
        assert rules[result["ruleIndex"]] == result["ruleId"]
        for location in result.get("locations", []):
            physical = location["physicalLocation"]
            assert re.fullmatch(r"[A-Za-z0-9%._~/:+@-]+", physical["artifactLocation"]["uri"])
            assert physical.get("region", {"startLine": 1})["startLine"] >= 1
    return run


def files() -> tuple[dict[str, Any], ET.Element]:
    return check_sarif(json.loads(Path("out.sarif").read_text())), ET.parse("out.xml").getroot()


WRITE = ("--sarif", "out.sarif", "--junit", "out.xml")


def test_a_run_without_findings_ends_with_0(folder, capsys) -> None:
    assert main([str(folder), *ARGUMENTS, *WRITE, "--schedule", "all", "--annotations"]) == 0
    assert all(capsys.readouterr().out.splitlines())
    run, suites = files()
    assert run["results"] == [] and run["invocations"][0]["exitCode"] == 0
    (suite,) = suites
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("8", "0", "0")
    assert suite[0].get("name") == "eager-0" and suite[0].get("classname") == "ptxsim.scale" and not len(suite[0])


def test_a_finding_ends_with_1_and_is_in_every_report(folder, capsys) -> None:
    assert main([str(folder), *TOO_SHORT, *WRITE, "--schedule", "all", "--annotations"]) == 1
    run, suites = files()
    (result,) = run["results"]  # once, though seven schedules met it
    assert result["ruleId"] == "out-of-bounds" and "y" in result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    line = place["region"]["startLine"]
    assert (place["artifactLocation"]["uri"], line) == ("kernels/scale.py", 13)
    (suite,) = suites
    assert suite.get("failures") == suite.get("tests") == "8"
    failure = suite[0].find("failure")
    assert failure is not None and failure.get("type") == "out-of-bounds" and "PTX line" in (failure.text or "")
    printed = [x for x in capsys.readouterr().out.splitlines() if x.startswith("::")]
    assert len(printed) == 1
    assert printed[0].startswith("::error file=kernels/scale.py,line=13,title=ptxsim out-of-bounds::out-of-bounds")


def test_a_wrong_output_ends_with_1(folder) -> None:
    np.save("want.npy", np.ones(64, np.float32))
    assert main([str(folder), *ARGUMENTS, *WRITE, "--expect", "y=want.npy"]) == 1
    run, suites = files()
    (result,) = run["results"]
    assert result["ruleId"] == reports.WRONG and "elements are wrong" in result["message"]["text"]
    assert suites[0][0][0].get("type") == reports.WRONG


def test_what_cannot_be_run_ends_with_2_and_says_why(folder, capsys) -> None:
    assert main([str(folder), *ARGUMENTS[:2], *WRITE, "--annotations"]) == 2
    run, suites = files()
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"] and invocation["exitCode"] == 2
    why = invocation["toolExecutionNotifications"][0]["message"]["text"]
    assert "2 arguments" in why and suites[0].get("errors") == "1" and suites[0][0][0].get("message") == why
    out = capsys.readouterr()
    assert out.out.startswith("::error title=ptxsim::2 arguments") and why in out.err
    for option in ("--sarif", "--junit"):
        assert main([str(folder), *ARGUMENTS, option, "none/out"]) == 2
        assert f"{option} none/out" in capsys.readouterr().err


def test_places_outside_the_folder_and_odd_characters(tmp_path, monkeypatch) -> None:
    local = tmp_path / "a b"
    local.mkdir()
    monkeypatch.chdir(local)
    findings = [
        Finding("race", "first,\n100 % <wrong>\x00 & «odd»", "k", 3, f"{local}/sub folder/k.py:7"),
        Finding("race", "second", "k", 4, f"{tmp_path}/k.py:8"),
        Finding("deadlock", "third", "k"),
    ]
    difference = Difference("y", "want.npy", 0.0, 1, 2, 1.0, (0,), 1.0, 2.0)
    outcomes = [Outcome(Result(findings, [], "late", 0, 0.5), [difference], [], [])] * 2
    result = reports.problems(outcomes, Path("k.ptx"))
    run = check_sarif(json.loads(json.dumps(reports.sarif(result, 1))))
    uris = [x["locations"][0]["physicalLocation"] for x in run["results"][:3]]
    assert uris[0] == {"artifactLocation": {"uri": "sub%20folder/k.py"}, "region": {"startLine": 7}}
    assert uris[1]["artifactLocation"]["uri"] == (tmp_path / "k.py").as_uri()
    assert uris[2] == {"artifactLocation": {"uri": "k.ptx"}} and len(run["results"]) == 4
    text = reports.junit("k", outcomes)
    assert ET.fromstring(text)[0].get("failures") == "2" and "\x00" not in text
    printed = list(reports.github_commands(result))
    assert (
        all("\n" not in x for x in printed) and "100 %25 <wrong>" in printed[0] and "file=sub folder/k.py" in printed[0]
    )
    assert printed[3].startswith("::error title=ptxsim wrong-output::y against want.npy")


def test_every_kind_that_the_simulator_reports_has_a_rule() -> None:
    literal = re.compile(r'\b(?:report|Finding)\(\s*(?:[\w.]+,\s*)?"([a-z-]+)"')
    kinds = {kind for path in PACKAGE.rglob("*.py") for kind in literal.findall(path.read_text())} | set(CHECKS)
    kinds -= {"outside-any", "read-fence", "unwaited-ld", "unwritten-lanes"}  # stricter forms of other kinds
    kinds -= {"small-grid"}  # a further run, which reports other kinds
    assert len(kinds) > 14 and kinds <= set(reports.RULES), kinds - set(reports.RULES)


def test_the_action_passes_its_inputs_on_and_fails_with_the_command(folder, tmp_path) -> None:
    yaml = pytest.importorskip("yaml")
    action = PACKAGE / "action.yml"
    if not action.exists():
        pytest.skip("the action is no part of the installed package")
    described = yaml.safe_load(action.read_text())
    assert described["runs"]["using"] == "composite" and described["name"] and described["description"]
    install, step = described["runs"]["steps"]
    assert all(x["shell"] == "bash" and x["name"] for x in (install, step))
    assert described["outputs"]["status"]["value"] == f"${{{{ steps.{step['id']}.outputs.status }}}}"
    used = {name: re.fullmatch(r"\$\{\{ inputs\.(\w+) \}\}", value) for name, value in step["env"].items()}
    assert {x[1] for x in used.values() if x} == set(described["inputs"]) and all(used.values())
    assert "${{" not in step["run"]  # an input in the script itself would be run as part of it
    output = tmp_path / "output"
    for arguments, status in ((" ".join(map(shlex.quote, TOO_SHORT)), 1), ("--signature", 0)):
        output.write_text("")
        values = {x: str(described["inputs"][m[1]].get("default", "")) for x, m in used.items() if m}
        values |= {"KERNEL": str(folder), "ARGUMENTS": arguments, "GITHUB_OUTPUT": str(output)}
        values["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        place = os.pathsep.join((str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")))
        script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(script, capture_output=True, text=True, env=os.environ | values | {"PYTHONPATH": place})
        assert done.returncode == status, done.stdout + done.stderr
        assert output.read_text() == f"status={status}\n"
        assert ("::error file=kernels/scale.py,line=13" in done.stdout) == (status == 1)
    assert Path("ptxsim.sarif").exists() and Path("ptxsim.xml").exists()
