#!/usr/bin/env python3
"""axes.py - grids of ranks, tensor x sequence x pipeline x data: one rank's curve, evaluation and files, replicas, bits, plans, refusals (TAP)."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import BATCH, COMMON, GTRAIN, apart, curve, distance, gtrain, make_data, torch  # noqa: E402
import training  # noqa: E402

GPT, MLP = "gpt:layers=2,heads=4,width=32,block=16", "mlp:5,16,12,16,3"
TEXT, TABLE = "text:{}/text.txt", "csv:{}/table.csv"
ADAMW = ["--optimizer", "adamw", "--lr", "1e-3", "--clip", "0.5"]
MUON = ["--optimizer", "muon", "--lr", "5e-3", "--clip", "0.5"]
STEPS = 20
SEQUENCE = "--sequence-parallel"
#        model, data, options, grids: (stages, data ranks, ranks that share layers, --parallel, more options)
RUNS = [
    (GPT + ",dropout=0.1", TEXT, ADAMW,
     [(2, 2, 2, "ddp", []), (2, 1, 2, "ddp", ["--schedule", "gpipe"]), (2, 2, 1, "zero1", []), (1, 2, 2, "zero1", []), (2, 2, 2, "zero1", []),
      (1, 2, 2, "zero2", []), (1, 2, 2, "zero3", []), (2, 2, 2, "mirrored", []), (2, 2, 2, "ddp", ["--check-replicas", 1, "--bucket-size", "8K"]),
      (2, 2, 2, "zero1", ["--recompute", "--bucket-size", "8K"]), (1, 1, 2, "ddp", [SEQUENCE]), (1, 1, 4, "ddp", [SEQUENCE, "--recompute"]),
      (2, 2, 2, "zero1", [SEQUENCE]), (2, 1, 2, "ddp", [SEQUENCE, "--backend", "ring"]), (1, 2, 2, "zero3", [SEQUENCE, "--recompute"]),
      (2, 2, 1, "zero2", ["--bucket-size", "8K"]), (2, 2, 2, "zero3", ["--recompute", "--bucket-size", "8K"])]),
    (MLP, TABLE, ADAMW, [(2, 2, 2, "ddp", []), (3, 2, 1, "zero1", ["--check-replicas", 1]), (3, 2, 1, "zero3", ["--schedule", "gpipe"]), (2, 1, 3, "ddp", ["--chunks", 4]), (1, 2, 2, "ddp", [SEQUENCE])]),
    ("gpt2:layers=2,heads=3,width=24,block=16,vocab=43,dropout=0.1", TEXT, ["--optimizer", "sgd", "--lr", "0.05", "--clip", "0.3"],
     [(2, 1, 3, "ddp", []), (2, 2, 1, "zero1", ["--backend", "ring"]), (2, 2, 2, "ddp", ["--backend", "ring"])]),
    ("lenet", "random:,samples=60", ["--optimizer", "sgd", "--lr", "0.01"], [(3, 2, 1, "zero1", [])]),
    (GPT, TEXT, MUON, [(2, 2, 1, "zero1", []), (2, 1, 2, "ddp", []), (1, 2, 2, "zero1", [])]),
    # The ranks' shards of 3 heads differ in size.
    ("gpt2:layers=2,heads=3,width=24,block=16,vocab=43", TEXT, MUON, [(1, 2, 2, "zero1", ["--bucket-size", "8K"]), (2, 2, 2, "zero3", [])]),
]


def grid_options(stages, tensor, kind="ddp"):
    return ["--pipeline-parallel", stages, "--tensor-parallel", tensor, "--parallel", kind]


def train(folder, name, run, grid, *more):
    model, data, options = run[:3]
    stages, width, tensor, kind, own = grid
    options = [*options, *grid_options(stages, tensor, kind), *own, "--steps", STEPS, *more]
    return training.train(folder, name, model, data, stages * width * tensor, options, BATCH, stages * tensor)


ONE = (1, 1, 1, "ddp", [])


def name_of(grid):
    stages, width, tensor, kind, own = grid
    return " ".join(map(str, [f"{stages} x {width} x {tensor}", kind, *own]))


def far_from(many, one):
    """How far losses are apart; norms are of float32, and sums in another order."""
    a, b = curve(many), curve(one)
    return max(apart(a, b), apart(a, b, "grad_norm") / 10) if len(a) == len(b) == STEPS else 1


def curves(folder):
    make_data(folder)
    for i, run in enumerate(RUNS):
        one = train(folder, f"one{i}", run, ONE)
        for k, grid in tap.one_in(3, enumerate(run[3])):
            far = far_from(train(folder, f"many{i}-{k}", run, grid), one)
            yield f"{run[0]}: {name_of(grid)} has the curve of one rank", "" if far <= 1e-6 else f"apart by {far:.1e}"


def accumulation(folder):
    make_data(folder)
    one = train(folder, "one", RUNS[0], ONE)
    for kind in ("ddp", "zero1"):
        args = [*RUNS[0][2], *grid_options(2, 2, kind), "--accumulate", 3, "--steps", STEPS]
        many = training.train(folder, kind, *RUNS[0][:2], 8, args, BATCH // 3, 4)
        far = far_from(many, one)
        yield f"2 x 2 x 2, {kind}, 3 micro-batches are a batch of 12", "" if far <= 1e-6 else f"apart by {far:.1e}"


def evaluation(folder):
    """The last batch is short, and ranks have unequal numbers of batches, or none."""
    make_data(folder)
    with open(f"{folder}/text.txt") as f, open(f"{folder}/val.txt", "w") as g:
        g.write(f.read()[:16 * 41 + 1])
    run = (GPT, TEXT, ADAMW)
    more = ["--val", f"text:{folder}/val.txt", "--eval-every", 10]
    one = curve(train(folder, "one", run, ONE, *more), "val")
    for i, grid in enumerate(((2, 2, 2, "ddp", []), (2, 1, 2, "ddp", [SEQUENCE]), (1, 2, 2, "zero3", []), (2, 2, 1, "zero3", []), (1, 4, 2, "zero1", []))):
        many = curve(train(folder, f"val{i}", run, grid, *more), "val")
        good = len(many) == len(one) == 2 and apart(many, one) <= 1e-6
        good = good and all(a[k] == b[k] for a, b in zip(many, one) for k in ("n", "top1", "top5"))
        yield f"validation on {name_of(grid)} is that on one rank", "" if good else f"{many} {one}"
    # Without its dropout, the evaluation graph of a vit could share layers that the training graph does not.
    run = ("vit:image=8,patch=4,layers=2,heads=2,width=16,dropout=0.2", "random:,samples=60", ADAMW)
    more = ["--val", "random:,samples=20", "--eval-every", 10]
    one, two = (curve(train(folder, f"vit{n}", run, (1, 1, n, "ddp", []), *more), "val") for n in (1, 2))
    good = len(two) == len(one) == 2 and apart(two, one) <= 1e-6
    yield "validation of a vit with dropout on 2 ranks that share layers is that on one rank", "" if good else f"{two} {one}"


def checkpoints(folder):
    """One run goes on with other grids. Rounding differs: AdamW makes steps of the gradients of keys' biases, which are nothing else."""
    make_data(folder)
    run = (GPT + ",bias=no", TEXT, ADAMW)
    whole = train(folder, "whole", run, ONE)
    args = ["train", "--model", run[0], "--data", TEXT.format(folder), "--out", f"{folder}/resumed", *COMMON, *ADAMW, "--resume", "auto"]
    grids = ((2, 2, 2, "ddp", [SEQUENCE]), (1, 2, 2, "zero1", []), ONE, (2, 2, 1, "zero3", []), (2, 1, 4, "ddp", []), (1, 2, 2, "zero3", []), (2, 2, 2, "zero1", []))
    for i, (stages, width, tensor, kind, own) in enumerate(grids):
        steps = STEPS * (i + 1) // len(grids)
        gtrain(*args, "--steps", steps, "--nproc", stages * width * tensor, *grid_options(stages, tensor, kind), *own, "--batch", BATCH // width)
    far = far_from(f"{folder}/resumed", whole)
    yield f"{', '.join(map(name_of, grids))}: one curve, resumed", "" if far <= 1e-6 else f"apart by {far:.1e}"
    a, b = (torch.load(f"{out}/checkpoints/step-{STEPS:08}.pth") for out in (f"{folder}/resumed", whole))
    far = max(distance(a["model"], b["model"]), distance(a["optimizer"]["state"], b["optimizer"]["state"]) / 10)
    yield "and a checkpoint that is one rank's, optimizer included", "" if far <= 1e-4 else f"apart by {far:.1e}"
    more = ["--init-from", f"{folder}/resumed/model.pth"]
    far = far_from(train(folder, "init", run, grids[0], *more), train(folder, "init", run, ONE, *more))
    yield "2 x 2 x 2 ranks begin from a file as one does", "" if far <= 1e-6 else f"apart by {far:.1e}"


def bits(out):
    return [(row["loss"], row["grad_norm"]) for row in curve(out)], list(torch.load(f"{out}/model.pth").items())


def reproducible(folder):
    """The bits of a grid are those of its tensor axis."""
    make_data(folder)
    for model, data, tensor, more, grids in (
            (GPT + ",dropout=0.1", TEXT, 2, [], ((2, 1, 2), (2, 2, 2), (4, 1, 2))), (GPT, TEXT, 1, [], ((2, 2, 1), (1, 4, 1), (2, 4, 1))),
            (GPT + ",dropout=0.2", TEXT, 2, [SEQUENCE], ((1, 2, 2), (2, 1, 2), (2, 2, 2))), (MLP, TABLE, 2, [], ((2, 2, 2), (1, 2, 2), (4, 1, 2)))):
        firsts = None
        for stages, width, shards in ((1, 1, tensor), *tap.one_in(2, grids)):
            kinds = ("ddp", "zero1", "zero2", "zero3") if stages == 1 else ("ddp", "zero1") if tensor > 1 else ("zero2", "zero3")
            for kind in kinds[:1] if firsts is None else tap.one_in(2, kinds, 1):
                n = stages * width * shards
                args = [*ADAMW, *grid_options(stages, shards, kind), "--steps", STEPS, "--reproducible", *more]
                losses, weights = bits(training.train(folder, f"{model}-{stages}-{width}-{shards}-{kind}", model, data, n, args, 8, stages * shards))
                if firsts is None:
                    firsts = losses, weights
                    continue
                same = losses == firsts[0] and all(k == m and torch.equal(v, w) for (k, v), (m, w) in zip(weights, firsts[1]))
                yield f"{model}: {stages} x {width} x {shards}, {kind}{' sequence' * len(more)}, --reproducible: the bits of {tensor} of tensor", "" if same else f"{losses[:3]} {firsts[0][:3]}"


def plan(folder, *options, model=GPT):
    done = subprocess.run([GTRAIN, "train", "--model", model, "--data", f"text:{folder}/text.txt", "--batch", "12", "--json", "--dry-run",
                           *map(str, options)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def plans(folder):
    """A dry run of 2 x 2 x 2 ranks: what each stage holds, and sends on three axes."""
    make_data(folder)
    told, pipe = (plan(folder, "--nproc", 4 * tensor, *grid_options(2, tensor), "--chunks", 3) for tensor in (2, 1))
    stages = told["stages"]
    good = len(stages) == 2 and told["tensor_parallel"] == 2 and told["parameters"] == pipe["parameters"]
    yield "a dry run of 2 x 2 x 2 ranks tells of 2 stages and 2 shards", "" if good else f"{told}"
    ratios = [told["memory_bytes"][what] * 2 / pipe["memory_bytes"][what] for what in ("parameters", "gradients", "optimizer")]
    yield "which divide memory by two once more", "" if all(1 < ratio < 1.1 for ratio in ratios) else f"{ratios}"
    one = plan(folder, "--nproc", 2, *grid_options(1, 2))
    shared = sum(stage["communicated_bytes_per_step"] for stage in stages)
    value = 12 * 16 * 32 * 4
    wanted = sum(stage["communicated_bytes_per_step"] for stage in pipe["stages"]) - 2 * value
    # The tensor axis sends once what it would without stages; gradients and the embedding's tie are of shards.
    rest = shared - 2 * value - one["communicated_bytes_per_step"]
    yield "and its bytes are those of the three axes", "" if 0.5 * wanted < rest < 0.55 * wanted else f"{rest} of {wanted}"
    sent = [plan(folder, "--nproc", 2, *grid_options(1, 2), SEQUENCE, "--batch", 20, *more)["communicated_bytes_per_step"]
            for more in ([], ["--drop-last"])]
    yield "those of the sequence axis are of the full batch, also with a short last one", "" if sent[0] == sent[1] else f"{sent}"
    sent = [plan(folder, "--nproc", 2, *grid_options(1, 2), "--optimizer", name)["communicated_bytes_per_step"] for name in ("adamw", "muon")]
    yield "Muon's ranks gather the matrices of 2 layers, of which each sends its half", "" if sent[1] - sent[0] == 2 * 12 * 32**2 * 4 // 2 else f"{sent}"
    # 96 samples: 11 do not divide into chunks, the last 8 do.
    adds = [any(op["name"] == "accumulate" for op in plan(folder, "--nproc", 2, *grid_options(2, 1), "--batch", 11, *more)["ops"])
            for more in ([], ["--drop-last"])]
    yield "a short last batch lets gradients add up, unless it is dropped", "" if adds == [True, False] else f"{adds}"
    z = plan(folder, "--nproc", 4, *grid_options(1, 2, "zero1"))
    d = plan(folder, "--nproc", 4, *grid_options(1, 2))
    ratio = d["memory_bytes"]["optimizer"] / z["memory_bytes"]["optimizer"]
    yield "zero1 divides the state of shards", "" if 1.9 < ratio <= 2 else f"{ratio}"
    deep = "gpt:layers=12,heads=4,width=128,block=128"
    arena = [plan(folder, "--nproc", n, "--tensor-parallel", n, *more, model=deep)["memory_bytes"]["arena"]
             for n, more in ((1, []), (2, []), (2, [SEQUENCE]), (4, [SEQUENCE]))]
    ratios = [a / arena[0] for a in arena]
    good = ratios[1] > 0.6 and 0.45 < ratios[2] < 0.52 and 0.2 < ratios[3] < 0.28
    yield "--sequence-parallel: half the activations on 2 ranks, a quarter on 4", "" if good else f"{ratios}"


def refusals(folder):
    make_data(folder)
    for options, problem in (
            (["--nproc", 6, *grid_options(2, 2)], "2 stages of 2 ranks each do not divide 6 ranks"),
            (["--nproc", 4, *grid_options(2, 1, "dp")], "--pipeline-parallel cannot be combined with --parallel dp"),
            (["--nproc", 4, *grid_options(1, 2, "dp")], "--tensor-parallel cannot be combined with --parallel dp"),
            (["--nproc", 4, *grid_options(2, 2), "--check-replicas", 1], "no two of 4 ranks hold the same part"),
            (["--nproc", 2, SEQUENCE], "--sequence-parallel has no effect with these options"),
            (["--nproc", 2, "--tensor-parallel", 2, SEQUENCE, "--batch", 1], "--sequence-parallel: 2 ranks cannot divide a batch of 1 token equally")):
        said = gtrain("train", "--model", MLP, "--data", f"csv:{folder}/table.csv", "--batch", BATCH, "--out", f"{folder}/none", *options, status=2)
        yield f"{' '.join(map(str, options))} is refused", "" if problem in said and "hint: " in said else said
    for settings, batch, problem in (
            ("layers=1", 2, "the 2 ranks share too few layers of this model; hint: leave it out, or use a model with more layers that ranks share"),
            ("layers=2,dropout=0.1", 2, "the 2 ranks share too few layers of this model; hint: the ranks do not share MLPs that have dropout: use dropout=0"),
            ("layers=2", 3, "2 ranks cannot divide a batch of 15 tokens equally; hint: choose a --batch whose number of tokens (of samples, for an mlp) is a multiple of 2")):
        said = gtrain("train", "--model", f"vit:image=8,heads=2,width=16,{settings}", "--data", "random,samples=8", "--batch", batch,
                      "--nproc", 2, "--tensor-parallel", 2, SEQUENCE, "--out", f"{folder}/none", status=2)
        good = all(part in said for part in problem.split("; "))  # each rank may have the last word
        yield f"{SEQUENCE} is refused for a vit of {settings} and batches of {batch}", "" if good else said


if __name__ == "__main__":
    sys.exit(tap.run((curves, accumulation, evaluation, checkpoints, reproducible, plans, refusals), GTRAIN, sys.argv[1:]))
