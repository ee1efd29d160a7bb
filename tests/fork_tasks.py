"""Tasks of forked processes in tests."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def tell(path: str) -> None:
    """Write who and where this process is."""
    reported = {"pid": os.getpid(), "parent": os.getppid(), "session": os.getsid(0), "cwd": os.getcwd()}
    reported |= {"mark": os.environ.get("MARK"), "torch": "torch" in sys.modules}
    Path(path).write_text(json.dumps(reported))
    print("told")
    print("complained", file=sys.stderr)


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(code: int) -> None:
    sys.exit(code)


def leave_reported(code: int, path: str) -> None:
    tell(path)
    sys.exit(code)


def complain() -> None:
    raise ValueError("this is wrong")


def wait(path: str) -> None:
    """Write this process and one that it starts, and take a minute."""
    child = subprocess.Popen(["sleep", "60"])
    partial = Path(f"{path}.partial")
    partial.write_text(f"{os.getpid()} {child.pid}")
    partial.rename(path)
    time.sleep(60)


def leave_behind(path: str) -> None:
    Path(path).write_text(str(subprocess.Popen(["sleep", "60"]).pid))


def kill_server() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def build_cute_sm100_of_this_folder(folder: str, dtype: str, name: str) -> None:
    """Build a variant of the kernel whose source is below the working directory.

    build.json has its parameters.
    """
    sys.path.insert(0, os.getcwd())
    from kernels.mla_decode import cute_sm100
    from kernels.mla_decode.operator import Workload

    assert Path(cute_sm100.__file__).is_relative_to(Path.cwd()), "not the edited copy"
    result = cute_sm100.variants(Workload(1, 64, dtype), "sm_100a")
    variant = next(variant for variant in result if variant.id == name)
    cute_sm100.compile(variant, "sm_100a", Path(folder))
    Path(folder, "build.json").write_text(json.dumps({"variant": {"params": dict(variant.params)}}))
