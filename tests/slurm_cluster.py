"""A Slurm of several virtual nodes on this machine, in a private folder, for tests.

Debian's slurmctld, slurmd, munge.

    python tests/slurm_cluster.py up /tmp/cluster      # prints the variables to export
    python tests/slurm_cluster.py down /tmp/cluster

Nodes have more processors than the machine. Slurm's task prolog has the jobs of a GPU node mock the machine of a
file in tests/machines; its GPUs are empty files that Slurm counts.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "scancel")
MACHINES = Path(__file__).parent / "machines"
WAIT_SECONDS = 30.0
PROLOG = """#!/bin/sh
# Lines that begin with `export` are set in the task's environment.
case "$SLURMD_NODENAME" in
{cases}
*) echo "export CUTESNAKE_MACHINE={none}" ;;
esac
"""
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
TaskProlog={folder}/prolog
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
MinJobAge=600
KillWait=2
SlurmdTimeout=20
GresTypes=gpu
MaxArraySize=2000
"""


@dataclass(frozen=True)
class Node:
    """A virtual node.

    `machine` is the file of tests/machines that its jobs mock, `GPUs` what Slurm counts.
    """

    name: str
    partition: str
    processors: int = 4
    machine: str = "none"
    gpus_of_node: int = 0
    kind: str = "card"  # of the GPUs, as Slurm calls them


NODES = (Node("cpu1", "cpu"), Node("cpu2", "cpu"), Node("gpu1", "gpu", machine="h200", gpus_of_node=1, kind="h200"))


