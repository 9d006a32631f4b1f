#!/usr/bin/python3
"""
lora.py - low-rank adapters: training, folders and merging beside the formula in PyTorch, and beside PEFT (TAP).

PEFT is in no Debian release: LORA_PYTHON names a python that has the packages peft, transformers and torch; without it these
cases say that they are skipped.
"""
import json
import os
import subprocess
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common")
import exported
import tap
from philox import philox
from training import GTRAIN

import numpy as np
import torch
from torch.nn.functional import cross_entropy

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1", PYTHONWARNINGS="ignore")
PREFIX = "base_model.model."
ROWS, SIZES = 24, (5, 7, 6, 3)
PLAIN = ["--warmup", "0", "--lr-schedule", "constant", "--clip", "0", "--weight-decay", "0", "--log-every", "1", "-q"]


def gtrain(*args, status=0):
    done = subprocess.run([GTRAIN, *map(str, args)], capture_output=True, text=True, timeout=120)
    if done.returncode != status:
        raise RuntimeError("gtrain %s: status %d: %s" % (" ".join(map(str, args)), done.returncode, done.stderr))
    return done.stdout if not status else done.stderr


def losses(run):
    with open(f"{run}/metrics.jsonl") as f:
        return [row["loss"] for row in map(json.loads, f) if row["split"] == "train"]


def measure(*args):
    return json.loads(gtrain("eval", *args, "--json", "-q"))["loss"]


def apart(found, wanted):
    return float("inf") if len(found) != len(wanted) else max(abs(a - b) / max(1, abs(b)) for a, b in zip(found, wanted))


def near(found, wanted, bound=1e-5):
    return "" if apart(found, wanted) <= bound else f"{found}, not {wanted}"


# ---- the formula ----

class Adapted:
    """Linear layers with ReLUs between them: y = W x + b + scale * B A x, where W and b are fixed."""

    def __init__(self, base, adapter, scale):
        self.base, self.scale = base, scale
        self.adapter = {k: v.clone().requires_grad_() for k, v in adapter.items()}

    def __call__(self, x):
        for i in (0, 2, 4):
            y = x @ self.base[f"{i}.weight"].T + self.base[f"{i}.bias"]
            if f"{PREFIX}{i}.lora_A.weight" in self.adapter:
                a, b = (self.adapter[f"{PREFIX}{i}.lora_{m}.weight"] for m in "AB")
                y = y + self.scale * (x @ a.T @ b.T)
            x = y if i == 4 else y.relu()
        return x


def make(folder, rank, layers):
    """Data, the weights of an MLP and an adapter."""
    torch.manual_seed(4)
    x, y = torch.randn(ROWS, SIZES[0]), torch.randint(SIZES[-1], (ROWS,))
    y[:SIZES[-1]] = torch.arange(SIZES[-1])  # classes are numbered in the order of their names
    with open(f"{folder}/table.csv", "w") as f:
        f.writelines(",".join(map(repr, row)) + f",{k}\n" for row, k in zip(x.tolist(), y.tolist()))
    base = {}
    for i, (n, m) in enumerate(zip(SIZES, SIZES[1:])):
        base[f"{2 * i}.weight"], base[f"{2 * i}.bias"] = torch.randn(m, n) / 2, torch.randn(m) / 2
    torch.save(base, f"{folder}/base.pth")
    adapter = {}
    for i in layers:
        m, n = base[f"{i}.weight"].shape
        adapter[f"{PREFIX}{i}.lora_A.weight"], adapter[f"{PREFIX}{i}.lora_B.weight"] = torch.randn(rank, n) / 2, torch.randn(m, rank) / 2
    return x, y, base, adapter


def write_adapter(folder, adapter, **config):
    os.mkdir(folder)
    torch.save(adapter, f"{folder}/adapter_model.bin")
    with open(f"{folder}/adapter_config.json", "w") as f:
        json.dump({"peft_type": "LORA", "bias": "none", "lora_dropout": 0.0, **config}, f)


