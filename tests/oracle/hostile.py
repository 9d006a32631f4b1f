#!/usr/bin/python3
# hostile.py - the campaigns of tests/hostile: some cases of each, faults at every read, and faulty programs that they must report.
import os
import random
import stat
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "common"), os.path.join(ROOT, "tests", "hostile")]
import tap

import campaign
import faults
import races
import run as driver
import small_files

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
TESTS = os.path.abspath(os.environ.get("GTRAIN_TESTS", "build/tests"))
SEED = int(os.environ.get("SEED") or 1)
CASES = {"checkpoints": 15, "data_files": 15, "faults": 25, "races": 2, "run_dirs": 10}  # kills take too long
CASES = CASES if tap.THOROUGH else {name: (count + 1) // 2 for name, count in CASES.items()}
FAIL_AT = os.path.join(TESTS, "fail_at")


def context_for(gtrain, folder):
    return campaign.Context(gtrain, gtrain, TESTS, folder, os.path.join(folder, "found"))


def some_cases(folder):
    context = context_for(GTRAIN, folder)
    for one in driver.campaigns():
        missing = one.missing(context) if one.name in CASES else ""
        if missing:
            yield f"{one.name}: {CASES[one.name]} cases # SKIP {missing}", ""
        elif one.name in CASES:
            one.prepare(context)
            seeds = random.Random(f"{one.name}{SEED}")
            found = []
            for _ in range(CASES[one.name]):
                number = seeds.randrange(1 << 32)
                problems, commands = one.run_case(context, number)
                found += [f"--case {one.name}:{number}: {p}: {c}" for p, c in problems]
                found += [] if commands else [f"case {number} ran nothing"]
            yield f"{one.name}: {CASES[one.name]} cases", "\n".join(found)


def every_read(folder):
    """Each read of a checkpoint interrupted, short, failing: the first two change nothing, the last is an error. verify reads all that
    ls reads, and then the tensors, again and again by the same code: each of its reads has one of the three, as have those of ls in `make check`."""
    context = context_for(GTRAIN, folder)
    missing = faults.missing(context)
    if missing:
        yield f"each read interrupted, short, failing # SKIP {missing}", ""
        return
    faults.prepare(context)
    for command in faults.COMMANDS:
        if command.name not in ("ls", "verify"):
            continue
        case = campaign.Case(context, "faults", command.name)
        counts, _, status, said = faults.reference(case, command)
        faults.lay_out(case, command)
        found = []
        stride = 3 if command.name == "verify" or not tap.THOROUGH else 1
        for i, how in enumerate(("EINTR", "short", "EIO")):
            for number in range(1 + i * (stride > 1), counts["pread"] + 1, stride):
                done = case.run(*command.args, traced=faults.traced(case, "pread", number, how), statuses=(0, 1), findings=True)
                wanted = 1 if how == "EIO" else status
                if done.status != wanted or (not done.status and done.out != said):
                    found.append(f"read {number} {how}: status {done.status}, {done.err}")
        yield f"{command.name}: each of {counts['pread']} reads interrupted, short, failing", "\n".join(found + [p for p, _ in case.problems])


FAKES = {  # a faulty program, as a shell script, and the problem to be reported
    "crashes": ("kill -SEGV $$", "signal SIGSEGV"),
    "aborts with a report": ("echo '==1==ERROR: AddressSanitizer: heap-buffer-overflow' >&2; exit 1", "sanitizer: "),
    "hangs": ("sleep 60", "it hangs"),
    "fails in silence": ("exit 1", "without a line that says why"),
    "fails with an unknown status": ("echo 'gtrain: error: no' >&2; exit 77", "status 77"),
    "leaves a temporary file": ("touch \"$PWD/out.pth.tmp-1-0\"; echo 'gtrain: error: no' >&2; exit 1", "left behind"),
    "says error and succeeds": ("echo 'gtrain: error: no' >&2; exit 0", "status 0 with an error"),
    "takes much memory": ("exec python3 -c 'import sys; x = b\"x\" * (700 << 20); sys.exit(\"gtrain: error: no\")'", "KiB of memory"),
}


def finds_what_is_wrong(folder):
    for name, (script, said) in FAKES.items():
        fake = os.path.join(folder, "gtrain-" + name.replace(" ", "-"))
        with open(fake, "w") as f:
            f.write(f"#!/bin/sh\n{script}\n")
        os.chmod(fake, stat.S_IRWXU)
        context = context_for(GTRAIN, os.path.join(folder, "of-" + name))
        context.gtrain, context.sanitized = fake, False
        limit = 2 if name == "hangs" else 60
        problems, _ = campaign.Campaign("any", None, lambda case: case.run("ckpt", "ls", "x", timeout=limit)).run_case(context, 1)
        kept = os.path.exists(os.path.join(context.found, "any-1", "commands"))
        yield f"a program that {name} is reported", "" if kept and any(said in p for p, _ in problems) else f"found {problems}, kept: {kept}"
    yield "the driver fails where something is found", driver_fails(folder)


def limits_hold(folder):
    """A command has its limits from its first instruction on, and is reported under its own name."""
    args = ["sh", "-c", "ulimit -c; ulimit -f; head -c 4096 /dev/zero >large"]
    done = campaign.outcome.run(args, 60, folder, file_bytes=2048)
    fine = done.args == args and done.out.split()[0] == b"0" and done.status and os.path.getsize(os.path.join(folder, "large")) == 2048
    yield "a command has its limits", "" if fine else f"{done.args}: status {done.status}, {done.out}, {done.err}"


def skips_what_cannot_be_traced(folder):
    """Where fail_at cannot change a call, or changes none, the campaign says so and fails nothing."""
    for name, script in {"refused": "echo 'fail_at: PTRACE_TRACEME: Operation not permitted' >&2; exit 99", "without effect": "exit 0"}.items():
        small_files.write(os.path.join(folder, name, "fail_at"), f"#!/bin/sh\n{script}\n")
        os.chmod(os.path.join(folder, name, "fail_at"), stat.S_IRWXU)
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/hostile/run.py"), "--gtrain", GTRAIN, "--plain", GTRAIN, "--time", "1",
                               "--tests", os.path.join(folder, name), "--only", "faults"], capture_output=True, text=True)
        said = "faults       skipped: ptrace: no system call can be made to fail: "
        fine = done.returncode == 0 and said in done.stdout
        yield f"tracing {name}: skipped", "" if fine else f"status {done.returncode}: {done.stdout}{done.stderr}"