def missing() -> list[str]:
    """Programs that a cluster needs and this machine lacks."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


class Cluster:
    """The daemons of a cluster, as a context manager; `environment` is what its commands need."""

    def __init__(self, folder: Path, nodes: Sequence[Node] = NODES) -> None:
        self.folder = folder.resolve()
        self.nodes = nodes
        path = os.pathsep.join((str(self.folder / "bin"), os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def __enter__(self) -> Cluster:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Start everything and wait until every node is idle.

        RuntimeError with the logs if that does not happen.
        """
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        (self.folder / "state").mkdir(exist_ok=True)
        self._write()
        self._start_munge()
        self._start("slurmctld", "-c")
        for node in self.nodes:
            self.start_node(node.name)
        self._wait_for_nodes()

    def start_node(self, name: str) -> None:
        self._start("slurmd", "-N", name)

    def kill_node(self, name: str) -> None:
        """End a node as a lost one ends.

        Its daemon, its jobs and their processes, without a word to anybody.
        """
        self._kill([int((self.folder / f"slurmd-{name}.pid").read_text()), *self._steps(name)])

    def down(self) -> None:
        """End all daemons and what they started."""
        jobs = subprocess.run(
            ["scancel", "--user", pwd.getpwuid(os.getuid()).pw_name, "--full"],
            env=self._environ(),
            capture_output=True,
            timeout=20,
            check=False,
        )
        time.sleep(1.0 if jobs.returncode == 0 else 0.0)
        result = [int(path.read_text()) for path in self.folder.glob("*.pid") if path.read_text().strip()]
        self._kill([*result, *self._steps()])

    def run(self, *command: str) -> str:
        """What one of Slurm's commands says."""
        done = subprocess.run(
            command, env=self._environ(), capture_output=True, text=True, timeout=WAIT_SECONDS, check=True
        )
        return done.stdout

    def states(self) -> dict[str, str]:
        lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %t").split("\n")
        return dict(line.split() for line in lines if line.strip())

    def _environ(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def _write(self) -> None:
        folder = self.folder
        lines = [
            CONFIG.format(
                host=socket.gethostname(), port=_free_port(), user=pwd.getpwuid(os.getuid()).pw_name, folder=folder
            )
        ]
        gres = []
        for node in self.nodes:
            gpus = f" Gres=gpu:{node.kind}:{node.gpus_of_node}" if node.gpus_of_node else ""
            lines.append(
                f"NodeName={node.name} NodeAddr=127.0.0.1 NodeHostname={socket.gethostname()} Port={_free_port()} "
                f"CPUs={node.processors} RealMemory=64000{gpus}"
            )
            for number in range(node.gpus_of_node):
                file = folder / node.name / f"nvidia{number}"
                file.parent.mkdir(exist_ok=True)
                file.touch()
                gres.append(f"NodeName={node.name} Name=gpu Type={node.kind} File={file}")
        for number, partition in enumerate(dict.fromkeys(node.partition for node in self.nodes)):
            names = ",".join(node.name for node in self.nodes if node.partition == partition)
            default = " Default=YES" if number == 0 else ""
            lines.append(f"PartitionName={partition} Nodes={names}{default} MaxTime=INFINITE State=UP PriorityTier=1")
            lines.append(f"PartitionName=urgent_{partition} Nodes={names} MaxTime=INFINITE State=UP PriorityTier=9")
        (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        (folder / "gres.conf").write_text("\n".join(gres) + "\n")
        # Snakemake's job step starts srun without the variable that tells where this cluster's configuration is.
        step = folder / "bin" / "srun"
        step.parent.mkdir(exist_ok=True)
        step.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
        step.chmod(0o755)
        cases = [
            f'{node.name}) echo "export CUTESNAKE_MACHINE={self._write_machine(node)}" ;;'
            for node in self.nodes
            if node.machine != "none"
        ]
        prolog = folder / "prolog"
        prolog.write_text(PROLOG.format(cases="\n".join(cases), none=MACHINES / "none.json"))
        prolog.chmod(0o755)

    def _write_machine(self, node: Node) -> Path:
        """The machine of a node, whose GPUs have numbers of their own.

        GPUs of one number would be one GPU.
        """
        machine = json.loads((MACHINES / f"{node.machine}.json").read_text())
        for place, gpu in enumerate(machine["devices"]):
            gpu["uuid_hash"] = f"{node.name}card{place}"
        path = self.folder / f"{node.name}.json"
        path.write_text(json.dumps(machine))
        return path

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        if not key.exists():
            key.write_bytes(os.urandom(1024))
            key.chmod(0o600)
        files = {"key-file": key, "socket": self.folder / "munge.socket", "pid-file": self.folder / "munge.pid"}
        files |= {"log-file": self.folder / "munge.log", "seed-file": self.folder / "munge.seed"}
        self._start("munged", "--force", *(f"--{name}={path}" for name, path in files.items()))

    def _start(self, program: str, *arguments: str) -> None:
        """A daemon puts itself into the background."""
        done = subprocess.run(
            [program, *arguments],
            env=self._environ(),
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stderr or done.stdout}")

    def _wait_for_nodes(self) -> None:
        until = time.monotonic() + WAIT_SECONDS
        states: dict[str, str] = {}
        while time.monotonic() < until:
            try:
                states = self.states()
            except subprocess.CalledProcessError:
                states = {}
            if len(states) == len(self.nodes) and set(states.values()) == {"idle"}:
                return
            time.sleep(0.3)
        logs = "\n".join(f"{path.name}: {path.read_text()[-800:]}" for path in self.folder.glob("*.log"))
        raise RuntimeError(f"the nodes are {states}, not all idle\n{logs}")

    def _steps(self, node: str = "") -> list[int]:
        """Processes of jobs, of one node or of all.

        Slurm's step daemons, and all that was started by them.
        """
        result = []
        for folder in Path("/proc").glob("[0-9]*"):
            environment = _read(folder / "environ").split(b"\0")
            if f"SLURM_CONF={self.folder}/slurm.conf".encode() not in environment:
                continue
            step = _read(folder / "cmdline").startswith(b"slurmstepd")
            in_job = any(line.startswith(b"SLURM_JOB_ID=") for line in environment)
            local = not node or f"SLURMD_NODENAME={node}".encode() in environment
            if local and (step or in_job):
                result.append(int(folder.name))
        return result

    def _kill(self, processes: Iterable[int]) -> None:
        for process in dict.fromkeys(processes):
            if process != os.getpid():
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def main(action: str, folder: str) -> None:
    cluster = Cluster(Path(folder))
    if action == "up":
        cluster.up()
        print("\n".join(f"export {name}={value}" for name, value in cluster.environment.items()))
    elif action == "down":
        cluster.down()
    else:
        sys.exit(f"{action}: up or down is wanted")


if __name__ == "__main__":
    main(*sys.argv[1:])
