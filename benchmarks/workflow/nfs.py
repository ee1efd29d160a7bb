"""The workflow over NFS: a server, a head node and a node that runs its jobs, each a kernel of its own on this machine.

    apt-get download user-mode-linux nfs-kernel-server nfs-common libtirpc3 libevent-core-2.1-7 libnfsidmap1 libwrap0 \\
        kmod libkmod2
    for package in *.deb; do dpkg -x $package PACKAGES; done
    pip install --no-deps --target PLUGIN snakemake-executor-plugin-cluster-generic==1.0.9
    unshare --net .venv/bin/python benchmarks/workflow/nfs.py PACKAGES PLUGIN FOLDER

The kernels are User-mode Linux, see this machine's files by hostfs, and have a network of multicast packets that does
not leave the namespace that `unshare` makes. It needs root, 3 GB of memory and the environment with
envs/requirements-slurm.txt. Cards and measuring are pretended; jobs are handed over by the executor cluster-generic. It
takes some ten minutes and prints what happened: nothing is asserted.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks/workflow"), str(ROOT / "workflow/scripts")]

from many_cases import prepared  # noqa: E402

SHARED = "/tmp/nfs"
NETWORK = "eth0=mcast,,239.192.168.1,1102,1"
COMMON = """#!/bin/bash
export PATH={packages}/usr/sbin:{packages}/sbin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LANG=C.UTF-8
export LD_LIBRARY_PATH={packages}/usr/lib/x86_64-linux-gnu:{packages}/lib/x86_64-linux-gnu
mount -t proc proc /proc; mount -t sysfs sys /sys
for place in /tmp /run /var/lib /mnt; do mount -t tmpfs tmpfs $place; done
mkdir -p /dev/shm /mnt/control; mount -t tmpfs tmpfs /dev/shm; mount -t hostfs none /mnt/control -o {control}
hostname {name}; ip link set lo up; ip link set eth0 up; ip addr add {address}/24 dev eth0
load() {{
  for module in "$@"; do (exec -a insmod {packages}/bin/kmod $(find {packages}/usr/lib/uml -name $module.ko)); done
}}
load sunrpc grace lockd
{more}
touch /mnt/control/ready; number=1
while :; do
  if [ -f /mnt/control/$number.sh ]; then
    bash /mnt/control/$number.sh > /mnt/control/$number.out 2>&1
    echo $? > /mnt/control/code; mv /mnt/control/code /mnt/control/$number.code; number=$((number + 1))
  else sleep 0.2; fi
