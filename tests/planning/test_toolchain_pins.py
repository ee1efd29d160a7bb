"""Pins of toolchains: what is right is read, what is wrong is one clear line."""

import os
import shutil
import subprocess

import pytest

from cutesnake.model.paths import ROOT
from cutesnake.planning.toolchains import FOLDER, ToolchainError, read


def test_every_toolchain_of_the_repository_pins_a_compiler_with_hashes():
    names = sorted(path.stem for path in FOLDER.glob("*.txt"))
    for one in read(names):
        assert one.hashed and one.replaces("cute") != one.replaces("cutile"), one.name
        assert "nvidia-cuda-nvdisasm" in dict(one.pins)


def test_a_file_of_the_users_own_needs_no_hashes(tmp_path):
    (tmp_path / "next.txt").write_text("# the next one\nNVIDIA_Cutlass.DSL==4.9.0  # all of it\n\ncuda-tile==2.0\n")
    (main, own) = read(["main", str(tmp_path / "next.txt")])
    assert not main.pins and not main.replaces("cute")
    assert own.name == "next" and own.pins == (("nvidia-cutlass-dsl", "4.9.0"), ("cuda-tile", "2.0"))
    assert own.replaces("cute") and own.replaces("cutile") and not own.hashed


def test_the_disassembler_alone_replaces_no_compiler(tmp_path):
    (tmp_path / "tools.txt").write_text("nvidia-cuda-nvdisasm==13.5.37\n")
    (one,) = read([str(tmp_path / "tools.txt")])
    assert not one.replaces("cute") and not one.replaces("cutile")


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.txt", "nvidia-cutlass-dsl>=4.8\n", "a.txt, line 1: 'nvidia-cutlass-dsl>=4.8' is no pin"),
        ("a.txt", "x==1\n-r other.txt\n", "a.txt, line 2: '-r other.txt' is no pin"),
        ("a.txt", "x==1; sys_platform == 'linux'\n", "line 1"),
        ("a.txt", "# nothing\n", "it pins nothing"),
        ("main.txt", "x==1\n", "rename the file"),
        ("a b.txt", "x==1\n", "rename the file"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path, name, text, says):
    (tmp_path / name).write_text(text)
    with pytest.raises(ToolchainError) as error:
        read([str(tmp_path / name)])
    assert says in str(error.value) and "\n" not in str(error.value)


def test_an_unknown_name_comes_with_the_nearest_and_two_of_a_name_are_refused(tmp_path):
    with pytest.raises(ToolchainError, match=r"no 'cute-4.8.1-cu14'; did you mean 'cute-4.8.1-cu1[23]'"):
        read(["cute-4.8.1-cu14"])
    (tmp_path / "cute-4.7.1.txt").write_text("x==1\n")
    with pytest.raises(ToolchainError, match="is listed twice"):
        read(["cute-4.7.1", str(tmp_path / "cute-4.7.1.txt")])


@pytest.mark.parametrize("tileiras", [None, "99.1"])
def test_the_newest_compilers_are_named_and_compared_if_they_are_not_pinned(tmp_path, tileiras):
    """`uv` resolves to today's pins but for one package; `snakemake` prints its arguments."""
    shutil.copytree(ROOT / "envs", tmp_path / "envs")
    pins = (ROOT / "envs/requirements.txt").read_text()
    pinned = next(line for line in pins.splitlines() if line.startswith("nvidia-cuda-tileiras=="))
    newest = f"nvidia-cuda-tileiras=={tileiras}" if tileiras else pinned
    (tmp_path / "newest").write_text(pins.replace(pinned, newest))
    stubs = {
        "uv": f'case "$*" in *generate-hashes*) cat;; *) cat >/dev/null; cat {tmp_path}/newest;; esac',
        "snakemake": "printf '%s\\n' \"$@\"",
    }
    for name, text in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    command = [str(tmp_path / "envs/pin.sh"), "newest", "gemm", "reduce"]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    if newest == pinned:
        assert done.stdout == "The pinned compilers are the newest ones.\n"
        return
    change, *arguments = done.stdout.splitlines()
    assert change == f"{pinned.replace('==', ' ')} → {tileiras}"
    assert arguments[-2:] == ["toolchains=[main, results/newest.txt]", "operators=[gemm,reduce]"]
    (one,) = read([str(tmp_path / "results/newest.txt")])
    assert one.replaces("cutile") and not one.replaces("cute") and dict(one.pins)["nvidia-cuda-tileiras"] == tileiras
