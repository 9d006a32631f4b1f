"""faults.py - system calls that fail, one at a time: the file is the old or the new one, one line says why, nothing is left."""
import os
import shutil
import tempfile
import threading

import campaign
import checkpoints
import small_files

ERRORS = {  # errors that the kernel may return from each call
    "openat": ("EMFILE", "EIO", "EACCES", "ENOMEM", "ENOSPC", "EINTR"), "read": ("EIO", "EINTR", "short"), "pread": ("EIO", "EINTR", "short"),
    "write": ("ENOSPC", "EIO", "EINTR", "short"), "pwrite": ("ENOSPC", "EDQUOT", "EIO", "EINTR", "short"), "fsync": ("EIO", "ENOSPC", "EINTR"),
    "fdatasync": ("EIO", "ENOSPC"), "ftruncate": ("EIO", "ENOSPC", "EINTR"), "fallocate": ("ENOSPC", "EINTR"), "mmap": ("ENOMEM", "EACCES"),
    "copy_file_range": ("EIO", "ENOSPC", "EINTR", "short"), "flock": ("EINTR", "EIO"), "close": ("EIO", "ENOSPC"), "getdents": ("EIO",),
    "fstatat": ("EIO", "ENOMEM", "EACCES"), "rename": ("ENOSPC", "EIO", "EACCES"), "renameat2": ("ENOSPC", "EIO"), "unlink": ("EIO", "EACCES"),
    "unlinkat": ("EIO",), "mkdir": ("ENOSPC", "EACCES"), "link": ("EIO",), "ioctl": ("EIO", "ENOSPC"),
}
# The faults that each call has to survive. stdio gives up where a read or write is interrupted, and so does any code that opens a file.
SURVIVED = {("pread", "EINTR"), ("pread", "short"), ("pwrite", "EINTR"), ("pwrite", "short"), ("copy_file_range", "short"), ("read", "short"),
            ("write", "short")}
# An edit in place is one write; cut short it is taken back.
NOT_IN_PLACE = {("pwrite", "EINTR"), ("pwrite", "short")}


class Command:
    """`args` work on `inputs`, copied from the seeds, and write `target`; `at_once` is the target that appears whole or not at all."""

    def __init__(self, name, inputs, args, target, in_place=False, trains=False):
        self.name, self.inputs, self.args, self.target, self.in_place, self.trains = name, inputs, args, target, in_place, trains


CONVERTED = "in.pth"
TRAINING = ["--model", small_files.GPT, "--data", "text:text.txt", "--batch", "4", "--threads", "1", "--workers", "1", "-q"]
COMMANDS = [
    Command("ls", [CONVERTED], ["ckpt", "ls", "in.pth"], None),
    Command("verify", [CONVERTED], ["ckpt", "verify", "in.pth"], None),
    Command("diff", [CONVERTED], ["ckpt", "diff", "in.pth", "in.pth"], None),
    Command("strip in place", [CONVERTED], ["ckpt", "add-module", "in.pth", "--in-place"], "in.pth", True),
    Command("edit safetensors in place", ["in.safetensors"], ["ckpt", "rename", "in.safetensors", "--map", "weight=weighs", "--in-place"],
            "in.safetensors", True),
    Command("edit a copy", [CONVERTED], ["ckpt", "add-module", "in.pth", "-o", "out.pth"], "out.pth"),
    Command("convert to pth", [CONVERTED], ["ckpt", "convert", "in.pth", "-o", "out.pth"], "out.pth"),
    Command("convert to legacy", [CONVERTED], ["ckpt", "convert", "in.pth", "--to", "legacy", "-o", "out.pth"], "out.pth"),
    Command("convert to npz", [CONVERTED], ["ckpt", "convert", "in.pth", "-o", "out.npz"], "out.npz"),
    Command("convert to safetensors", [CONVERTED], ["ckpt", "convert", "in.pth", "-o", "out.safetensors"], "out.safetensors"),
    Command("select", [CONVERTED], ["ckpt", "select", "in.pth", "--keys", "*", "-o", "out.pth"], "out.pth"),
    Command("merge", [CONVERTED], ["ckpt", "merge", "--average", "in.pth", "in.pth", "-o", "out.pth"], "out.pth"),
    Command("train", ["text.txt"], ["train", *TRAINING, "--steps", "2", "--save-every", "1", "--out", "out"], "out/model.pth", trains=True),
    Command("train with logs", ["text.txt"], ["train", *TRAINING, "--steps", "2", "--log-every", "1", "--out", "out"], "out/model.pth", trains=True),
    Command("resume", ["text.txt", "run"], ["train", "--resume", "auto", "--out", "run", "--steps", "4", "-q"], "run/model.pth", trains=True),
    Command("eval", ["text.txt", "run"], ["eval", "--ckpt", "run", "--data", "text:text.txt", "-q", "--threads", "1"], None),
    Command("generate", ["run"], ["generate", "--ckpt", "run", "--tokens", "3", "--threads", "1"], None),
]
LOCK, REFERENCE = threading.Lock(), {}


