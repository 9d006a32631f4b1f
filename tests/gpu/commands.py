"""commands.py - the commands on GPUs: curves beside the CPU's, precisions, evaluation, generation, resuming, ranks.

GTRAIN is the program; with that of tests/cudasim the GPUs are eight simulated ones. Ranks take the GPUs of this machine in
turn and share them where there are fewer. --large: models and runs that only a real GPU is fast enough for.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from launchers import environments, free_port  # noqa: E402

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
LARGE = "--large" in sys.argv
os.environ["CUDASIM_DEVICES"] = "8"
GPT = "gpt:layers=2,heads=2,width=32,block=16,dropout=0.1"
COMMON = ["--seed", "3", "--warmup", "0", "--log-every", "1", "-q"]
SGD = ["--optimizer", "sgd", "--momentum", "0.9", "--lr", "0.01"]


def start(folder, *args, **env):
    return subprocess.Popen([GTRAIN, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
                            env={**os.environ, **env})


def end(process):
    out, err = process.communicate(timeout=600)
    if process.returncode:
        raise RuntimeError(f"{' '.join(process.args)}: status {process.returncode}: {err}")
    return out


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


# Model, data, options; the bounds of fp32, bf16 and fp16, relative.
RUNS = [
    ("mlp:20,30,5", "random:20/5,samples=50", ["--epochs", 3, "--batch", 16, "--clip", 0.5, *SGD], 1e-5, 2e-2, 5e-3),
    ("lenet", "random:,samples=64", ["--steps", 3, "--batch", 4, "--accumulate", 2, *SGD], 1e-5, 2e-2, 5e-3),
    ("lenet", "random:,samples=43", ["--steps", 2, "--batch", 8, "--augment", "mixup", *SGD], 1e-5, 2e-2, 5e-3),
    ("resnet20", "random:,samples=8", ["--steps", 2, "--batch", 1, *SGD], 5e-5, 5e-2, 2e-2),
    (GPT, "text:text.txt", ["--steps", 4, "--batch", 4, "--optimizer", "adamw", "--val-split", 0.1], 1e-4, 2e-2, 5e-3),
]
RUNS_LARGE = [
    ("resnet20", "random:,samples=2048", ["--steps", 50, "--batch", 128, *SGD], 1e-3, 5e-2, 2e-2),
    ("resnet50:image=96,classes=10", "random:,samples=256", ["--steps", 3, "--batch", 32, *SGD], 1e-3, 5e-2, 2e-2),
    ("gpt:layers=4,heads=4,width=128,block=64", "text:text.txt", ["--steps", 100, "--batch", 12, *SGD], 1e-4, 2e-2, 5e-3),
    ("gpt2:block=64", "random:,samples=64", ["--steps", 10, "--batch", 4, *SGD], 1e-4, 2e-2, 5e-3),
]


def count_gpus():
    """The simulated ones are not the driver's."""
    if os.path.basename(GTRAIN) == "gtrain-sim":
        return int(os.environ["CUDASIM_DEVICES"])
    return json.loads(gtrain("probe", "--json", folder="."))["cuda"]["count"]


def write_text(folder):
    with open(f"{folder}/text.txt", "w") as f:
        f.write("the quick brown fox jumps over the lazy dog\n" * (400 if LARGE else 60))


def curves(folder):
    write_text(folder)
    for n, (model, data, options, *bounds) in enumerate(RUNS_LARGE if LARGE else RUNS):
        for amp, bound in zip(("off", "bf16", "fp16"), bounds):
            cpu = train(folder, "cpu", f"cpu-{n}-{amp}", model, data, *options, "--amp", amp)
            gpu = train(folder, "cuda:0", f"gpu-{n}-{amp}", model, data, *options, "--amp", amp)
            name = model + ", mixup" * ("mixup" in options)
            yield f"{name}, amp {amp}: the CPU's curve to {bound:g}", problem(gpu, cpu, bound)


def same_bits(folder, a, b):
    with open(f"{folder}/{a}/model.pth", "rb") as f, open(f"{folder}/{b}/model.pth", "rb") as g:
        return "" if f.read() == g.read() else f"{a} and {b} have other bits"


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


def use(folder):
    write_text(folder)
    train(folder, "cpu", "run", GPT, "text:text.txt", "--steps", 20, "--batch", 4, "--lr", 1e-2)
    loss = {}
    words = {}
    for device in ("cpu", "cuda:0"):
        loss[device] = json.loads(gtrain("eval", "--json", "--device", device, "--ckpt", "run", "--data", "text:text.txt",
                                         "--batch", 16, folder=folder))["loss"]
        words[device] = gtrain("generate", "--device", device, "--ckpt", "run", "--prompt", "the quick", "--tokens", 30,
                               "--temperature", 0, "-q", folder=folder)
    off = abs(loss["cuda:0"] / loss["cpu"] - 1)
    yield "evaluation gives the CPU's loss to 1e-5", "" if off <= 1e-5 else f"{loss}"
    yield "generation gives the CPU's text", "" if words["cpu"] == words["cuda:0"] else f"{words}"


