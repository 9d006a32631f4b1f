#!/usr/bin/env python3
"""pipeline.py - models cut into stages: one rank's curve, evaluation and files, whatever the stages, chunks and schedule (TAP)."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import BATCH, COMMON, GTRAIN, TEXT, apart, curve, gtrain, make_data, torch, use_isa  # noqa: E402

WORDS = len(set(TEXT))
GPT = "gpt:layers=2,heads=2,width=32,block=16"
#        model, data: what to train, options
RUNS = [
    ("mlp:5,16,12,16,3", "csv:{}/table.csv", ["--optimizer", "adamw", "--lr", "0.005", "--clip", "0.5"]),
    ("lenet", "random:,samples=60", ["--optimizer", "sgd", "--lr", "0.01"]),
    (GPT, "text:{}/text.txt", ["--optimizer", "adamw", "--lr", "1e-3", "--clip", "1"]),
    (GPT + ",dropout=0.2", "text:{}/text.txt", ["--optimizer", "sgd", "--lr", "0.02"]),
]
#          stages: chunks, schedule
ORDERS = {2: [(1, "gpipe"), (4, "gpipe"), (2, "1f1b"), (4, "1f1b")], 3: [(1, "gpipe"), (4, "1f1b")], 4: [(4, "gpipe"), (2, "1f1b")]}


def pipeline(stages, chunks, schedule="1f1b"):
    return ["--pipeline-parallel", stages, "--chunks", chunks, "--schedule", schedule]


def train(folder, name, model, data, nproc, batch, options, common=COMMON):
    out = f"{folder}/{name}"
    gtrain("train", "--model", model, "--data", data.format(folder), "--nproc", nproc, "--batch", batch, "--out", out, "--timeout", "30s",
           *common, *options)
    return out


def off(out, one):
    """How far the losses are apart, and norms (of float32, and sums in another order), or 1 where there are not as many."""
    a, b = curve(out), curve(one)
    if len(a) != len(b) or len(a) < 50:
        return 1
    return max(apart(a, b), apart(a, b, "grad_norm") / 10)


def curves(folder):
    make_data(folder)
    for i, (model, data, options) in enumerate(RUNS):
        one = train(folder, f"m{i}", model, data, 1, BATCH, options)
        for stages, orders in ORDERS.items():
            far = {}
            for chunks, schedule in tap.one_in(2, orders, i):
                out = train(folder, f"m{i}-{stages}-{chunks}-{schedule}", model, data, stages, BATCH,
                            [*options, *pipeline(stages, chunks, schedule)])
                far[chunks, schedule] = off(out, one)
            yield f"{model} {' '.join(options)}: {stages} stages have the curve of one rank", "" if max(far.values()) <= 1e-6 else f"{far}"
        far = {}
        for chunks, schedule in tap.one_in(2, ((3, "gpipe"), (3, "1f1b")), i):
            out = train(folder, f"m{i}-2x2-{schedule}", model, data, 4, BATCH // 2, [*options, *pipeline(2, chunks, schedule)])
            far[schedule] = off(out, one)
        yield f"{model} {' '.join(options)}: 2 stages x 2 ranks have the curve of one", "" if max(far.values()) <= 1e-6 else f"{far}"


def batch_statistics(folder):
    """A chunk is a micro-batch: its statistics, and sums in its order, are those of --accumulate, to the bit."""
    options = ["--optimizer", "sgd", "--lr", "0.02", "--steps", 12]
    one = train(folder, "one", "resnet20", "random:,samples=24", 1, 4, [*options, "--accumulate", 3])
    right = torch.load(f"{one}/model.pth")
    for stages, schedule in ((2, "gpipe"), (3, "1f1b"), (4, "1f1b")):
        out = train(folder, f"p{stages}", "resnet20", "random:,samples=24", stages, 12, [*options, *pipeline(stages, 3, schedule)])
        weights = torch.load(f"{out}/model.pth")
        same = [r["loss"] for r in curve(out)] == [r["loss"] for r in curve(one)] and len(curve(out)) == 12
        differ = [k for k in right if not torch.equal(right[k], weights[k])] if list(right) == list(weights) else ["the keys"]
        yield f"resnet20: {stages} stages, {schedule}, are one rank with --accumulate", "" if same and not differ else f"{same} {differ[:3]}"


def together(folder):
    """2 stages x 2 ranks, with what ranks of one stage do among themselves."""
    make_data(folder)
    model, data, options = RUNS[2]
    one = train(folder, "one", model, data, 1, BATCH, options)
    out = train(folder, "checked", model, data, 4, BATCH // 2, [*options, *pipeline(2, 3), "--check-replicas", 1])
    far = off(out, one)
    yield "weights of 2 stages x 2 ranks are compared, stage by stage", "" if far <= 1e-6 else f"apart by {far:.1e}"
    # A chunk of 2 samples on each of 2 ranks is a micro-batch of 4. Later steps make more of the rounding.
    options = ["--optimizer", "sgd", "--lr", "0.02", "--steps", 3]
    one = train(folder, "four", "resnet20", "random:,samples=24", 1, 4, [*options, "--accumulate", 3])
    out = train(folder, "bn", "resnet20", "random:,samples=24", 4, 6, [*options, *pipeline(2, 3), "--sync-bn", "--check-replicas", 1])
    far = apart(curve(out), curve(one)) if len(curve(out)) == 3 else 1
    yield "resnet20, 2 stages x 2 ranks: --sync-bn has the statistics of all samples of a chunk", "" if far <= 1e-6 else f"apart by {far:.1e}"


def short_batches(folder):
    """96 samples in batches of 14: the last has 12, which 7 chunks do not divide, but 6."""
    make_data(folder)
    model, data, options = RUNS[2]
    common = [o for o in COMMON if o != "--drop-last"]
    one = train(folder, "one", model, data, 1, 14, options, common)
    for stages, schedule in ((2, "gpipe"), (3, "1f1b")):
        out = train(folder, f"p{stages}", model, data, stages, 14, [*options, *pipeline(stages, 7, schedule)], common)
        far = off(out, one)
        yield f"{stages} stages, {schedule}: a short last batch has fewer chunks", "" if far <= 1e-6 else f"apart by {far:.1e}"


def accumulation(folder):
    make_data(folder)
    model, data, options = RUNS[3]
    one = train(folder, "one", model, data, 1, BATCH, options)
    out = train(folder, "parts", model, data, 4, 2, [*options, *pipeline(2, 2), "--accumulate", 3])
    far = off(out, one)
    yield "2 x 2 ranks x 3 micro-batches x 2 chunks x 1 sample are a batch of 12", "" if far <= 1e-6 else f"apart by {far:.1e}"


def evaluation(folder):
    """87 and 3 samples in batches of 6: ranks have unequal numbers of batches, or none. Ranks of resnet20 have statistics of their own."""
    for model, samples, grids in (("lenet", 87, ((2, 2), (3, 3), (2, 4))), ("lenet", 3, ((2, 2), (3, 3), (2, 4))),
                                  ("resnet20", 13, ((2, 2), (3, 3)))):
        options = ["--optimizer", "sgd", "--lr", "0.01", "--eval-every", "10", "--steps", "20", "--val", f"random:,samples={samples}"]
        one = curve(train(folder, f"{model}{samples}", model, "random:,samples=12", 1, 6, options), "val")
        for stages, nproc in grids:
            out = train(folder, f"{model}{samples}-{stages}-{nproc}", model, "random:,samples=12", nproc, 6 * stages // nproc,
                        [*options, *pipeline(stages, 1)])
            many = curve(out, "val")
            good = [r["n"] for r in many] == [samples] * 2 and apart(many, one) <= 1e-6 and all(a["top1"] == b["top1"] for a, b in zip(many, one))
            yield f"{model}: {samples} samples on {nproc} ranks, {stages} stages, as on one", "" if good else f"{many} {one}"


def flat(tree, at=""):
    if isinstance(tree, torch.Tensor):
        yield at, tree
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield from flat(value, f"{at}.{key}")


def resuming(folder):
    make_data(folder)
    model, data, options = RUNS[2]
    whole = train(folder, "whole", model, data, 1, BATCH, options)
    args = ["train", "--model", model, "--data", data.format(folder), "--out", f"{folder}/parts", *COMMON, *options]
    for steps, nproc, stages, batch in ((11, 4, 2, 6), (24, 1, 1, 12), (37, 3, 3, 12), (50, 2, 1, 6)):
        args[args.index("--steps") + 1] = steps
        gtrain(*args, "--resume", "auto", "--nproc", nproc, "--pipeline-parallel", stages, "--batch", batch)
    far = off(f"{folder}/parts", whole)
    yield "2 x 2 ranks, then 1, then 3 stages, then 2 ranks go through one curve", "" if far <= 1e-6 else f"apart by {far:.1e}"
    out = train(folder, "stages", model, data, 3, BATCH, [*options, *pipeline(3, 2)])
    a, b = (dict(flat(torch.load(f"{o}/checkpoints/step-00000050.pth"))) for o in (out, whole))
    far = {k: float((a[k] - b[k]).abs().max()) for k in b} if list(a) == list(b) else {"keys": 1}
    tied = "lm_head.weight" in torch.load(f"{out}/model.pth")
    yield "3 stages write one rank's checkpoint, optimizer included", "" if tied and max(far.values()) <= 1e-4 else f"{tied} {far}"
    gtrain(*args, "--resume", "auto", "--nproc", 2, "--pipeline-parallel", 2, "--batch", 6, "--steps", 60)
    yield "half the global batch goes on", "" if len(curve(f"{folder}/parts")) == 60 else "another number of steps"


def plans(folder):
    """A dry run tells what each stage does, takes and sends."""
    make_data(folder)
    told = {}
    for schedule in ("gpipe", "1f1b"):
        done = subprocess.run([GTRAIN, "train", "--model", GPT, "--data", f"text:{folder}/text.txt", "--batch", "12", "--nproc", "4", "--json",
                               "--dry-run", *map(str, pipeline(2, 12, schedule))], capture_output=True, text=True, check=True)
        told[schedule] = json.loads(done.stdout)
    stages = told["1f1b"]["stages"]
    held = sum(s["parameters"] for s in stages) - told["1f1b"]["parameters"]
    good = len(stages) == 2 and abs(sum(s["work"] for s in stages) - 1) < 1e-6 and all(0.4 < s["work"] < 0.6 for s in stages)
    yield "a dry run tells the stages' work, and the embedding is held twice", "" if good and held == WORDS * 32 else f"{held} {stages}"
    sent = 12 * 16 * 32 * 4  # a value of [12, 16, 32], forward or back
    tied = WORDS * 32 * 4
    gradients = [stage["parameters"] * 4 for stage in stages]
    wrong = [s["communicated_bytes_per_step"] for s, g in zip(stages, gradients) if s["communicated_bytes_per_step"] != sent + tied + g]
    yield "and what they send: values, the gradient of the embedding, those that 2 ranks share", f"{wrong}" if wrong else ""
    a, b = (told[schedule]["stages"][0]["arena_bytes"] for schedule in ("1f1b", "gpipe"))
    yield "1f1b keeps 2 of 12 chunks where gpipe keeps all", "" if a * 2 < b else f"{a} {b}"


def refusals(folder):
    make_data(folder)
    for options, problem in (
            (["--nproc", 3, "--pipeline-parallel", 2], "2 stages do not divide 3 ranks"),
            (["--pipeline-parallel", 2], "2 stages do not divide 1 rank"),
            (["--nproc", 4, "--pipeline-parallel", 4], "cannot be cut into 4 stages, but into 2"),
            (["--nproc", 2, "--pipeline-parallel", 2, "--chunks", 5], "5 do not divide --batch 12"),
            (["--nproc", 2, "--pipeline-parallel", 2, "--parallel", "dp"], "cannot be combined with --parallel dp"),
            (["--nproc", 2, "--chunks", 2], "has no effect with these options")):
        for dry in ([], ["--dry-run"]):
            said = gtrain("train", "--model", "mlp:5,16,3", "--data", f"csv:{folder}/table.csv", "--batch", BATCH, "--out", f"{folder}/none",
                          *options, *dry, status=2)
            yield f"{' '.join(map(str, options + dry))} is refused", "" if problem in said and "hint: " in said else said


if __name__ == "__main__":
    use_isa("AVX2")
    sys.exit(tap.run((curves, batch_statistics, together, short_batches, accumulation, evaluation, resuming, plans, refusals), GTRAIN, sys.argv[1:]))