def no_race_outlives_its_case(folder):
    """A command of a race that hangs ends the case, and with it the commands beside it."""
    fake, pids = os.path.join(folder, "gtrain-hangs"), os.path.join(folder, "pids")
    with open(fake, "w") as f:
        f.write(f"#!/bin/sh\necho $$ >> {pids}\nsleep 60\n")
    os.chmod(fake, stat.S_IRWXU)
    context = campaign.Context(fake, GTRAIN, TESTS, folder, os.path.join(folder, "found"))
    context.limits = lambda program=None: (1, 1 << 20)
    races.prepare(context)
    problems, _ = races.CAMPAIGN.run_case(context, 1)
    with open(pids) as f:
        started = [int(pid) for pid in f]
    alive = [pid for pid in started if os.path.exists(f"/proc/{pid}")]
    fine = len(started) >= 2 and [text for text, _ in problems] == ["it hangs"] and not alive
    yield "a race that hangs leaves no process", "" if fine else f"{started} were started, {alive} are left: {problems}"


def driver_fails(folder):
    with tempfile.TemporaryDirectory() as kept:
        fake = os.path.join(folder, "gtrain-crashes")
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests/hostile/run.py"), "--gtrain", fake, "--plain", GTRAIN, "--tests", TESTS,
                               "--time", "1", "--seed", "1", "--only", "data_files", "--keep", kept], capture_output=True, text=True)
        if done.returncode != 1 or "signal SIGSEGV" not in done.stdout or "--case data_files:" not in done.stdout:
            return f"status {done.returncode}: {done.stdout}{done.stderr}"
        return "" if os.listdir(kept) else "nothing was kept"


if __name__ == "__main__":
    print(f"# seed {SEED}")
    sys.exit(tap.run([some_cases, every_read, finds_what_is_wrong, limits_hold, skips_what_cannot_be_traced, no_race_outlives_its_case],
                     FAIL_AT, sys.argv[1:]))