def formula(folder):
    rank, alpha, steps, lr = 2, 3, 20, 0.02
    x, y, base, start = make(folder, rank, (0, 2))
    data = f"csv:{folder}/table.csv,header=no,standardise=no"
    write_adapter(f"{folder}/start", start, r=rank, lora_alpha=alpha, target_modules=["0", "2"])
    net = Adapted(base, start, alpha / rank)
    optimizer, wanted = torch.optim.SGD(net.adapter.values(), lr), []
    for _ in range(steps):
        loss = cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    last = cross_entropy(net(x), y).item()
    begin = ["train", "--model", "mlp:" + ",".join(map(str, SIZES)), "--data", data, "--batch", ROWS, "--optimizer", "sgd", "--momentum", "0",
             "--lr", lr, *PLAIN]
    run = f"{folder}/run"
    gtrain(*begin, "--init-from", f"{folder}/base.pth", "--lora", f"{folder}/start", "--steps", steps, "--out", run)
    yield "an adapter is trained as by the formula", near(losses(run), wanted)
    found = torch.load(f"{run}/model.pth")
    yield "weights of a run are those of the adapter alone, near the formula's", \
        "" if set(found) == set(start) and all(torch.allclose(found[k], net.adapter[k], atol=1e-5) for k in start) else str(found)
    gtrain(*begin, "--init-from", f"{folder}/base.pth", "--lora", f"{folder}/start", "--steps", steps // 2, "--out", f"{folder}/half")
    gtrain(*begin, "--resume", "auto", "--steps", steps, "--out", f"{folder}/half")
    yield "a resumed run takes its frozen weights from their file", near(losses(f"{folder}/half"), wanted)
    with open(f"{run}/adapter/adapter_config.json") as f:
        config = json.load(f)
    yield "the run's folder says what PEFT asks for", "" if [config[k] for k in ("r", "lora_alpha", "target_modules", "fan_in_fan_out")] == \
        [rank, alpha, ["0", "2"], False] and config["base_model_name_or_path"] == os.path.realpath(f"{folder}/base.pth") else str(config)
    model = ["--model", begin[2], "--data", data]
    yield "a run, and its adapter with the weights, have the same loss", near(
        [measure("--ckpt", run, "--data", data), measure("--ckpt", f"{folder}/base.pth", "--lora", f"{run}/adapter", *model)], [last] * 2)
    gtrain("ckpt", "merge-lora", f"{folder}/base.pth", "--lora", f"{run}/adapter", "-o", f"{folder}/merged.pth", "-q")
    merged = torch.load(f"{folder}/merged.pth")
    sums = {f"{i}.weight": base[f"{i}.weight"] + alpha / rank * (net.adapter[f"{PREFIX}{i}.lora_B.weight"] @ net.adapter[f"{PREFIX}{i}.lora_A.weight"])
            for i in (0, 2)}
    yield "merged weights are the sums, others are as they were", \
        "" if set(merged) == set(base) and all(torch.allclose(merged[k], {**base, **sums}[k], atol=2e-5) for k in base) and \
        torch.equal(merged["4.weight"], base["4.weight"]) else str(merged)
    yield "and have the same loss", near([measure("--ckpt", f"{folder}/merged.pth", *model)], [last])
    write_adapter(f"{folder}/root", start, r=rank, lora_alpha=alpha, target_modules=".*", use_rslora=True)
    with torch.no_grad():
        last = cross_entropy(Adapted(base, start, alpha / rank ** 0.5)(x), y).item()
    yield "rsLoRA divides by the root of r", near([measure("--ckpt", f"{folder}/base.pth", "--lora", f"{folder}/root", *model)], [last])
    halves = {k: v.to(torch.bfloat16) for k, v in base.items()}
    torch.save(halves, f"{folder}/halves.pth")
    gtrain("ckpt", "merge-lora", f"{folder}/halves.pth", "--lora", f"{folder}/start", "-o", f"{folder}/merged16.pth", "-q")
    found = torch.load(f"{folder}/merged16.pth")["0.weight"]
    delta = (alpha / rank * (start[PREFIX + "0.lora_B.weight"] @ start[PREFIX + "0.lora_A.weight"])).to(torch.bfloat16)
    yield "products are rounded to bfloat16 before they are added", \
        "" if found.dtype == torch.bfloat16 and torch.equal(found, halves["0.weight"] + delta) else str(found)


def initial(folder):
    """A is uniform, B zeros: the first loss is that of the model, and a run needs no adapter to begin with."""
    x, y, base, _ = make(folder, 1, ())
    gtrain("train", "--model", "mlp:" + ",".join(map(str, SIZES)), "--data", f"csv:{folder}/table.csv,header=no,standardise=no", "--batch", ROWS,
           "--init-from", f"{folder}/base.pth", "--lora", "r=40,targets=0|2.weight", "--steps", 1, "--lr", "1e-30", "--out", f"{folder}/run", *PLAIN)
    found = torch.load(f"{folder}/run/model.pth")
    a, bound = found[PREFIX + "0.lora_A.weight"], SIZES[0] ** -0.5
    layer = Adapted(base, {}, 0)
    yield "the model is as it was", near(losses(f"{folder}/run"), [cross_entropy(layer(x), y).item()])
    yield "A is uniform between the roots of 1 / in, and B is 0", \
        "" if a.abs().max() <= bound and 0.9 * bound < a.max() and -0.9 * bound > a.min() and abs(a.mean()) < 0.15 * bound and \
        not found[PREFIX + "2.lora_B.weight"].abs().max() > 1e-20 else str(a)


def trained(folder):
    """Layers that are trained with the adapter: their curve, the folder, and merging."""
    rank, steps, lr = 2, 20, 0.02
    x, y, base, start = make(folder, rank, (0,))
    data = f"csv:{folder}/table.csv,header=no,standardise=no"
    write_adapter(f"{folder}/start", {**start, **{f"{PREFIX}{k}": base[k] for k in base if k.startswith("4.")}}, r=rank, lora_alpha=rank, target_modules=["0"],
                  modules_to_save=["4", "no.such.layer"])
    net = Adapted({k: v.clone().requires_grad_(k.startswith("4.")) for k, v in base.items()}, start, 1)
    parameters = [*net.adapter.values(), net.base["4.weight"], net.base["4.bias"]]
    optimizer, wanted = torch.optim.SGD(parameters, lr), []
    for _ in range(steps):
        loss = cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    model = ["--model", "mlp:" + ",".join(map(str, SIZES)), "--data", data]
    run = f"{folder}/run"
    gtrain("train", *model, "--batch", ROWS, "--optimizer", "sgd", "--momentum", "0", "--lr", lr, *PLAIN, "--init-from", f"{folder}/base.pth",
           "--lora", f"{folder}/start", "--steps", steps, "--out", run)
    yield "a layer is trained with the adapter", near(losses(run), wanted)
    found, named = torch.load(f"{run}/model.pth"), {**net.adapter, "4.weight": net.base["4.weight"], "4.bias": net.base["4.bias"]}
    yield "and is in the run's weights", "" if set(found) == set(named) and all(torch.allclose(found[k], named[k], atol=1e-5) for k in found) else str(found)
    with open(f"{run}/adapter/adapter_config.json") as f:
        config = json.load(f)
    yield "the settings name it", "" if config["modules_to_save"] == [f"{PREFIX}4"] and config["target_modules"] == ["0"] else str(config)
    wanted = measure("--ckpt", run, "--data", data)
    gtrain("ckpt", "merge-lora", f"{folder}/base.pth", "--lora", f"{run}/adapter", "-o", f"{folder}/merged.pth", "-q")
    yield "merged weights have the run's loss", near([measure("--ckpt", f"{folder}/merged.pth", *model),
                                                      measure("--ckpt", f"{folder}/base.pth", "--lora", f"{run}/adapter", *model)], [wanted] * 2)
    torch.save({k: v[:2] if k.startswith("4.") else v for k, v in base.items()}, f"{folder}/two.pth")
    said = gtrain("ckpt", "merge-lora", f"{folder}/two.pth", "--lora", f"{run}/adapter", "-o", f"{folder}/no.pth", status=1)
    yield "a layer of another shape is not merged", "" if "has no '4.bias' of the shape that the adapter trained" in said else said
    said = gtrain("train", *model, "--lora", "r=2,targets=0,train=4|9", "--out", f"{folder}/no", "-q", status=2)
    yield "a layer that is not there", "" if "--lora train: the model has no layer '9'" in said else said
    with open(f"{folder}/t.txt", "w") as f:
        f.write("abcdefgh" * 20)
    said = gtrain("train", "--model", "gpt:layers=1,heads=2,width=16,block=8", "--data", f"text:{folder}/t.txt", "--lora", "r=2,train=transformer.wte",
                  "--out", f"{folder}/no", "-q", status=1)
    yield "a table that is the last layer, too", "" if "'transformer.wte.weight' is an embedding, and the weight of a layer, too" in said else said
    gtrain("train", "--model", "gpt:layers=1,heads=2,width=16,block=8", "--data", f"text:{folder}/t.txt", "--lora", "r=2,train=transformer.ln_f", "--steps", 1,
           "--batch", 2, "--out", f"{folder}/gpt", "-q")
    said = gtrain("ckpt", "convert", f"{folder}/gpt/adapter", "--to", "gguf", "-o", f"{folder}/no.gguf", status=1)
    yield "a GGUF adapter has no place for layers", "" if "the adapter has whole layers, 'transformer.ln_f', for which GGUF has no place" in said else said


def written(folder):
    """A run with an adapter is written as a model of another program: with the sum of its weights."""
    with open(f"{folder}/t.txt", "w") as f:
        f.write("abcdefgh" * 20)
    run, data = f"{folder}/gpt", f"text:{folder}/t.txt"
    gtrain("train", "--model", "gpt:layers=1,heads=2,width=16,block=8", "--data", data, "--lora", "r=2,frozen=bf16", "--steps", 9, "--batch", 2, "--lr", "0.1",
           "--out", run, "-q")
    want = [measure("--ckpt", run, "--data", data)]
    for to, form in (("hf", "folder"), ("onnx", "net.onnx")):
        gtrain("ckpt", "convert", run, "--to", to, "-o", f"{folder}/{form}", "-q")
        model = ["--model", f"{folder}/{form}"] if to == "onnx" else []
        yield f"a GPT as {to}", near([measure("--ckpt", f"{folder}/{form}", *model, "--data", data, "--vocab", f"{run}/vocab.json")], want, 1e-3)
    torch.manual_seed(3)
    net = torch.nn.Sequential(torch.nn.Linear(SIZES[0], 8), torch.nn.ReLU(), torch.nn.Linear(8, SIZES[-1]))
    exported.save(net, torch.zeros(2, SIZES[0]), f"{folder}/net.pt2")
    make(folder, 1, ())
    data, run = f"csv:{folder}/table.csv,header=no,standardise=no", f"{folder}/net"
    gtrain("train", "--model", f"{folder}/net.pt2", "--data", data, "--lora", "r=2,train=2", "--steps", 9, "--batch", ROWS, "--lr", "0.1", "--out", run, "-q")
    gtrain("ckpt", "convert", run, "-o", f"{folder}/trained.pt2", "-q")
    gtrain("ckpt", "convert", run, "-o", f"{folder}/trained.onnx", "-q")
    want = measure("--ckpt", run, "--data", data)
    yield "an exported network", near([measure("--ckpt", f"{folder}/{name}", "--model", f"{folder}/{name}", "--data", data) for name in ("trained.pt2", "trained.onnx")],
                                      [want] * 2)
    yield "whose weights have changed", "" if abs(want - measure("--ckpt", f"{folder}/net.pt2", "--model", f"{folder}/net.pt2", "--data", data)) > 1e-3 else str(want)


def damaged(folder):
    """Adapters with whole layers that do not fit are not merged, nor written in part."""
    _, _, base, start = make(folder, 2, (0,))
    whole = {f"{PREFIX}{k}": v for k, v in base.items() if k.startswith("4.")}
    settings = {"r": 2, "lora_alpha": 2, "target_modules": ["0"], "modules_to_save": ["4"]}
    rows = (("NaN", {PREFIX + "4.weight": torch.full((3, 6), float("nan"))}, "the adapter's tensor '4.weight': it holds NaN or Inf"),
            ("integers", {PREFIX + "4.weight": torch.ones(3, 6, dtype=torch.long)}, "the adapter's tensor '4.weight' is of type int64"),
            ("twice", {f"{PREFIX}4.lora_{m}.weight": torch.zeros((2, 6) if m == "A" else (3, 2)) for m in "AB"},
             "the layer '4' has an adapter, and is trained as a whole, too"))
    for name, change, text in rows:
        write_adapter(f"{folder}/{name}", {**start, **whole, **change}, **settings)
        said = gtrain("ckpt", "merge-lora", f"{folder}/base.pth", "--lora", f"{folder}/{name}", "-o", f"{folder}/out.pth", status=1)
        yield f"not merged: {name}", "" if text in said and not os.path.exists(f"{folder}/out.pth") else said
    write_adapter(f"{folder}/half", {**start, PREFIX + "4.weight": base["4.weight"]}, **settings)
    said = gtrain("ckpt", "merge-lora", f"{folder}/base.pth", "--lora", f"{folder}/half", "-o", f"{folder}/out.pth", status=1)
    yield "not merged: a layer without its bias", "" if f"has no '{PREFIX}4.bias'" in said else said
    write_adapter(f"{folder}/good", {**start, **whole}, **settings)
    torch.save({k: v.bfloat16() for k, v in base.items()}, f"{folder}/low.pth")
    gtrain("ckpt", "merge-lora", f"{folder}/low.pth", "--lora", f"{folder}/good", "-o", f"{folder}/low2.pth", "-q")
    yield "types are those of the model", "" if {v.dtype for v in torch.load(f"{folder}/low2.pth").values()} == {torch.bfloat16} else "others"
    with open(f"{folder}/t.txt", "w") as f:
        f.write("abcdefgh" * 20)
    names = [f"{folder}/{kind}" for kind in ("norms", "again")]
    data = ["--data", f"csv:{folder}/table.csv,header=no,standardise=no"]
    layers = ",".join(f"Linear({a},{b})" for a, b in zip((5, *[4] * 12), (*[4] * 12, 3)))
    gtrain("train", "--model", f"seq:{layers}", *data, "--lora", "r=2,targets=0,train=2", "--steps", 2, "--out", names[0], "-q")
    gtrain("train", "--model", f"seq:{layers}", *data, "--lora", f"{names[0]}/adapter", "--steps", 2, "--out", names[1], "-q")
    yield "the name of a layer that is the end of another's", "" if os.path.exists(f"{names[1]}/adapter") else "nothing"
    said = gtrain("train", "--model", "seq:Linear(5,8),BatchNorm1d(8),Linear(8,3)", *data, "--lora", "r=2,targets=0", "--out", f"{folder}/no", "-q", status=1)
    yield "statistics that no adapter has", "" if "training changes '1.running_mean', which is in no adapter" in said and "'train=1'" in said else said


def refused(folder):
    _, _, _, start = make(folder, 2, (0, 2))
    rows = (
        ({"peft_type": "IA3"}, "'peft_type' is \"IA3\", which gtrain does not have"),
        ({"use_dora": True}, "'use_dora' is true, which gtrain does not have"),
        ({"bias": "all"}, "'bias' is \"all\", which gtrain does not have"),
        ({"modules_to_save": ["4"]}, "adapter_model.bin' has no weights for '4', which its modules_to_save name"),
        ({"modules_to_save": "4"}, "'modules_to_save' is \"4\", which gtrain does not have"), ({"modules_to_save": [4]}, "'modules_to_save' is [4]"),
        ({"rank_pattern": {"0": 3}}, "'rank_pattern' is {\"0\":3}, which gtrain does not have"),
        ({"init_lora_weights": "pissa"}, "'init_lora_weights' is \"pissa\", which gtrain does not have"),
        ({"a_later_setting": 1}, "'a_later_setting' is 1, which gtrain does not have"),
        ({"r": 0}, "'r' is not a whole number from 1 to 65536"), ({"r": 1.5}, "'r' is not a whole number from 1 to 65536"),
        ({"lora_alpha": None}, "'lora_alpha' is not a number above 0"), ({"lora_alpha": 2e6}, "/adapter_config.json': 'lora_alpha' is not a number above 0, and at most 1e6"),
        ({"lora_dropout": 1}, "'lora_dropout' is not a number from 0 to below 1"),
        ({"r": 3}, "has shape [2, 5], the model wants [3, 5]"),
    )
    for i, (config, text) in enumerate(rows):
        write_adapter(f"{folder}/{i}", start, **{"r": 2, "lora_alpha": 2, **config})
        said = gtrain("eval", "--ckpt", f"{folder}/base.pth", "--model", "mlp:" + ",".join(map(str, SIZES)), "--data",
                      f"csv:{folder}/table.csv,header=no", "--lora", f"{folder}/{i}", "-q", status=1)
        yield f"refused: {config}", "" if text in said else said
    write_adapter(f"{folder}/other", {f"{PREFIX}6.lora_{m}.weight": torch.zeros(1, 1) for m in "AB"}, r=1, lora_alpha=1)
    said = gtrain("ckpt", "merge-lora", f"{folder}/base.pth", "--lora", f"{folder}/other", "-o", f"{folder}/out.pth", status=1)
    yield "an adapter of another model is not merged", "" if "has no '6.weight', for which the adapter has weights" in said else said
    for case, config, loss in (("", {"target_modules": ["0", "2"]}, False), ("excluded", {"target_modules": ["0", "2"], "exclude_modules": ["2"]}, True),
                               ("some", {"target_modules": ["0", "2"], "layers_to_transform": [0]}, True), ("other", {"target_modules": ["0", "x"]}, True)):
        write_adapter(f"{folder}/part{case}", {k: v for k, v in start.items() if ".0." in k}, r=2, lora_alpha=2, **config)
        said = [gtrain("ckpt", "merge-lora", f"{folder}/base.pth", "--lora", f"{folder}/part{case}", "-o", f"{folder}/{case}.pth", status=not loss)]
        said += [gtrain("eval", "--ckpt", f"{folder}/base.pth", "--model", "mlp:" + ",".join(map(str, SIZES)), "--data",
                        f"csv:{folder}/table.csv,header=no", "--lora", f"{folder}/part{case}", "-q", status=not loss)]
        yield f"a layer that target_modules names, and the adapter lacks: {config}", \
            "" if loss or all("has no weights for '2', which its target_modules name" in text for text in said) else str(said)
    for value, where in ((float("nan"), "adapter"), (float("inf"), "adapter"), (1e5, "sum")):
        write_adapter(f"{folder}/{value}", {**start, PREFIX + "0.lora_B.weight": torch.full((SIZES[1], 2), value)}, r=2, lora_alpha=2, target_modules=["0", "2"])
        torch.save({k: v.half() for k, v in torch.load(f"{folder}/base.pth").items()}, f"{folder}/half.pth")
        said = gtrain("ckpt", "merge-lora", f"{folder}/half.pth", "--lora", f"{folder}/{value}", "-o", f"{folder}/out.pth", status=1)
        words = f"the adapter's tensor '{PREFIX}0.lora_B.weight': it holds NaN or Inf" if where == "adapter" else \
            "the sum of '0.weight' and the adapter is too large for float16"
        yield f"{value} is not merged", "" if words in said and not os.path.exists(f"{folder}/out.pth") else said
    for lost, left in ("AB", "BA"):
        write_adapter(f"{folder}/no{lost}", {k: v for k, v in start.items() if k != f"{PREFIX}2.lora_{lost}.weight"}, r=2, lora_alpha=2)
        said = gtrain("ckpt", "merge-lora", f"{folder}/base.pth", "--lora", f"{folder}/no{lost}", "-o", f"{folder}/out.pth", status=1)
        yield f"a layer without its {lost} is not merged", \
            "" if f"'{PREFIX}2.lora_{left}.weight' has no '{PREFIX}2.lora_{lost}.weight' beside it" in said else said


# ---- the difference of two models ----

def kept_share(difference, rank):
    squares = torch.linalg.svdvals(difference.double()) ** 2
    return float(squares[:rank].sum() / squares.sum()) ** 0.5


def extracted(folder):
    _, _, base, start = make(folder, 2, (0, 2))
    tuned = {k: v.clone() for k, v in base.items()}
    for i in (0, 2):
        tuned[f"{i}.weight"] += start[f"{PREFIX}{i}.lora_B.weight"] @ start[f"{PREFIX}{i}.lora_A.weight"]
    tuned["0.bias"] += 0.01
    torch.save(tuned, f"{folder}/tuned.pth")
    of = ["ckpt", "extract-lora", f"{folder}/tuned.pth", "--base", f"{folder}/base.pth"]
    said = json.loads(gtrain(*of, "--rank", 2, "-o", f"{folder}/two", "--json", "-q"))
    gtrain("ckpt", "merge-lora", f"{folder}/base.pth", "--lora", f"{folder}/two", "-o", f"{folder}/back.pth", "-q")
    back = torch.load(f"{folder}/back.pth")
    yield "a difference of the rank is reproduced, and a bias is left out", \
        "" if all(torch.allclose(back[k], {**tuned, "0.bias": base["0.bias"]}[k], rtol=0, atol=1e-5) for k in base) and said["left_out"] == 1 and \
        abs(said["kept"] - 1) < 1e-6 and [row["module"] for row in said["layers"]] == ["0", "2"] else str(said)
    said = json.loads(gtrain(*of, "--rank", 1, "-o", f"{folder}/one", "--json", "-q"))
    shares = [kept_share(tuned[f"{i}.weight"] - base[f"{i}.weight"], 1) for i in (0, 2)]
    yield "a lower rank keeps the share of the largest singular value", near([row["kept"] for row in said["layers"]], shares)
    with open(f"{folder}/one/adapter_config.json") as f:
        config = json.load(f)
    yield "its settings are those of PEFT", "" if [config[k] for k in ("r", "lora_alpha", "target_modules", "fan_in_fan_out")] == [1, 1, ["0", "2"], False] \
        and config["base_model_name_or_path"] == os.path.realpath(f"{folder}/base.pth") else str(config)
    torch.manual_seed(5)
    wide = {"x.weight": torch.randn(90, 300), "y.weight": torch.zeros(300, 40, dtype=torch.bfloat16), "n.weight": torch.ones(7), "c": torch.tensor(0)}
    torch.save(wide, f"{folder}/wide.pth")
    torch.save({"x.weight": wide["x.weight"] + torch.randn(90, 300), "y.weight": torch.randn(40, 300).bfloat16().t(), "n.weight": torch.ones(7),
                "c": torch.tensor(1)}, f"{folder}/far.pth")
    said = json.loads(gtrain("ckpt", "extract-lora", f"{folder}/far.pth", "--base", f"{folder}/wide.pth", "--rank", 16, "-o", f"{folder}/far", "--json", "-q"))
    far = torch.load(f"{folder}/far.pth")
    shares = [kept_share(far[k].float() - wide[k].float(), 16) for k in ("x.weight", "y.weight")]
    yield "also of differences without a low rank", near([row["kept"] for row in said["layers"]], shares, 1e-4)
    yield "a tensor of integers that differs is left out", "" if said["left_out"] == 1 else str(said)
    tuned.update({"4.weight": base["4.weight"] + 100})
    torch.save(tuned, f"{folder}/other.pth")
    torch.save({**base, "0.weight": base["0.weight"].T}, f"{folder}/shape.pth")
    torch.save({**base, "0.weight": base["0.weight"] * float("nan")}, f"{folder}/nan.pth")
    for name, value in (("tied", 2.0), ("tie", 1.0)):
        one = torch.full((3, 3), value)
        torch.save({"a.weight": one, "head.weight": one}, f"{folder}/{name}.pth")
    rows = (("other", "base", ["--targets", "0|2"], "% of the squared difference is in tensors that the adapter leaves out: '0.bias', '4.weight'"),
            ("other", "base", ["--targets", "0|9.*"], "--targets: '%s/other.pth' has no matrix '9.*'" % folder),
            ("other", "base", ["--targets", "0||2"], "has an empty pattern"), ("base", "base", [], "have the same weights"),
            ("tied", "tie", [], "no layer differs that an adapter may have; these tensors do: 'a.weight', 'head.weight'"),
            ("shape", "base", [], "'0.weight' has one shape"), ("nan", "base", [], "'0.weight' differs by NaN"), ("other", "tie", [], "'0.weight' is in"))
    for one, two, more, words in rows:
        status = 2 if words.startswith(("%", "--")) or "empty" in words else 1
        said = gtrain("ckpt", "extract-lora", f"{folder}/{one}.pth", "--base", f"{folder}/{two}.pth", "--rank", 2, "-o", f"{folder}/no", *more, status=status)
        yield f"not extracted: {words.replace(folder + '/', '')}", "" if words in said and not os.path.exists(f"{folder}/no") else said
    said = gtrain("ckpt", "extract-lora", f"{folder}/other.pth", "--base", f"{folder}/base.pth", "--rank", 2, "-o", f"{folder}/forced", "--targets", "0|2", "--force")
    yield "--force extracts the rest", "" if os.path.exists(f"{folder}/forced/adapter_model.safetensors") else said


def extracted_gpt(folder):
    """GPT-2 has weights [in, out], and embeddings that the output layer shares."""
    with open(f"{folder}/t.txt", "w") as f:
        f.write("abcdefgh" * 20)
    run, data = f"{folder}/run", f"text:{folder}/t.txt"
    gtrain("train", "--model", "gpt:layers=1,heads=2,width=16,block=8", "--data", data, "--steps", 1, "--batch", 2, "--out", run, "-q")
    base = torch.load(f"{run}/model.pth")
    name = next(k for k in base if k.endswith("attn.c_attn.weight"))
    torch.manual_seed(6)
    torch.save({**base, name: base[name] + torch.randn(16, 2) @ torch.randn(2, 48)}, f"{folder}/tuned.pth")
    gtrain("ckpt", "extract-lora", f"{folder}/tuned.pth", "--base", run, "--rank", 2, "-o", f"{folder}/adapter", "-q")
    with open(f"{folder}/adapter/adapter_config.json") as f:
        config = json.load(f)
    yield "the settings say how GPT-2 keeps its weights", "" if config["fan_in_fan_out"] and config["task_type"] == "CAUSAL_LM" and \
        config["target_modules"] == ["c_attn"] else str(config)
    vocab = ["--vocab", f"{run}/vocab.json", "--model", "gpt:layers=1,heads=2,width=16,block=8", "--data", data]
    yield "the model with the adapter has the loss of the other", near([measure("--ckpt", run, "--lora", f"{folder}/adapter", "--data", data)],
                                                                       [measure("--ckpt", f"{folder}/tuned.pth", *vocab)])


# ---- PEFT ----

VOCAB, BLOCK, STEPS = 97, 24, 50
WINDOW = 0x40000004  # GT_RNG_WINDOW of lib/base/philox.h


def shifted(pairs, step):
    """The pairs of the only window, a ring, from the place on where gtrain begins in this epoch."""
    words = philox(0, np.array([[0, 0, WINDOW, step]], dtype=np.uint64))[0]
    return pairs.roll(-(((int(words[1]) << 32 | int(words[0])) * BLOCK) >> 64))


def peft_family(folder, make_net, targets, glob, transposed):
    import peft
    torch.manual_seed(0)
    net = make_net()
    for p in net.parameters():
        p.data.add_(torch.randn_like(p) * 0.05)
    hf, run, data = f"{folder}/hf", f"{folder}/run", f"tokens:{folder}/t.bin,vocab={VOCAB}"
    net.eval().save_pretrained(hf)
    ids = torch.randint(VOCAB, (BLOCK + 1,))
    ids.numpy().astype("uint16").tofile(f"{folder}/t.bin")
    config = peft.LoraConfig(r=4, lora_alpha=16, target_modules=targets, fan_in_fan_out=transposed)
    theirs = peft.get_peft_model(net, config)
    theirs.save_pretrained(f"{folder}/start")
    options = ["--model", hf, "--data", data, "--steps", STEPS, "--batch", 1, "--optimizer", "adamw", "--lr", "0.003", "--betas", "0.9,0.999", *PLAIN]
    gtrain("train", *options, "--lora", f"{folder}/start", "--out", run)
    optimizer, wanted = torch.optim.AdamW([p for p in theirs.parameters() if p.requires_grad], 0.003, weight_decay=0), []
    theirs.train()
    for step in range(STEPS):
        loss = cross_entropy(theirs(input_ids=shifted(ids[:-1], step)[None]).logits[0], shifted(ids[1:], step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    theirs.eval()
    yield "50 steps have PEFT's losses", near(losses(run), wanted, 1e-4)

    def loss_of(model):
        with torch.no_grad():
            return cross_entropy(model(input_ids=ids[None, :-1]).logits[0], ids[1:]).item()
    opened = peft.PeftModel.from_pretrained(type(net).from_pretrained(hf), f"{run}/adapter").eval()
    yield "PEFT opens the run's adapter, to the same loss", near([measure("--ckpt", run, "--data", data)], [loss_of(opened)])
    gtrain("train", *options, "--lora", f"r=4,alpha=16,targets={glob}", "--out", f"{folder}/new")
    with open(f"{folder}/new/adapter/adapter_config.json") as f:
        own = json.load(f)
    opened = peft.PeftModel.from_pretrained(type(net).from_pretrained(hf), f"{folder}/new/adapter").eval()
    count = sum("lora" in name for name, _ in opened.named_parameters())
    yield "and one that gtrain has begun, with the same layers", near([measure("--ckpt", f"{folder}/new", "--data", data)], [loss_of(opened)]) or \
        ("" if count == sum("lora" in name for name, _ in theirs.named_parameters()) else str(own))
    theirs.save_pretrained(f"{folder}/theirs")
    yield "gtrain opens PEFT's, to the same loss", near([measure("--ckpt", hf, "--lora", f"{folder}/theirs", "--data", data)], [loss_of(theirs)])
    gtrain("ckpt", "merge-lora", hf, "--lora", f"{folder}/theirs", "-o", f"{folder}/merged", "-q")
    merged, found = theirs.merge_and_unload().state_dict(), type(net).from_pretrained(f"{folder}/merged").state_dict()
    worst = max((found[k] - v).abs().max().item() for k, v in merged.items())
    yield "merged weights are PEFT's", "" if set(merged) == set(found) and worst <= 1e-6 else str(worst)
    gtrain("ckpt", "extract-lora", f"{folder}/merged", "--base", hf, "--rank", 4, "-o", f"{folder}/extracted", "-q")
    opened = peft.PeftModel.from_pretrained(type(net).from_pretrained(hf), f"{folder}/extracted").eval()
    whole = type(net).from_pretrained(f"{folder}/merged").eval()
    yield "PEFT opens the adapter that is extracted again, to the same loss", near([loss_of(opened)], [loss_of(whole)])


def peft_ties(folder):
    """TIES of the task vectors of three models, in float64."""
    from peft.utils import merge_utils
    torch.manual_seed(8)
    trees = [{"w": torch.randn(70, 50, dtype=torch.float64), "b": torch.randn(9, dtype=torch.float64)} for _ in range(4)]
    names = [f"{folder}/ties{i}.pth" for i in range(4)]
    for name, tree in zip(names, trees):
        torch.save(tree, name)
    for density, weights in ((0.2, (1., 1., 1.)), (0.6, (0.5, 1.25, 0.75)), (1.0, (1., 1., 1.))):
        gtrain("ckpt", "merge", *names[1:], "--base", names[0], "--ties", density, "--weights", ",".join(map(str, weights)), "-o", f"{folder}/ties.pth", "-q")
        found, base = torch.load(f"{folder}/ties.pth"), trees[0]
        wanted = {k: base[k] + merge_utils.ties([t[k] - base[k] for t in trees[1:]], torch.tensor(weights, dtype=torch.float64), density) for k in base}
        yield f"merge --ties {density} is PEFT's", "" if all(torch.allclose(found[k], wanted[k], rtol=0, atol=1e-12) for k in base) else str(found)


def peft_classifier(folder):
    """A classifier of texts from a network without one: PEFT adds the last layers to the adapter."""
    import peft
    import numpy
    from transformers import AutoModelForSequenceClassification, BertConfig, BertModel
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "vocab_size": VOCAB, "max_position_embeddings": 16}
    BertModel(BertConfig(**sizes, hidden_dropout_prob=0, attention_probs_dropout_prob=0)).save_pretrained(f"{folder}/hf")
    net = AutoModelForSequenceClassification.from_pretrained(f"{folder}/hf", num_labels=3)
    theirs = peft.get_peft_model(net, peft.LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=16, target_modules=["query", "value"]))
    theirs.save_pretrained(f"{folder}/start")
    ids, y = torch.randint(VOCAB, (ROWS, 16)), torch.arange(ROWS) % 3
    numpy.savez(f"{folder}/x.npz", input_ids=ids, attention_mask=torch.ones_like(ids), token_type_ids=torch.zeros_like(ids), y=y)
    data, run = f"npz:{folder}/x.npz", f"{folder}/run"
    gtrain("train", "--model", f"{folder}/hf", "--data", data, "--steps", 20, "--batch", ROWS, "--optimizer", "adamw", "--lr", "0.003", "--betas", "0.9,0.999", *PLAIN,
           "--lora", f"{folder}/start", "--out", run)
    optimizer, wanted = torch.optim.AdamW([p for p in theirs.parameters() if p.requires_grad], 0.003, weight_decay=0), []
    theirs.train()
    for _ in range(20):
        loss = cross_entropy(theirs(input_ids=ids).logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    yield "20 steps have PEFT's losses", near(losses(run), wanted, 1e-4)
    fresh = AutoModelForSequenceClassification.from_pretrained(f"{folder}/hf", num_labels=3)
    opened = peft.PeftModel.from_pretrained(fresh, f"{run}/adapter").eval()
    gtrain("ckpt", "convert", run, "--to", "hf", "-o", f"{folder}/back", "-q")
    whole = AutoModelForSequenceClassification.from_pretrained(f"{folder}/back").eval()
    with torch.no_grad():
        found = [cross_entropy(model(input_ids=ids).logits, y).item() for model in (opened, whole)]
    for train in ("", ",train=classifier", ",train=bert.pooler"):
        gtrain("train", "--model", f"{folder}/back", "--data", data, "--lora", f"r=2,targets=*query{train}", "--steps", 3, "--batch", 8, "--lr", "0.01",
               "--out", f"{run}{train}-more", "-q")
        opened = peft.PeftModel.from_pretrained(AutoModelForSequenceClassification.from_pretrained(f"{folder}/back"), f"{run}{train}-more/adapter").eval()
        with torch.no_grad():
            loss = cross_entropy(opened(input_ids=ids).logits, y).item()
        yield f"PEFT opens an adapter with{train or 'out whole layers'}", near([loss], [measure("--ckpt", f"{run}{train}-more", "--data", data)])
    yield "PEFT opens the adapter, and transformers the run's folder", near(found, [measure("--ckpt", run, "--data", data)] * 2)


def peft_tied(folder):
    """A table of tokens that PEFT trains takes the place of both, where a model has one: it is not merged."""
    import peft
    from transformers import LlamaConfig, LlamaForCausalLM
    net = LlamaForCausalLM(LlamaConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48, vocab_size=VOCAB,
                                       max_position_embeddings=BLOCK, tie_word_embeddings=True))
    net.save_pretrained(f"{folder}/tied")
    peft.get_peft_model(net, peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens"])).save_pretrained(f"{folder}/table")
    said = gtrain("ckpt", "merge-lora", f"{folder}/tied", "--lora", f"{folder}/table", "-o", f"{folder}/both", status=1)
    yield "a tied table is not merged", "" if "as a table of its own, and the model uses it twice" in said and not os.path.exists(f"{folder}/both") else said


def peft_cases(folder):
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    yield from peft_ties(folder)
    yield from peft_tied(folder)
    none = {"vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": None}
    families = {
        "llama": (lambda: LlamaForCausalLM(LlamaConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                                                       max_position_embeddings=BLOCK, **none)), ["q_proj", "v_proj"], "*.[qv]_proj", False),
        "gpt2": (lambda: GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=32, n_positions=BLOCK, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                                    **none)), ["attn.c_attn", "attn.c_proj"], "*attn.c_*", True),
    }
    for name, family in families.items():
        os.mkdir(f"{folder}/{name}")
        for case, problem in peft_family(f"{folder}/{name}", *family):
            yield f"{name}: {case}", problem
    os.mkdir(f"{folder}/classes")
    for case, problem in peft_classifier(f"{folder}/classes"):
        yield f"a classifier: {case}", problem


def beside_peft(folder):
    python = os.environ.get("LORA_PYTHON")
    if not python:
        yield "adapters are PEFT's", tap.Skip("peft: no such package; LORA_PYTHON names a python that has it")
        return
    done = subprocess.run([python, os.path.abspath(__file__), "peft", folder], capture_output=True, text=True)
    if done.returncode:
        yield "adapters are PEFT's", done.stderr
        return
    yield from (tuple(json.loads(line)) for line in done.stdout.splitlines() if line.startswith("["))


if __name__ == "__main__":
    if sys.argv[1:2] == ["peft"]:
        torch.set_num_threads(1)
        for case in peft_cases(sys.argv[2]):
            print(json.dumps(case), flush=True)
        sys.exit(0)
    sys.exit(tap.run((formula, initial, trained, written, damaged, refused, extracted, extracted_gpt, beside_peft), GTRAIN, sys.argv[1:]))
