"""outcome.py - run gtrain with a time limit and judge how it ended: no signal, no sanitizer report, one clear line."""
import os
import re
import signal
import subprocess
import tempfile
import time

REPORT = re.compile(r"(==\d+==\s*ERROR: \w+Sanitizer.*|SUMMARY: \w+Sanitizer.*|WARNING: ThreadSanitizer.*|.*: runtime error: .*|.*hard rss limit.*)")
ERROR = "gtrain: error: "
TEMPORARY = re.compile(r"\.tmp-[0-9-]+$")


def limited(args, **limits):
    """The arguments that run a command under limits, which have the names of prlimit(1)'s options. A preexec_fn would not do: it may
    deadlock if this process has threads, and makes subprocess fork, which takes 30 ms once PyTorch is loaded."""
    words = list(map(str, args))
    return ["prlimit", *(f"--{name}={most}" for name, most in limits.items()), "--", *words] if limits else words


class Outcome:
    """How a command ended. `status` is negative for a signal, None when it ran out of time."""

    def __init__(self, args, status, out, err, seconds, peak_kib):
        self.args, self.status, self.out, self.err, self.seconds, self.peak_kib = args, status, out, err, seconds, peak_kib

    def lines(self):
        return self.err.splitlines()

    def errors(self):
        return [line for line in self.lines() if line.startswith(ERROR)]


class Running:
    """A command that was started, in a session of its own. Output goes to files: ranks that outlive their launcher cannot hold up
    the reader of a pipe. With `with`, nothing of the session is left running at the end."""

    def __init__(self, args, cwd=None, env=None, file_bytes=0):
        self.args, self.start = args, time.monotonic()
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        limits = {"core": 0, "fsize": file_bytes} if file_bytes else {"core": 0}
        self.process = subprocess.Popen(limited(args, **limits), stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, cwd=cwd,
                                        env=env, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.out.close()
        self.err.close()

    def kill(self):
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def finish(self, timeout):
        """How the command ended; `timeout` seconds after its start the whole session is killed."""
        status, usage = self.wait(self.start + timeout)
        for f in (self.out, self.err):
            f.seek(0)
        return Outcome(self.args, status, self.out.read(), self.err.read(1 << 20).decode(errors="replace"), time.monotonic() - self.start,
                       usage.ru_maxrss if usage else 0)

    def wait(self, deadline):
        """The status and the resources used; (None, None) at the deadline."""
        pause = 0.0005
        while True:
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                return self.process.returncode, usage
            if time.monotonic() > deadline:
                self.kill()
                return None, None
            time.sleep(pause)
            pause = min(2 * pause, 0.01)


def run(args, timeout=10, cwd=None, env=None, file_bytes=0):
    """Run a command to its end, or to the time limit."""
    with Running(args, cwd, env, file_bytes) as command:
        return command.finish(timeout)


def problems(outcome, statuses=(0, 1, 2), findings=False):
    """The rules for every command, whatever it is given. `findings`: its results may say what is wrong (verify, diff)."""
    said = REPORT.search(outcome.err)
    if said:
        return ["sanitizer: " + said.group(0).strip()]
    if outcome.status is None:
        return ["it hangs"]
    if outcome.status < 0:
        return ["signal " + signal.Signals(-outcome.status).name]
    if outcome.status not in statuses:
        return ["status %d: %s" % (outcome.status, outcome.err[-500:])]
    errors = len(outcome.errors())
    if outcome.status == 0 and errors:
        return ["status 0 with an error: " + outcome.err[-500:]]
    if outcome.status and not errors and not (findings and outcome.out):
        return ["status %d without a line that says why: %s" % (outcome.status, outcome.err[-500:])]
    return []


def only_error_and_hints(outcome):
    """One line of error; hints and warnings beside it; nothing else on standard error."""
    other = [line for line in outcome.lines() if not line.startswith((ERROR, "hint: ", "warning: "))]
    if len(outcome.errors()) != 1 or other:
        return ["standard error is not one line of error with hints: " + outcome.err[-500:]]
    return []


def temporaries(folder):
    """Files that an atomic write left behind."""
    return sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names if TEMPORARY.search(name))