MODES = [["--parallel", mode] for mode in ("ddp", "mirrored", "dp", "zero1", "zero2", "zero3")]
MODES += [["--tensor-parallel", 2], ["--tensor-parallel", 2, "--sequence-parallel"], ["--pipeline-parallel", 2]]
ONE = GPT.replace("dropout=0.1", "dropout=0"), "text:text.txt", "--steps", 3, "--optimizer", "adamw", "--clip", 1, "--batch"


def ranks(folder):
    write_text(folder)
    one = train(folder, "cuda:0", "one", *ONE, 4)
    for n, mode in enumerate(MODES):
        batch = 2 if mode[0] == "--parallel" else 4
        two = train(folder, "cuda:0", f"two-{n}", *ONE, batch, "--nproc", 2, *mode)
        yield f"two ranks on one GPU, {' '.join(map(str, mode))}: one rank's curve", problem(two, one, 1e-4)
    grid = train(folder, "cuda", "grid", *ONE, 2, "--nproc", 8, "--tensor-parallel", 2, "--pipeline-parallel", 2)
    yield "eight ranks, 2 x 2 x 2 of data, tensor and pipeline: one rank's curve", problem(grid, one, 1e-4)


#       ranks, samples of each in a step, options
NCCL = [(2, 2, ["--parallel", "ddp"]), (4, 1, ["--parallel", "ddp"]), (2, 2, ["--parallel", "zero3"]), (2, 4, ["--tensor-parallel", 2]),
        (2, 4, ["--pipeline-parallel", 2])]


def nccl(folder):
    """Ranks that are processes with a GPU each: as many as there are."""
    write_text(folder)
    gpus = count_gpus()
    one = train(folder, "cuda:0", "one", *ONE, 4)
    for n, (size, batch, mode) in enumerate(NCCL):
        if size <= gpus:
            many = train(folder, "cuda", f"nccl-{n}", *ONE, batch, "--nproc", size, "--backend", "nccl", *mode)
            yield f"{size} ranks over NCCL, {' '.join(map(str, mode))}: one rank's curve", problem(many, one, 1e-4)
    if gpus >= 2:
        launch(folder, "launched", dict(environments(free_port()))["torchrun"], "--backend", "nccl")
        yield "two ranks over NCCL that torchrun starts: one rank's curve", problem(metrics(folder, "launched"), one, 1e-4)


def reproducible(folder):
    write_text(folder)
    for n in (1, 2, 4, 8):
        train(folder, "cuda", f"same-{n}", *ONE, 8 // n, "--nproc", n, "--reproducible")
        if n > 1:
            yield f"--reproducible: {n} ranks leave the bits of one", same_bits(folder, "same-1", f"same-{n}")


def mixtures(folder):
    options = ["lenet", "random:,samples=43", "--augment", "mixup", "--steps", 2, *SGD]
    for n in (1, 2):
        train(folder, "cuda", f"mixed-{n}", *options, "--batch", 8 // n, "--nproc", n, "--reproducible", "--save-every", 1)
        if n > 1:
            yield f"mixup --reproducible: {n} ranks leave the bits of one", same_bits(folder, "mixed-1", f"mixed-{n}")
    os.remove(f"{folder}/mixed-2/checkpoints/step-00000002.pth")
    os.remove(f"{folder}/mixed-2/model.pth")
    gtrain("train", "--device", "cuda", "--nproc", 2, "--resume", "auto", "--out", "mixed-2", "-q", folder=folder)
    yield "mixup: two ranks that go on from their checkpoint leave the same bits", same_bits(folder, "mixed-1", "mixed-2")


def launch(folder, name, environment, *options):
    started = [start(folder, *train_args("cuda", name, *ONE, 2, *options), **environment(i)) for i in range(2)]
    for process in started:
        end(process)


def launched(folder):
    write_text(folder)
    one = train(folder, "cuda:0", "one", *ONE, 4)
    for name, environment in environments(free_port()):
        launch(folder, name, environment)
        yield f"two ranks that {name} starts: one rank's curve", problem(metrics(folder, name), one, 1e-4)


if __name__ == "__main__":
    parts = curves, repeats, use, ranks, nccl, reproducible, mixtures, launched
    sys.exit(tap.run(parts, GTRAIN, [a for a in sys.argv[1:] if not a.startswith("--")]))
