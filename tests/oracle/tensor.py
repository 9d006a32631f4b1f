#!/usr/bin/env python3
"""tensor.py - ranks that share each layer: one rank's curve and evaluation, whole checkpoints, memory, refusals (TAP)."""
import glob
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import BATCH, COMMON, GTRAIN, apart, curve, distance, gtrain, make_data, torch  # noqa: E402
import training  # noqa: E402

TEXT, TABLE = "text:{}/text.txt", "csv:{}/table.csv"
ADAMW = ["--optimizer", "adamw", "--lr", "1e-3", "--clip", "0.5"]
# The text has 29 characters: neither they nor 31 or 43 tokens divide. GPTs of odd heads share them unequally.
GPT = ("gpt:layers=2,heads=4,width=32,block=16,vocab=31", TEXT, ADAMW)
RUNS = [
    GPT,
    ("gpt:layers=2,heads=4,width=32,block=16,dropout=0.1", TEXT, ADAMW),
    ("gpt2:layers=2,heads=5,width=40,block=16,vocab=43,dropout=0.1", TEXT, ADAMW),
    ("gpt:layers=1,heads=4,width=32,block=16,bias=no", TEXT, ["--optimizer", "sgd", "--lr", "0.05", "--clip", "0.3"]),
    ("mlp:5,16,3", TABLE, ["--optimizer", "adamw", "--lr", "0.005", "--clip", "0.5"]),
    ("mlp:5,9,7,3", TABLE, ["--optimizer", "sgd", "--lr", "0.05"]),
    # 4 ranks for 2 heads of keys and values; no layer has a partner, and 4 ranks have 3 columns.
    ("llama:layers=2,heads=4,kv_heads=2,width=32,hidden=40,block=16", TEXT, ADAMW),
    ("mlp:5,3", TABLE, ["--optimizer", "sgd", "--lr", "0.05"]),
    ("lenet", "random:,samples=60", ["--optimizer", "sgd", "--lr", "0.01"]),  # all ranks compute its convolutions
]
GRIDS = [(2, 2), (4, 4), (4, 2)]  # ranks, of which share each layer


def train(folder, name, run, nproc, tensor, *more, batch=BATCH):
    model, data, options = run
    options = [*options, "--tensor-parallel", tensor, *more]
    return training.train(folder, f"{name}-{tensor}", model, data, nproc, options, batch, tensor)


def curves(folder):
    make_data(folder)
    for i, run in enumerate(RUNS):
        one = curve(train(folder, f"m{i}", run, 1, 1))
        far = {}
        for nproc, tensor in tap.one_in(2, GRIDS, i):
            many = curve(train(folder, f"m{i}", run, nproc, tensor))
            far[nproc, tensor] = apart(many, one) if len(many) == len(one) == 50 else 1
            norms = apart(many, one, "grad_norm")  # of float32, and differences of larger numbers
            far[nproc, tensor] = far[nproc, tensor] if norms <= 1e-5 else max(far[nproc, tensor], norms)
        grids = ", ".join(f"{nproc} ranks in groups of {tensor}" for nproc, tensor in far)
        yield f"{run[0]} {' '.join(run[2])}: {grids} have the curve of one", "" if max(far.values()) <= 1e-6 else f"{far}"


def kinds(folder):
    make_data(folder)
    one, many = curve(train(folder, "one", RUNS[1], 1, 1)), curve(train(folder, "threads", RUNS[1], 4, 2, "--parallel", "mirrored"))
    far = apart(many, one)
    yield "2x2 ranks that are threads have the curve of one", "" if len(many) == 50 and far <= 1e-6 else f"apart by {far:.1e}"
    many = curve(train(folder, "checked", RUNS[1], 4, 2, "--check-replicas", "1"))
    far = apart(many, one)
    yield "replicas of shards are the same after every step", "" if len(many) == 50 and far <= 1e-6 else f"apart by {far:.1e}"


