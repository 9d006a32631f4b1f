"""terminal.py - interrupt a command when it has written a text often enough: python3 terminal.py ROWS TIMES TEXT COMMAND...

The command gets a terminal of its own with so many rows and 80 columns, and the interruption is its Ctrl-C; with 0 rows
a pipe, and SIGINT. Prints all that it writes; the exit status is the command's, or 1 where it takes a minute.
"""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time


def start(rows, command, columns=80):
    """Start the command; its process, the end to read from, and a function that interrupts it."""
    if rows:
        pid, end = pty.fork()
    else:
        end, other = os.pipe()
        pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if rows:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.environ["TERM"] = "xterm"
        else:
            os.dup2(other, 1)
        os.execvp(command[0], command)
    if not rows:
        os.close(other)
    return pid, end, (lambda: os.write(end, b"\x03")) if rows else (lambda: os.kill(pid, signal.SIGINT))


def main():
    rows, times, text, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3].encode(), sys.argv[4:]
    pid, end, interrupt = start(rows, command)
    written, last = b"", time.monotonic() + 60
    while time.monotonic() < last:
        if not select.select([end], [], [], 1)[0]:
            continue
        try:
            data = os.read(end, 65536)
        except OSError:  # the command has left its terminal
            data = b""
        if not data:
            break
        if written.count(text) < times <= (written + data).count(text):
            interrupt()
        written += data
    else:
        os.kill(pid, signal.SIGKILL)
    sys.stdout.buffer.write(written)
    sys.stdout.flush()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    sys.exit(status if status >= 0 else 1)


if __name__ == "__main__":
    main()
