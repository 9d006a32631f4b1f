"""commands.py - the commands on GPUs: curves beside the CPU's, precisions, evaluation, generation, resuming, ranks.

GTRAIN is the program; with that of tests/cudasim the GPUs are eight simulated ones. Ranks take the GPUs of this machine in
turn and share them where there are fewer. --large: models and runs that only a real GPU is fast enough for.
"""
import functools
import glob
import json
import os
import shutil
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import program  # noqa: E402
import tap  # noqa: E402
from launchers import environments, free_port  # noqa: E402

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
SIMULATED = os.path.basename(GTRAIN) == "gtrain-sim"
LARGE = "--large" in sys.argv
os.environ["CUDASIM_DEVICES"] = "8"
GPT = "gpt:layers=2,heads=2,width=16,block=8,dropout=0.1"
COMMON = ["--seed", "3", "--warmup", "0", "--log-every", "1", "-q"]
# A command that takes longer has failed: PATIENCE ends it before, unless a rank cannot even end. Simulated GPUs are slow.
MOST_S = 600 if SIMULATED or LARGE else 75
SGD = ["--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.01"]


def start(folder, *args, **env):
    return subprocess.Popen([GTRAIN, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                            env={**os.environ, **env})


class Failed(Exception):
    """A command has failed."""


def read(path):
    try:
        with open(path, errors="replace") as f:
            return f.read().strip()
    except OSError as e:
        return e.strerror


def threads_of(pid):
    """Where the threads of a process wait: in the kernel (as root), and where gdb is there, in the program."""
    lines = [f"process {pid}: {read(f'/proc/{pid}/cmdline')[-200:]}".replace(chr(0), " ")]
    for task in sorted(glob.glob(f"/proc/{pid}/task/*")):
        state = read(f"{task}/stat").rpartition(")")[2].split()[:1]
        kernel = " ".join(line.split()[-1].partition("+")[0] for line in read(f"{task}/stack").split("\n")[:6] if line)
        lines.append(f"  {os.path.basename(task)} {read(f'{task}/comm')}: {state}, in {read(f'{task}/wchan')}: {kernel}")
    if shutil.which("gdb"):
        command = ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 16"]
        lines += [line for line in subprocess.run(["timeout", "20", *command], capture_output=True, text=True).stdout.split("\n")
                  if line.startswith(("#", "Thread"))]
    return lines


def describe(process):
    """Where the processes of a command that does not end wait, its ranks first."""
    ranks = [pid for path in glob.glob(f"/proc/{process.pid}/task/*/children") for pid in read(path).split()]
    return "\n".join(line for pid in [*ranks, process.pid] for line in threads_of(pid))


def end(process):
    words = " ".join(process.args)
    try:
        out, err = process.communicate(timeout=MOST_S)
    except subprocess.TimeoutExpired:
        state = describe(process)
        process.kill()
        try:
            out, err = process.communicate(timeout=5)
        except subprocess.TimeoutExpired as e:  # a process that does not die has its standard output
            err = (e.stderr or b"").decode(errors="replace")
        raise Failed(f"{words}: no end after {MOST_S} s: {err}\n{state}") from None
    if process.returncode:
        raise Failed(f"{words}: status {process.returncode}: {err}")
    return out


def case(name, check, *args):
    """A line of TAP: check() returns the problem. If a command fails, that is the problem."""
    try:
        return name, check(*args)
    except Failed as e:
        return name, str(e)


def part(lines):
    """If a command fails that several lines need, one line says so in place of the rest of the part."""
    @functools.wraps(lines)
    def run(folder):
        try:
            yield from lines(folder)
        except Failed as e:
            yield f"{lines.__name__}: the commands that several lines need", str(e)
    return run


def gtrain(*args, folder):
    return end(start(folder, *args))


def train_args(device, out, model, data, *options):
    return ["train", "--device", device, "--model", model, "--data", data, "--out", out, *COMMON, *options]


def metrics(folder, out):
    with open(f"{folder}/{out}/metrics.jsonl") as f:
        return [json.loads(line) for line in f]


def train(folder, *args):
    gtrain(*train_args(*args), folder=folder)
    return metrics(folder, args[1])


def problem(got, want, bound):
    """
    How two runs' metrics differ by more than `bound`, relatively; "" if they do not. Those behind an update that is skipped
    are not compared: a gradient at the limit of float16 may be beyond it in one run alone.
    """
    if len(got) != len(want):
        return f"{len(got)} lines of metrics for {len(want)}"
    for g, w in zip(got, want):
        if (g.get("grad_norm", 0) is None or w.get("grad_norm", 0) is None) and "loss_scale" in w:
            return "" if abs(g["loss"] - w["loss"]) <= bound * abs(w["loss"]) else f"step {w['step']}: loss {g['loss']} for {w['loss']}"
        for key in ("loss", "grad_norm"):
            if g.get(key) != w.get(key) and not (g.get(key) and w.get(key) and abs(g[key] - w[key]) <= bound * abs(w[key])):
                return f"step {w['step']}: {key} {g.get(key)} for {w.get(key)}"
    return ""


# Model, data, options; the bounds of fp32, bf16 and fp16, relative. A pair is a bound and the number of steps that it is for.
RUNS = [
    ("mlp:20,30,5", "random:20/5,samples=50", ["--epochs", 3, "--batch", 16, "--clip", 0.5, *SGD], 1e-5, 2e-2, 5e-3),
    ("lenet", "random:,samples=64", ["--steps", 2, "--batch", 1, "--accumulate", 2, *SGD], 1e-5, 2e-2, 5e-3),
    ("lenet", "random:,samples=43", ["--steps", 2, "--batch", 3, "--augment", "mixup", *SGD], 1e-5, 2e-2, 5e-3),
    ("resnet20", "npy:pixels.npy,target=classes.npy", ["--steps", 2, "--batch", 1, *SGD], 5e-5, 5e-2, 2e-2),
    (GPT, "text:text.txt", ["--steps", 4, "--batch", 4, "--optimizer", "adamw", "--val-split", 0.1], 1e-4, 2e-2, 5e-3),
]
# Rounding errors grow from step to step. Where they grow beyond a bound, the bound is for the first steps alone.
# With another order of summation on the CPU (ONEDNN_MAX_CPU_ISA=SSE41 or AVX512_CORE), the CPU's own curves differ by these amounts:
# resnet20 in fp32 7e-4 after 10 steps and 2.6e-3 after 20, resnet50 4e-4 in the first step and 6e-2 in the third; the GPT in bf16
# 6e-3 within 25 steps and 2.5e-2 in the 38th. An H200 was 1.1e-3 off in step 10 of resnet20, 1.2e-3 in the first step of resnet50,
# and 2.4e-2 in step 32 of the GPT.
RUNS_LARGE = [
    ("resnet20", "random:,samples=2048", ["--steps", 10, "--batch", 128, *SGD], (1e-3, 5), 5e-2, 2e-2),
    ("resnet50:image=96,classes=10", "random:,samples=256", ["--steps", 1, "--batch", 32, *SGD], 2e-3, 5e-2, 2e-2),
    ("gpt:layers=4,heads=4,width=128,block=64", "text:text.txt", ["--steps", 100, "--batch", 12, *SGD], 1e-4, (2e-2, 25), 5e-3),
    ("gpt2:block=64", "random:,samples=64", ["--steps", 10, "--batch", 4, *SGD], 1e-4, 2e-2, 5e-3),
]


def count_gpus():
    """The simulated ones are not the driver's."""
    if SIMULATED:
        return int(os.environ["CUDASIM_DEVICES"])
    return json.loads(gtrain("probe", "--json", folder="."))["cuda"]["count"]


def write_text(folder):
    with open(f"{folder}/text.txt", "w") as f:
        f.write("the quick brown fox jumps over the lazy dog\n" * (400 if LARGE else 30))


def write_pictures(folder):
    """Eight pictures of 12 x 12 pixels: a simulated GPU takes 7 times as long for those that resnet20 is made for."""
    pixels = np.random.default_rng(8).integers(0, 256, (8, 12, 12, 3), dtype=np.uint8)
    np.save(f"{folder}/pixels.npy", pixels)
    np.save(f"{folder}/classes.npy", np.arange(8))


@part
def curves(folder):
    def compare(name, bound, steps, *run):
        cpu, gpu = (train(folder, device, f"{device[:3]}-{name}", *run) for device in ("cpu", "cuda:0"))
        if steps:
            cpu, gpu = ([line for line in lines if line["step"] <= steps] for lines in (cpu, gpu))
        return problem(gpu, cpu, bound)

    write_text(folder)
    write_pictures(folder)
    for n, (model, data, options, *bounds) in enumerate(RUNS_LARGE if LARGE else RUNS):
        for amp, bound in tap.one_in(2, zip(("off", "bf16", "fp16"), bounds), n):
            name = model + ", mixup" * ("mixup" in options)
            bound, steps = bound if isinstance(bound, tuple) else (bound, None)
            yield case(f"{name}, amp {amp}: the CPU's curve to {bound:g}" + (f" for {steps} steps" if steps else ""), compare,
                       f"{n}-{amp}", bound, steps, model, data, *options, "--amp", amp)


def same_bits(folder, a, b):
    with open(f"{folder}/{a}/model.pth", "rb") as f, open(f"{folder}/{b}/model.pth", "rb") as g:
        return "" if f.read() == g.read() else f"{a} and {b} have other bits"


@part
def repeats(folder):
    write_text(folder)
    options = ["--steps", 6, "--batch", 4, "--save-every", 3, "--amp", "bf16"]
    for out in ("first", "second"):
        train(folder, "cuda:0", out, GPT, "text:text.txt", *options)
    yield "a run gives the same bits twice", same_bits(folder, "first", "second")
    os.remove(f"{folder}/second/checkpoints/step-00000006.pth")
    os.remove(f"{folder}/second/model.pth")
    gtrain("train", "--device", "cuda:0", "--resume", "auto", "--out", "second", "-q", folder=folder)
    yield "a run that goes on from its checkpoint gives the same bits", same_bits(folder, "first", "second")


@part
def use(folder):
    def evaluate():
        cpu, gpu = (json.loads(gtrain("eval", "--json", "--device", device, "--ckpt", "run", "--data", "text:text.txt",
                                      "--batch", 16, folder=folder))["loss"] for device in ("cpu", "cuda:0"))
        return "" if abs(gpu / cpu - 1) <= 1e-5 else f"{gpu} for {cpu}"

    def generate():
        cpu, gpu = (gtrain("generate", "--device", device, "--ckpt", "run", "--prompt", "the quick", "--tokens", 30,
                           "--temperature", 0, "-q", folder=folder) for device in ("cpu", "cuda:0"))
        return "" if cpu == gpu else f"'{gpu}' for '{cpu}'"

    write_text(folder)
    train(folder, "cpu", "run", GPT, "text:text.txt", "--steps", 20, "--batch", 4, "--lr", 1e-2)
    yield case("evaluation gives the CPU's loss to 1e-5", evaluate)
    yield case("generation gives the CPU's text", generate)


MODES = [["--parallel", mode] for mode in program.words("parallel")]
MODES += [["--tensor-parallel", 2], ["--tensor-parallel", 2, "--sequence-parallel"], ["--pipeline-parallel", 2]]
ONE = GPT.replace("dropout=0.1", "dropout=0"), "text:text.txt", "--steps", 3, "--optimizer", "adamw", "--clip", 1, "--batch"


# A rank that hangs ends its run soon, so that the other lines have their time. Simulated GPUs are slow.
PATIENCE = [] if SIMULATED else ["--timeout", 30]


@part
def ranks(folder):
    def compare(*run):
        return problem(train(folder, *run, *PATIENCE), one, 1e-4)

    write_text(folder)
    one = train(folder, "cuda:0", "one", *ONE, 4)
    for n, mode in tap.one_in(2, enumerate(MODES)):
        batch = 2 if mode[0] == "--parallel" else 4
        yield case(f"two ranks on one GPU, {' '.join(map(str, mode))}: one rank's curve", compare, "cuda:0", f"two-{n}", *ONE,
                   batch, "--nproc", 2, *mode)
    yield case("eight ranks, 2 x 2 x 2 of data, tensor and pipeline: one rank's curve", compare, "cuda", "grid", *ONE, 2,
               "--nproc", 8, "--tensor-parallel", 2, "--pipeline-parallel", 2)


#       ranks, samples of each in a step, options
NCCL = [(2, 2, ["--parallel", "ddp"]), (4, 1, ["--parallel", "ddp"]), (2, 2, ["--parallel", "zero3"]), (2, 4, ["--tensor-parallel", 2]),
        (2, 4, ["--pipeline-parallel", 2])]


@part
def nccl(folder):
    """
    Ranks that are processes with a GPU each: as many as there are. With NCCL_MULTI_RANK_GPU_ENABLE=1 newer versions of NCCL
    take two ranks for each GPU.
    """
    def compare(name, size, *run):
        return problem(train(folder, "cuda", name, *ONE, *run, "--nproc", size, "--backend", "nccl", *PATIENCE), one, 1e-4)

    most = count_gpus() * (2 if os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE") == "1" else 1)
    if most < 2:
        yield "ranks over NCCL", tap.Skip("NCCL needs two GPUs or more; from version 2.30 on also NCCL_MULTI_RANK_GPU_ENABLE=1")
        return
    write_text(folder)
    one = train(folder, "cuda:0", "one", *ONE, 4)
    for n, (size, batch, mode) in enumerate(NCCL):
        if size <= most:
            yield case(f"{size} ranks over NCCL, {' '.join(map(str, mode))}: one rank's curve", compare, f"nccl-{n}", size, batch,
                       *mode)
    yield case("two ranks over NCCL that torchrun starts: one rank's curve", launch, folder, "launched",
               dict(environments(free_port()))["torchrun"], one, "--backend", "nccl")


@part
def reproducible(folder):
    def compare(n):
        train(folder, "cuda", f"same-{n}", *ONE, 8 // n, "--nproc", n, "--reproducible", *PATIENCE)
        return same_bits(folder, "same-1", f"same-{n}")

    write_text(folder)
    train(folder, "cuda", "same-1", *ONE, 8, "--nproc", 1, "--reproducible")
    for n in tap.one_in(2, (2, 4, 8)):
        yield case(f"--reproducible: {n} ranks leave the bits of one", compare, n)


@part
def mixtures(folder):
    options = ["lenet", "random:,samples=43", "--augment", "mixup", "--steps", 2, *SGD]
    for n in (1, 2):
        train(folder, "cuda", f"mixed-{n}", *options, "--batch", 4 // n, "--nproc", n, "--reproducible", "--save-every", 1, *PATIENCE)
    yield "mixup --reproducible: 2 ranks leave the bits of one", same_bits(folder, "mixed-1", "mixed-2")
    os.remove(f"{folder}/mixed-2/checkpoints/step-00000002.pth")
    os.remove(f"{folder}/mixed-2/model.pth")
    gtrain("train", "--device", "cuda", "--nproc", 2, "--resume", "auto", "--out", "mixed-2", "-q", *PATIENCE, folder=folder)
    yield "mixup: two ranks that go on from their checkpoint leave the same bits", same_bits(folder, "mixed-1", "mixed-2")


def launch(folder, name, environment, one, *options):
    started = [start(folder, *train_args("cuda", name, *ONE, 2, *options, *PATIENCE), **environment(i)) for i in range(2)]
    try:
        for process in started:
            end(process)
    finally:
        for process in started:
            process.kill()
    return problem(metrics(folder, name), one, 1e-4)


@part
def launched(folder):
    write_text(folder)
    one = train(folder, "cuda:0", "one", *ONE, 4)
    for name, environment in environments(free_port()):
        yield case(f"two ranks that {name} starts: one rank's curve", launch, folder, name, environment, one)


if __name__ == "__main__":
    parts = curves, repeats, use, ranks, nccl, reproducible, mixtures, launched
    sys.exit(tap.run(parts, GTRAIN, [a for a in sys.argv[1:] if not a.startswith("--")]))