def accumulation(folder):
    make_data(folder)
    one = curve(train(folder, "one", GPT, 1, 1))
    far = apart(curve(train(folder, "two", GPT, 4, 2, "--accumulate", "2", batch=BATCH // 2)), one)
    yield "2x2 ranks with 2 micro-batches of 3 samples are a batch of 12", "" if far <= 1e-6 else f"apart by {far:.1e}"


def evaluation(folder):
    """Batches of 12 and a rest; on the data axis one rank has a batch more than the other."""
    make_data(folder)
    with open(f"{folder}/text.txt") as f, open(f"{folder}/val.txt", "w") as g:
        g.write(f.read()[:16 * 41 + 1])
    for i, run in enumerate((GPT, RUNS[5])):
        val = f"{folder}/val.txt" if i == 0 else f"{folder}/table.csv"
        more = ["--val", f"{'text' if i == 0 else 'csv'}:{val}", "--eval-every", "10"]
        one = curve(train(folder, f"e{i}", run, 1, 1, *more), "val")
        for nproc, tensor in GRIDS:
            many = curve(train(folder, f"e{i}", run, nproc, tensor, *more), "val")
            good = len(many) == len(one) == 5 and apart(many, one) <= 1e-6
            good = good and all(a[k] == b[k] for a, b in zip(many, one) for k in ("n", "top1", "top5"))
            yield f"{run[0]}: validation on {nproc} ranks, {tensor} of which share layers, is that on one", "" if good else f"{many} {one}"


def checkpoints(folder):
    """Sums round otherwise in shards: after one step weights, and the means that they make, agree to float32's precision. The
    gradient of keys' biases is rounding alone, which AdamW makes steps of."""
    make_data(folder)
    one, parts = (train(folder, "c", GPT, n, n, "--steps", "1") for n in (1, 3))
    ours, theirs = (torch.load(glob.glob(f"{out}/checkpoints/*1.pth")[0]) for out in (parts, one))
    for tree in (ours, theirs):
        for key, bias in tree["model"].items():
            if key.endswith("c_attn.bias"):
                bias[32:64] = 0
        for state in tree["optimizer"]["state"].values():
            for key in ("exp_avg", "exp_avg_sq"):
                if state[key].shape == (96,):
                    state[key][32:64] = 0
    far = max(distance(ours["model"], theirs["model"]), distance(ours["optimizer"]["state"], theirs["optimizer"]["state"]))
    yield "a checkpoint of 3 ranks with shards is that of one", "" if far <= 1e-5 else f"apart by {far:.1e}"
    groups = [[torch.nn.Parameter(torch.zeros_like(ours["optimizer"]["state"][i]["exp_avg"])) for i in group["params"]]
              for group in ours["optimizer"]["param_groups"]]
    adamw = torch.optim.AdamW([{"params": group} for group in groups])
    adamw.load_state_dict(ours["optimizer"])
    kept = sum(float(s["exp_avg_sq"].sum()) > 0 for s in adamw.state.values())
    keys = list(torch.load(f"{parts}/model.pth"))
    yield ("PyTorch's AdamW takes it, and model.pth has the names of one rank's",
           "" if kept == len(theirs["optimizer"]["state"]) and keys == list(torch.load(f"{one}/model.pth")) else f"{kept} {keys}")
    whole = curve(train(folder, "whole", GPT, 1, 1))
    model, data, options = GPT
    args = ["train", "--model", model, "--data", data.format(folder), "--out", f"{folder}/resumed", *COMMON, *options]
    for steps, nproc, tensor in ((9, 4, 2), (17, 3, 3), (28, 1, 1), (39, 4, 4), (45, 2, 1), (50, 2, 2)):
        args[args.index("--steps") + 1] = steps
        gtrain(*args, "--resume", "auto", "--nproc", nproc, "--tensor-parallel", tensor, "--batch", BATCH * tensor // nproc)
    far = apart(curve(f"{folder}/resumed"), whole)
    yield "2x2, 3, 1, 4 ranks, 2 of ddp, and 2 go through one curve", "" if far <= 1e-6 else f"apart by {far:.1e}"
    more = ["--init-from", f"{parts}/model.pth", "--steps", "10"]
    far = apart(curve(train(folder, "init", GPT, 2, 2, *more)), curve(train(folder, "init", GPT, 1, 1, *more)))
    yield "2 ranks begin from a file as one does", "" if far <= 1e-6 else f"apart by {far:.1e}"


def out(*args):
    return subprocess.run([GTRAIN, *map(str, args), "--threads", "1", "-q"], check=True, capture_output=True, text=True, timeout=120).stdout


def usage(folder):
    """What a model of shards is for: eval, predict and generate with the layers of a checkpoint in shards. The text grows past the block."""
    make_data(folder)
    with open(f"{folder}/prompts.txt", "w") as f:
        f.write("the quick brown fox jumps\nlazy\nq\n")
    llama = "llama:layers=2,heads=4,kv_heads=2,width=32,hidden=40,block=16"
    for i, (model, amps) in enumerate(((GPT[0], (("off", 1e-6, GRIDS[1:]), ("bf16", 1e-3, GRIDS[2:]))), (llama, (("off", 1e-6, [(4, 4)]),)))):
        run = train(folder, f"u{i}", (model, TEXT, ADAMW), 1, 1, "--steps", "20")
        for amp, close, grids in amps:
            def ask(nproc, tensor):
                shards = ["--ckpt", run, "--amp", amp, "--tensor-parallel", tensor]
                ranks = [*shards, "--nproc", nproc, "--json"]
                scores = json.loads(out("eval", *ranks, "--data", TEXT.format(folder), "--batch", 7))
                answers = json.loads(out("predict", *ranks, "--batch", 1, "--top", 5, f"{folder}/prompts.txt"))["predictions"]
                texts = [out("generate", *shards, "--prompt", prompt, "--tokens", 24) for prompt in ("lazy", "t")]
                return scores, answers, texts
            one = ask(1, 1)
            for nproc, tensor in grids:
                many = ask(nproc, tensor)
                far = apart([many[0]], [one[0]])
                for a, b in zip(many[1], one[1]):
                    same = a["input"] == b["input"] and (amp != "off" or [x["class"] for x in a["classes"]] == [x["class"] for x in b["classes"]])
                    far = max(far, 0 if same else 1, apart(a["classes"], b["classes"], "probability") / 10)
                good = far <= close and len(many[1]) == 3 and (amp != "off" or many[2] == one[2])
                yield (f"{model.split(':')[0]} --amp {amp}: {nproc} ranks, {tensor} of which share layers, evaluate, predict and write as one",
                       "" if good else f"apart by {far}: {many[2]} {one[2]}")


def dry(*options):
    done = subprocess.run([GTRAIN, "train", "--model", "gpt2", "--data", "random:,samples=8", "--batch", "1", *options, "--dry-run",
                           "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def memory(folder):
    one = dry()
    for n in (2, 4):
        said = dry("--nproc", str(n), "--tensor-parallel", str(n))
        # norms, positions and half of the biases stay whole
        for what in ("parameters", "gradients", "optimizer"):
            ratio = said["memory_bytes"][what] * n / one["memory_bytes"][what]
            yield f"gpt2 on {n} ranks: {what} / {n}", "" if 1 < ratio < 1.03 else f"x {ratio}"
        ratio = said["flops_per_step"] * n / one["flops_per_step"]
        yield f"gpt2 on {n} ranks: work / {n}", "" if 1 <= ratio < 1.01 else f"x {ratio}"
        # Two sums forward and two backward in each of 12 layers, one of embeddings, one behind the head; and numbers per token.
        wanted = 2 * (n - 1) / n * 4 * 1024 * (50 * 768 + 4)
        yield (f"gpt2 on {n} ranks: sums of 50 activations travel",
               "" if said["parameters"] == one["parameters"] and abs(said["communicated_bytes_per_step"] / wanted - 1) < 1e-3
               else f"{said['communicated_bytes_per_step']}, not {wanted}")


def refusals(folder):
    make_data(folder)
    for options, text in (
            (["--model", "resnet20", "--data", "random:,samples=60"], "tensor parallelism can shard only 650 of"),
            (["--model", GPT[0], "--data", TEXT.format(folder), "--parallel", "dp"], "--tensor-parallel cannot be combined with"),
            (["--model", GPT[0], "--data", TEXT.format(folder), "--nproc", "3"], "2 does not divide 3 ranks")):
        done = subprocess.run([GTRAIN, "train", "--nproc", "2", "--tensor-parallel", "2", "--out", f"{folder}/no", "--steps", "1", *options],
                              capture_output=True, text=True, timeout=60)
        yield (f"refused: {' '.join(options[:2] + options[4:])}",
               "" if done.returncode and text in done.stderr and "hint: " in done.stderr else done.stderr)
    run = train(folder, "r", GPT, 1, 1, "--steps", "1")
    for options, text in ((["--nproc", "2"], "--nproc 2: a text is written by one rank"),
                          (["--tensor-parallel", "2", "--nproc", "3"], "2 does not divide 3 ranks"),
                          (["--tensor-parallel", "5"], "divides into 4 shards at most, not into 5"),
                          (["--device", "cpu,cpu"], "--device cpu,cpu: ")):
        done = subprocess.run([GTRAIN, "generate", "--ckpt", run, *options], capture_output=True, text=True, timeout=60)
        yield (f"refused: generate {' '.join(options)}",
               "" if done.returncode and not done.stdout and text in done.stderr and "hint: " in done.stderr else done.stderr)


if __name__ == "__main__":
    sys.exit(tap.run((curves, kinds, accumulation, evaluation, checkpoints, usage, memory, refusals), GTRAIN, sys.argv[1:]))
