"""terminal.py - run a command on a terminal of its own for some time: python3 terminal.py ROWS SECONDS COMMAND...

Prints all bytes that it writes there. After these seconds the terminal's Ctrl-C is typed; the exit status is the
command's.
"""
import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time


def main():
    rows, seconds = int(sys.argv[1]), float(sys.argv[2])
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
        os.environ["TERM"] = "xterm"
        os.execvp(sys.argv[3], sys.argv[3:])
    end, typed = time.monotonic() + seconds, False
    while True:
        if not typed and time.monotonic() > end:
            os.write(terminal, b"\x03")
            typed = True
        if not select.select([terminal], [], [], 0.05)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        if not data:
            break
        sys.stdout.buffer.write(data)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
