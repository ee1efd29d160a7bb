"""What is refused is refused in one line that says what would be right, without a traceback."""

import json

import pytest

from cutesnake.plan import machine
from project import snakemake


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory; "),
        ("{", "describes no machine"),
        ("[]", "describes no machine"),
        ('{"devices": [{"name": 3}]}', "KeyError: 'compute_capability'"),
        ('{"strange": 3}', "strange"),
        ('{"tools": []}', "tools must be a mapping"),
        ("[" * 100_000, "describes no machine"),
    ],
)
def test_a_pretended_machine_that_is_none(tmp_path, monkeypatch, content, words) -> None:
    path = tmp_path / "machine.json"
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv(machine.PRETENDED, str(path))
    with pytest.raises(machine.MachineError) as caught:
        machine.probe()
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("CUTESNAKE_MACHINE is ")


def test_a_device_of_a_pretended_machine_has_the_right_types(tmp_path, monkeypatch) -> None:
    path = tmp_path / "machine.json"
    device = {"index": 0, "name": "X", "compute_capability": "90", "driver": "1", "memory_bytes": 1}
    path.write_text(json.dumps({"devices": [{**device, "multiprocessors": 1, "uuid_hash": "a"}]}))
    monkeypatch.setenv(machine.PRETENDED, str(path))
    with pytest.raises(machine.MachineError, match="two whole numbers"):
        machine.probe()


BUILD = "elementwise_add/cute/sm_90a/fp32_t256_v4"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"compile/{BUILD}x/build.json", f"{BUILD}x is not planned; nearest: {BUILD}, "),
        (f"correctness/{BUILD}/m3_n1001_fp32.json", f"is not planned; nearest: {BUILD}/m3_n1000_fp32, "),
        ("compare/elementwise_ad.json", "elementwise_ad is not planned; nearest: elementwise_add"),
        ("plan/mla.json", "mla is not planned; nearest: elementwise_add"),
        ("inspect/mla/roofline.json", "mla is not planned; nearest: elementwise_add"),
        (f"autotune/{BUILD}.json", "is not planned; nothing of that kind is"),
    ],
)
def test_a_path_that_is_not_planned_names_the_nearest_that_is(built, path, words) -> None:
    done = snakemake(built, "--dry-run", f"results/{path}")
    assert done.returncode != 0 and words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_the_locale_does_not_matter(project) -> None:
    for name in ("mla_report.html", "compare/elementwise_add.json", "plan/elementwise_add.json"):
        (project / "results" / name).unlink()
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = snakemake(project, **plain)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "UTF-8" in (project / "results/mla_report.html").read_text(encoding="utf-8").upper()
