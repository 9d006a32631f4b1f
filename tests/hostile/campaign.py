"""campaign.py - campaigns, and helpers of all their cases: run a command, check how it ended, keep findings."""
import concurrent.futures
import hashlib
import os
import random
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "common"), os.path.join(HERE, "..", "fuzz")]
import outcome

KEPT_BYTES = 64 << 20  # of the files of one finding
SECONDS, SANITIZED_SECONDS = 10, 30
MEMORY_KIB, SANITIZED_MEMORY_KIB = 600 << 10, 2 << 20


def is_sanitized(program):
    with open(program, "rb") as f:
        data = f.read()
    return b"__asan_init" in data or b"__tsan_init" in data


class Context:
    """The context of every case. `gtrain` is the program under test; `plain` one without sanitizers; `seeds` the folder of good files."""

    def __init__(self, gtrain, plain, tests, folder, found):
        self.gtrain, self.plain, self.tests = gtrain, plain, tests
        self.folder, self.found = folder, found
        self.seeds = os.path.join(folder, "seeds")
        self.sanitized = is_sanitized(gtrain)
        self.environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "0", "LC_ALL": "C.UTF-8",
            "ASAN_OPTIONS": "allocator_may_return_null=1:intercept_tls_get_addr=0:max_allocation_size_mb=1024:hard_rss_limit_mb=2048",
            "UBSAN_OPTIONS": "print_stacktrace=1", "LSAN_OPTIONS": f"suppressions={HERE}/../lint/lsan.supp:print_suppressions=0",
        }
        os.makedirs(self.seeds, exist_ok=True)

    def limits(self, program=None):
        """The seconds and the KiB of memory that one command may take."""
        if self.sanitized and program in (None, self.gtrain):
            return SANITIZED_SECONDS, SANITIZED_MEMORY_KIB
        return SECONDS, MEMORY_KIB


class Case:
    """One case: a seed, a folder to work in, the commands it ran, the problems it found."""

    def __init__(self, context, name, seed):
        self.context, self.name, self.seed = context, name, seed
        self.random = random.Random(f"{name}:{seed}")
        self.folder = tempfile.mkdtemp(prefix=f"{name}-", dir=context.folder)
        self.commands, self.problems, self.planted = [], [], set()

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *args, program=None, traced=()):
        """Start gtrain in the case's folder; the result of its finish() is for judge()."""
        environment = self.context.environment
        if traced:  # the search for leaks does not work in a program that is traced already
            environment = {**environment, "ASAN_OPTIONS": environment["ASAN_OPTIONS"] + ":detect_leaks=0"}
        self.commands.append(" ".join(map(str, args)))
        return outcome.Running([*traced, program or self.context.gtrain, *args], self.folder, environment, file_bytes=256 << 20)

    def judge(self, done, command, program=None, statuses=(0, 1, 2), findings=False):
        """Report the problems in how a command ended."""
        for problem in outcome.problems(done, statuses, findings):
            self.problem(problem, command)
        if done.peak_kib > self.context.limits(program)[1]:
            self.problem(f"{done.peak_kib} KiB of memory", command)

    def run(self, *args, program=None, traced=(), timeout=None, statuses=(0, 1, 2), findings=False):
        """Run gtrain in the case's folder and judge how it ended."""
        with self.start(*args, program=program, traced=traced) as command:
            done = command.finish(timeout or self.context.limits(program)[0])
        self.judge(done, self.commands[-1], program, statuses, findings)
        if done.status in (0, 1, 2):
            self.find_temporaries()
        return done

    def find_temporaries(self):
        """Report, and remove, files that no command that runs still needs."""
        for path in outcome.temporaries(self.folder):
            if path not in self.planted:
                self.problem(f"left behind: {os.path.relpath(path, self.folder)}")
                os.unlink(path)

    def problem(self, text, command=None):
        self.problems.append((text, command or (self.commands[-1] if self.commands else "")))

    def digest(self, name):
        """Of a file's bytes; None where there is none."""
        try:
            with open(self.path(name), "rb") as f:
                return hashlib.sha256(f.read()).hexdigest()
        except (FileNotFoundError, IsADirectoryError):
            return None


class Campaign:
    """`prepare(context)` makes the good files once; `case(case)` is one case. `share` weighs its part of the time.
    `missing(context)` says why the campaign cannot run on this machine; "" where it can."""

    def __init__(self, name, prepare, case, share=1, missing=lambda context: ""):
        self.name, self.prepare, self.one, self.share, self.missing = name, prepare, case, share, missing

    def run_case(self, context, seed):
        """(problems, commands run) of one case. Its folder is kept where it found something."""
        case = Case(context, self.name, seed)
        try:
            self.one(case)
        except Exception as e:  # a fault of the campaign must not pass for a success
            case.problem(f"the campaign itself failed: {type(e).__name__}: {e}")
        if case.problems:
            keep(case)
        shutil.rmtree(case.folder, ignore_errors=True)
        return case.problems, len(case.commands)

    def run(self, context, seconds, seed, jobs=1):
        """Cases until the time is over: (counts, findings). A finding is (case's seed, problem, command)."""
        deadline = time.monotonic() + seconds
        seeds = random.Random(f"{self.name}:{seed}")
        counts, findings = {"cases": 0, "commands": 0}, []
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            running = set()
            while running or time.monotonic() < deadline:
                while len(running) < jobs and time.monotonic() < deadline:
                    number = seeds.randrange(1 << 32)
                    job = pool.submit(self.run_case, context, number)
                    job.number = number
                    running.add(job)
                done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for job in done:
                    problems, commands = job.result()
                    counts["cases"] += 1
                    counts["commands"] += commands
                    findings += [(job.number, *p) for p in problems]
        return counts, findings


def folder_bytes(folder):
    return sum(os.lstat(os.path.join(where, n)).st_size for where, _, names in os.walk(folder) for n in names)


def keep(case):
    """Copy the case's folder, and write down the commands that were run in it."""
    to = os.path.join(case.context.found, f"{case.name}-{case.seed}")
    shutil.rmtree(to, ignore_errors=True)
    os.makedirs(to)
    if folder_bytes(case.folder) <= KEPT_BYTES:
        for where, folders, names in os.walk(case.folder):
            inside = os.path.join(to, "files", os.path.relpath(where, case.folder))
            os.makedirs(inside, exist_ok=True)
            for name in names:
                path = os.path.join(where, name)
                if os.path.islink(path) or os.path.isfile(path):
                    shutil.copy2(path, os.path.join(inside, name), follow_symlinks=False)
    with open(os.path.join(to, "commands"), "w") as f:
        f.writelines(f"gtrain {command}\n" for command in case.commands)
        f.writelines(f"# {text} ({command})\n" for text, command in case.problems)
