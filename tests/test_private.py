"""The worker's socket: no other user can answer in its place, be answered by it, or have it write somewhere else."""

import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cpu_backend import small_case
from cutesnake.runtime import locks, worker
from cutesnake.runtime import private_folder as private

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="another user can be played by root only")


def as_nobody(action: Callable[[], object]) -> int:
    """Exit status of an action done by another user in a process of its own."""
    child = os.fork()
    if child == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            action()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_the_folder_is_this_users_alone(shared) -> None:
    folder = private.private_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and worker.socket_path().parent == folder
    folder.chmod(0o755)
    with pytest.raises(worker.WorkerError, match="is not a folder that only this user can enter"):
        worker.ask(small_case().as_dict(), 1.0)


@pytest.mark.parametrize("how", ["link", "file"])
def test_something_else_in_its_place_is_refused(shared, how) -> None:
    place = shared / f"cutesnake-{os.getuid()}"
    (shared / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(shared / "elsewhere") if how == "link" else place.touch()
    with pytest.raises((private.PrivateError, FileExistsError)):
        private.private_folder()


@needs_root
def test_a_folder_that_another_user_made_first_is_refused(shared) -> None:
    place = shared / f"cutesnake-{os.getuid()}"
    assert as_nobody(lambda: place.mkdir(0o700)) == 0
    with pytest.raises(worker.WorkerError, match="set TMPDIR to a folder of your own"):
        worker.ask(small_case().as_dict(), 1.0)


@needs_root
def test_another_user_cannot_connect(shared) -> None:
    path = worker.socket_path()
    server = worker.Server(path, idle_s=0.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def connect() -> None:
        socket.socket(socket.AF_UNIX).connect(str(path))

    assert as_nobody(connect) == 1
    server.serve()


@needs_root
def test_a_server_of_another_user_is_not_believed(shared, monkeypatch) -> None:
    """Even where it got into the folder: the kernel tells whose the other end is."""
    path = shared / "stolen.sock"
    ready, done = os.pipe(), os.pipe()

    def forge() -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        path.chmod(0o777)
        listener.listen()
        os.write(ready[1], b"1")
        os.read(done[0], 1)

    thread = threading.Thread(target=as_nobody, args=(forge,))
    thread.start()
    os.read(ready[0], 1)
    monkeypatch.setattr(worker, "socket_path", lambda: path)
    try:
        with pytest.raises(worker.WorkerError, match="answered by another user's process"):
            worker.ask(small_case().as_dict(), 1.0)
    finally:
        os.write(done[1], b"1")
        thread.join()


@needs_root
def test_the_server_does_not_answer_another_user(shared) -> None:
    """Even one that got hold of the socket."""
    path = worker.socket_path()
    server = worker.Server(path, idle_s=0.0)
    for place in (path.parent, path):
        place.chmod(0o777)

    def speak() -> None:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        os._exit(3 if connection.recv(1) == b"" else 4)

    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(as_nobody(speak)))
    thread.start()
    while not server._selector.select(timeout=1.0):
        pass
    server._accept()
    thread.join()
    assert statuses == [3] and not server._children
    server.serve()


def test_a_link_at_the_start_file_truncates_nothing(shared) -> None:
    victim = shared / "victim"
    victim.write_text("precious")
    start = Path(f"{worker.socket_path()}.start")
    start.symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        worker.ask(small_case().as_dict(), 1.0)
    assert victim.read_text() == "precious"


def test_a_link_at_the_cards_lock_is_not_followed(shared, monkeypatch) -> None:
    monkeypatch.setattr(locks, "GPU_FOLDER", shared)
    locks.gpu_lock_path("card").symlink_to(shared / "made elsewhere")
    with pytest.raises(OSError, match="symbolic links"), locks.gpu_lock("card"):
        pass
    assert not (shared / "made elsewhere").exists()
