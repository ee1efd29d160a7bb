"""Shared servers.

No other user can answer in their place, be answered, or have them write somewhere else.
"""

import contextlib
import os
import socket
import stat
import threading
from collections.abc import Callable

import pytest

from cpu_backend import small_case
from cutesnake.runtime import locks, pool, private_folder
from cutesnake.stages.measure import gpu_process

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


def ask() -> dict:
    return gpu_process.ask(small_case().as_dict(), 1.0)


def test_the_folder_is_this_users_alone(shared) -> None:
    folder = private_folder.private_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and pool.lock_path("gpu").parent == folder
    folder.chmod(0o755)
    with pytest.raises(gpu_process.GpuProcessError, match="is not a folder that only this user can enter"):
        ask()


@pytest.mark.parametrize("how", ["link", "file"])
def test_something_else_in_its_place_is_refused(shared, how) -> None:
    place = shared / f"cutesnake-{os.getuid()}"
    (shared / "elsewhere").mkdir(mode=0o700)
    place.symlink_to(shared / "elsewhere") if how == "link" else place.touch()
    with pytest.raises((private_folder.PrivateError, FileExistsError)):
        private_folder.private_folder()


@pytest.mark.fault("Users", "another user creates the GPU worker's folder", "refused")
@needs_root
def test_a_folder_that_another_user_made_first_is_refused(shared) -> None:
    place = shared / f"cutesnake-{os.getuid()}"
    assert as_nobody(lambda: place.mkdir(0o700)) == 0
    with pytest.raises(gpu_process.GpuProcessError, match="set TMPDIR to a folder of your own"):
        ask()


@pytest.mark.fault("Users", "another user answers as the worker", "not believed")
@needs_root
def test_a_server_of_another_user_is_not_believed(shared) -> None:
    # Even at the address of a server that has ended. The kernel tells whose the other end is, and a new one starts.
    ready, done = os.pipe(), os.pipe()
    address = pool._address("ended", "nothing")
    pool.lock_path("nothing").write_text("ended")

    def forge() -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        os.write(ready[1], b"1")
        os.read(done[0], 1)

    thread = threading.Thread(target=as_nobody, args=(forge,))
    thread.start()
    os.read(ready[0], 1)
    try:
        with contextlib.closing(pool.shared("nothing", idle_s=0.0)) as connection:
            assert private_folder.is_own(connection) and connection.getpeername() != address.encode()
            assert "exit" in next(pool.replies(connection, "fork_tasks:leave", {"code": 0}))
    finally:
        os.write(done[1], b"1")
        thread.join()


@pytest.mark.fault("Users", "another user calls the worker", "not answered")
@needs_root
def test_the_server_does_not_answer_another_user(shared) -> None:
    """Any user can see the address of a socket and connect to it."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(f"\0cutesnake-test-{os.getpid()}")
        listener.listen()
        address = listener.getsockname()
        server = pool.Server(listener, {})

        def speak() -> None:
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(address)
            os._exit(3 if connection.recv(1) == b"" else 4)

        statuses: list[int] = []
        thread = threading.Thread(target=lambda: statuses.append(as_nobody(speak)))
        thread.start()
        while not server._selector.select(timeout=1.0):
            pass
        server._accept()
        thread.join()
        assert statuses == [3] and not server._children


@pytest.mark.parametrize("end", [".lock", ".log"])
def test_a_link_in_place_of_a_servers_files_truncates_nothing(shared, end) -> None:
    victim = shared / "victim"
    victim.write_text("precious")
    pool.lock_path("gpu").with_suffix(end).symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        ask()
    assert victim.read_text() == "precious"


@pytest.mark.fault("Users", "a link in place of a GPU's lock file", "not followed")
def test_a_link_at_the_cards_lock_is_not_followed(shared, monkeypatch) -> None:
    monkeypatch.setattr(locks, "GPU_FOLDER", shared)
    locks.gpu_lock_path("card").symlink_to(shared / "made elsewhere")
    with pytest.raises(OSError, match="symbolic links"), locks.gpu_lock("card"):
        pass
    assert not (shared / "made elsewhere").exists()
