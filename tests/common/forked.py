#!/usr/bin/env python3
"""forked.py - run test files by a process that has imported PyTorch already, which takes over a second of CPU time per file otherwise.

usage: forked.py serve SOCKET            until standard input ends; the socket is there once it can run tests
       forked.py run SOCKET FILE CPU     run FILE as `python3 FILE` would, and write the CPU time of its processes to CPU as bash's `times` does

The server forks a process for each file, before PyTorch has started any thread of its own. That process takes the client's environment,
folder and open files. A client that ends early, because of a signal or a time limit, takes the test and its process group with it."""
import json
import os
import socket
import sys


def receive(connection):
    """The client's request and its three standard files."""
    data, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not data.endswith(b"\n"):
        more = connection.recv(1 << 20)
        if not more:
            raise EOFError("a client has ended within its request")
        data += more
    return json.loads(data), files


def run_test(request, files):
    """In a process of its own: become the client, and run its file."""
    import runpy
    os.setpgid(0, 0)
    for i, file in enumerate(files):
        os.dup2(file, i)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    path = request["file"]
    sys.argv = [path]
    sys.path[0] = os.path.dirname(os.path.abspath(path))
    runpy.run_path(path, run_name="__main__")


def attend(connection):
    """In a process of its own: fork the test, and answer how it ended; kill it if the client goes first."""
    import select
    import signal
    request, files = receive(connection)
    ended, end = os.pipe()
    test = os.fork()
    if test == 0:
        os.close(ended)
        connection.close()
        run_test(request, files)
        sys.exit()
    for file in (*files, end):
        os.close(file)
    # The test's end of the pipe is closed when it exits: no descendant inherits it.
    gone = connection in select.select([connection, ended], [], [])[0]
    if gone:
        os.killpg(test, signal.SIGKILL)
    _, status, usage = os.wait4(test, 0)
    if not gone:
        connection.sendall(json.dumps([os.waitstatus_to_exitcode(status), usage.ru_utime, usage.ru_stime]).encode())


def serve(path):
    import select
    import signal
    import numpy  # noqa: F401
    import torch  # noqa: F401
    # A shell lets its background jobs ignore SIGINT, which tests send to programs.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who attend to clients
    while True:
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            attend(connection)
            os._exit(0)
        connection.close()


def run(path, file, cpu):
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    request = {"file": file, "folder": os.getcwd(), "environment": dict(os.environ)}
    socket.send_fds(server, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
    answer = server.recv(1 << 12)
    if not answer:
        sys.exit(f"{file}: the process that runs tests has ended")
    status, user, system = json.loads(answer)
    with open(cpu, "w") as f:
        f.write(f"0m{user:.3f}s 0m{system:.3f}s\n")
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    {"serve": serve, "run": run}[sys.argv[1]](*sys.argv[2:])