done
"""
SERVER = """load oid_registry auth_rpcgss nfs_acl nfsd
mkdir -p /tmp/export /var/lib/nfs/v4recovery; mount -t ext4 /dev/ubda /tmp/export
mount -t nfsd nfsd /proc/fs/nfsd; touch /var/lib/nfs/etab /var/lib/nfs/rmtab
exportfs -i -o rw,no_root_squash,no_subtree_check,fsid=0,insecure,async 10.0.0.0/24:/tmp/export
rpc.mountd -N 3; rpc.nfsd -N 3 -G 10 -L 10 4"""
NODE = """load netfs fscache nfs dns_resolver nfsv4; mkdir {shared}
mount -i -t nfs4 -o vers=4.2,addr=10.0.0.1,clientaddr={address} 10.0.0.1:/ {shared}"""
# What a cluster's commands would be: a job is put into a folder, from which a loop on the node takes it.
SUBMIT = """#!/bin/bash
number=$(date +%s%N); cp "$1" {shared}/queue/$number.new; mv {shared}/queue/$number.new {shared}/queue/$number.job
echo $number
"""
STATUS = """#!/bin/bash
ls {shared}/queue > /dev/null
[ -f {shared}/queue/$1.code ] || {{ echo running; exit; }}
[ "$(cat {shared}/queue/$1.code)" = 0 ] && echo success || echo failed
"""
LOOP = """{environment}
while :; do
  for job in $(ls {shared}/queue/*.job 2>/dev/null); do
    mv $job $job.taken
    (bash $job.taken > $job.log 2>&1; echo $? > $job.code; date +%s > $job.ended; mv $job.code ${{job%.job}}.code) &
  done
  sleep 0.5
done
"""
RUN = """{environment}
cd {shared}/project; sed -i "s/rows: .*, columns/rows: {rows}, columns/" sweep.yaml
snakemake measured --configfile sweep.yaml --workflow-profile profiles/slurm --executor cluster-generic \\
  --cluster-generic-submit-cmd {tools}/submit --cluster-generic-status-cmd {tools}/status \\
  --seconds-between-status-checks 2 --jobs 4 {options}
"""
LOCK = """python3 -c "
import fcntl, time
stream = open('{shared}/project/.snakemake/cutesnake.lock', 'a')
fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
print('has it', flush=True)
time.sleep({seconds})" 2>&1 | tail -n 1"""


class Kernel:
    """A machine of User-mode Linux; `run` has it run a script."""

    def __init__(self, packages: Path, folder: Path, name: str, address: str, more: str, *arguments: str) -> None:
        self.control = folder / name
        self.control.mkdir(parents=True)
        text = COMMON.format(packages=packages, control=self.control, name=name, address=address, more=more)
        start = folder / f"{name}.sh"
        start.write_text(text)
        start.chmod(0o755)
        self._number = 0
        root = ("rootfstype=hostfs", "rootflags=/", "ro", "con=null", "con0=null,fd:1", NETWORK)
        self._process = subprocess.Popen(
            [packages / "usr/bin/linux.uml", *root, f"umid={name}", f"init={start}", *arguments],
            env={**os.environ, "TMPDIR": "/dev/shm", "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=(folder / f"{name}.log").open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._wait(self.control / "ready", 60)

    def start(self, script: str) -> Path:
        """Have it run a script; the file that tells how it ended."""
        self._number += 1
        new = self.control / "new"
        new.write_text(script)
        new.rename(self.control / f"{self._number}.sh")
        return self.control / f"{self._number}.code"

    def run(self, script: str, seconds: float = 900) -> str:
        """The end of what a script says, and the code that it ends with."""
        return self.ended(self.start(script), seconds)

    def ended(self, code: Path, seconds: float = 900) -> str:
        self._wait(code, seconds)
        told = [line.strip() for line in self.said().splitlines() if line.strip()]
        jobs = [f"{told.count('rule batch:')} batches"] if any("Job stats" in line for line in told) else []
        return f"{'; '.join([*jobs, *told[-3:]])} [{code.read_text().strip()}]"

    def said(self) -> str:
        """What the last script has said so far."""
        path = self.control / f"{self._number}.out"
        return path.read_text(errors="replace").strip() if path.exists() else ""

    def end(self) -> None:
        """As a machine that loses its power."""
        with contextlib.suppress(ProcessLookupError):  # it was ended before
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _wait(self, path: Path, seconds: float) -> Path:
        until = time.monotonic() + seconds
        while not path.exists():
            if time.monotonic() > until or self._process.poll() is not None:
                raise SystemExit(f"waited in vain for {path}; see {self.control}.log")
            time.sleep(0.1)
        return path


def main(packages: str, plugin: str, folder: str) -> None:
    out = Path(folder).resolve()
    shutil.rmtree(out, ignore_errors=True)
    tools = out / "tools"
    tools.mkdir(parents=True)
    for name, text in {"submit": SUBMIT, "status": STATUS}.items():
        (tools / name).write_text(text.format(shared=SHARED))
        (tools / name).chmod(0o755)
    project = prepared(out, 4, 1, 2)
    subprocess.run(["tar", "-cf", out / "project.tar", "-C", project, "."], check=True)
    disk = out / "disk"
    subprocess.run(["truncate", "-s", "2G", disk], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", disk], check=True)
    for command in ("link set lo up", "link set lo multicast on", "route add 239.0.0.0/8 dev lo"):
        subprocess.run(["ip", *command.split()], check=True)
    kernels = [Kernel(Path(packages).resolve(), out, "server", "10.0.0.1", SERVER, "mem=512M", f"ubd0={disk}")]
    try:
        for name, address in (("head", "10.0.0.2"), ("node", "10.0.0.3")):
            more = NODE.format(shared=SHARED, address=address)
            kernels.append(Kernel(Path(packages).resolve(), out, name, address, more, "mem=2G"))
        tried(*kernels[1:], tools, Path(plugin).resolve())
    finally:
        for kernel in kernels:
            kernel.end()


def tried(head: Kernel, node: Kernel, tools: Path, plugin: Path) -> None:
    here = f"export CUTESNAKE_MACHINE={SHARED}/project/machine.json PYTHONPATH={plugin} PYTHONDONTWRITEBYTECODE=1"
    environment = f"{here} PATH={Path(sys.executable).parent}:$PATH"
    words = {"shared": SHARED, "environment": environment, "tools": tools}

    def measured(rows: list[int], options: str = "") -> str:
        return RUN.format(rows=json.dumps(rows), options=options, **words)

    head.run(f"mkdir {SHARED}/project {SHARED}/queue; tar -xf {tools.parent}/project.tar -C {SHARED}/project")
    print("clock of the node:", node.run("date -s '+1 hour'"))
    loop = tools / "loop"
    loop.write_text(LOOP.format(**words))
    node.run(f"nohup bash {loop} > /dev/null 2>&1 &")
    print("four cases:", head.run(measured([1, 2, 3, 4])))
    print("the same again:", head.run(measured([1, 2, 3, 4])))
    print("clock of the node:", node.run("date -s '-2 hours'"))
    code = head.start(measured([1, 2, 3, 4, 5, 6]))
    while "Submitted job" not in head.said() and not code.exists():
        time.sleep(0.5)
    alone = f"{environment}; cd {SHARED}/project; snakemake measured --cores 1 --configfile sweep.yaml"
    print("a second run meanwhile:", node.run(alone))
    print("two more cases:", head.ended(code))
    print("a wait for files of 5 s:", head.run(measured([1, 2, 3, 4, 5, 6, 7, 8], "--latency-wait 5 --retries 0")))
    print("the same with the profile's:", head.run(measured([1, 2, 3, 4, 5, 6, 7, 8])))
    head.start(LOCK.format(shared=SHARED, seconds=600))
    time.sleep(5)
    print("the lock beside a head node that has it:", node.run(LOCK.format(shared=SHARED, seconds=0)))
    head.end()
    ended = time.monotonic()
    while "has it" not in node.run(LOCK.format(shared=SHARED, seconds=0)):
        time.sleep(1)
    print(f"the lock after that head node's end: after {time.monotonic() - ended:.0f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