def prepare(context):
    checkpoints.make_run(context)
    for name in ("in.pth", "in.safetensors"):
        if not os.path.exists(f"{context.seeds}/{name}"):
            campaign.outcome.run([context.plain, "ckpt", "convert", "run/model.pth", "-q", "-o", name], 30, context.seeds, context.environment)


def lay_out(case, command):
    """Its inputs; another, older file where the output goes."""
    for name in command.inputs:
        source = f"{case.context.seeds}/{name}"
        (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, case.path(name))
    if command.target and not command.in_place and not command.trains:
        shutil.copy(f"{case.context.seeds}/run/checkpoints/step-00000001.pth", case.path(command.target))


def traced(case, *what):
    return [os.path.join(case.context.tests, "fail_at"), case.folder, *map(str, what)]


def reference(case, command):
    """How often the undisturbed command makes each call, and the files it writes."""
    with LOCK:
        if command.name not in REFERENCE:
            whole = campaign.Case(case.context, "faults", f"reference-{command.name}")
            lay_out(whole, command)
            counts = os.path.join(case.context.folder, f"counts-{threading.get_ident()}")
            done = whole.run(*command.args, program=case.context.plain, traced=traced(whole, "-", 0, counts), statuses=(0, 1), findings=True)
            with open(counts) as f:
                calls = {name: int(count) for name, count in (line.split() for line in f)}
            REFERENCE[command.name] = (calls, whole.digest(command.target) if command.target else None, done.status, done.out)
            shutil.rmtree(whole.folder)
        return REFERENCE[command.name]


def case(case):
    rng = case.random
    command = rng.choice(COMMANDS)
    counts, wanted, status, said = reference(case, command)
    call = rng.choice([name for name, count in counts.items() if count])
    number, how = rng.randint(1, counts[call]), rng.choice(ERRORS[call])
    lay_out(case, command)
    before = case.digest(command.target) if command.target else None
    case.commands.append(f"{call} {number} {how}: {command.name}")
    done = case.run(*command.args, program=case.context.plain, traced=traced(case, call, number, how), statuses=(0, 1), findings=True)
    case.commands[-1] = f"{call} {number} {how}: {case.commands[-1]}"
    case.problems = [(text, case.commands[-1]) for text, _ in case.problems]
    if (call, how) in SURVIVED - (NOT_IN_PLACE if command.in_place else set()) and done.status != status:
        case.problem(f"{call} {number} {how}: status {done.status} where it is to be survived: {done.err[-300:]}")
    if done.status == 0 and not command.target and done.out != said:
        case.problem(f"{call} {number} {how}: status 0 with other results")
    if len(done.errors()) > 1:
        case.problem(f"{call} {number} {how}: more than one line of error: {done.err[-500:]}")
    if command.target:
        check_target(case, command, f"{call} {number} {how}", done, before, wanted)


IN_PLACE = "the new content is in place"  # the message of a command that fails when its output is there already


def check_target(case, command, where, done, before, wanted):
    after = case.digest(command.target)
    if done.status == 0 and after != wanted:
        case.problem(f"{where}: status 0, and the bytes of '{command.target}' are not the right ones")
    elif done.status and after != before and not (after == wanted and (command.trains or IN_PLACE in done.err)):
        case.problem(f"{where}: status {done.status}, and the bytes of '{command.target}' are not the old ones"
                     + (", and it does not say that they are the new ones" if after == wanted else ""))
    elif done.status and after == before != wanted and IN_PLACE in done.err and not command.trains:
        case.problem(f"{where}: it says that new content is in place, but '{command.target}' has the old one")
    if done.status and command.trains:
        for where_, _, names in os.walk(case.path("out")):
            for name in names:
                if name.endswith(".pth"):
                    case.run("ckpt", "verify", os.path.join(where_, name), program=case.context.plain, statuses=(0,))


def missing(context):
    """Make one call of another program fail: not every processor or container lets fail_at do so."""
    with tempfile.TemporaryDirectory(dir=context.folder) as folder:
        path = os.path.join(folder, "file")
        small_files.write(path, "text")
        probe = campaign.outcome.run([os.path.join(context.tests, "fail_at"), folder, "openat", 1, "EIO", "cat", path], 30)
    if probe.status == 1 and "fail_at: " not in probe.err:
        return ""
    return f"ptrace: no system call can be made to fail: {probe.err.strip() or f'status {probe.status}'}"


CAMPAIGN = campaign.Campaign("faults", prepare, case, share=2, missing=missing)
