#!/usr/bin/env python3
"""run_dir.py - checkpoints of gtrain in PyTorch, and of PyTorch in gtrain: the next step agrees (TAP)."""
import json
import os
import subprocess
import sys
import tempfile

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
os.environ.setdefault("GOMP_SPINCOUNT", "2000")

try:
    import numpy as np
    import torch
except ImportError:
    print("1..1\nok 1 # SKIP torch: not installed")
    sys.exit(0)

torch.manual_seed(0)
ROWS = 24  # one batch: the order of samples does not matter
COMMON = ["--batch", str(ROWS), "--lr", "0.01", "--lr-schedule", "constant", "--warmup", "0", "-q"]
GPT = "gpt:layers=2,heads=2,width=16,block=16"
TEXT = "the quick brown fox jumps over the lazy dog. " * 4


def gtrain(*arguments, fail=False):
    r = subprocess.run([GTRAIN, *map(str, arguments)], capture_output=True, text=True)
    if (r.returncode != 0) != fail:
        raise RuntimeError(f"status {r.returncode}: {r.stderr}")
    return r.stdout if not fail else r.stderr


def table(path):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(ROWS, 5)).astype(np.float32), rng.integers(0, 3, ROWS)
    with open(path, "w") as f:
        for row, target in zip(x, y):
            f.write(",".join(repr(float(v)) for v in row) + f",{target}\n")
    return torch.from_numpy(x), torch.from_numpy(y)


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()


def worst(model, state):
    mine = model.state_dict()
    assert list(mine) == list(state), f"keys {list(state)}"
    return max((mine[k] - state[k]).abs().max().item() for k in mine)


OPTIMIZERS = {
    "sgd": (lambda p: torch.optim.SGD(p, 1), []),
    "sgd-nesterov": (lambda p: torch.optim.SGD(p, 1), ["--nesterov", "--weight-decay", "0.1"]),
    "sgd-plain": (lambda p: torch.optim.SGD(p, 1), ["--momentum", "0"]),
    "adam": (lambda p: torch.optim.Adam(p, 1), ["--weight-decay", "0.1", "--betas", "0.8,0.95"]),
    "adamw": (lambda p: torch.optim.AdamW(p, 1), ["--weight-decay", "0.1", "--eps", "1e-6"]),
}


def run(name, out, steps, *more):
    return gtrain("train", "--model", "mlp:5,7,3", "--data", "csv:table.csv,standardise=no", "--optimizer", name.split("-")[0],
                  "--steps", steps, "--save-every", 1, "--keep", 0, "--out", out, *COMMON, *OPTIMIZERS[name][1], *more)


def check_to_torch(name, x, y):
    """gtrain's checkpoint after 3 steps, one step on in PyTorch: gtrain's checkpoint after 4."""
    run(name, f"to-{name}", 5)
    old = torch.load(f"to-{name}/checkpoints/step-00000003.pth")
    assert list(old) == ["model", "optimizer", "lr_scheduler", "scaler", "epoch", "step", "epoch_samples", "data_samples", "config"], list(old)
    assert old["step"] == 3 and old["config"]["optimizer"] == name.split("-")[0]
    model = mlp()
    model.load_state_dict(old["model"])
    optimizer = OPTIMIZERS[name][0](model.parameters())
    optimizer.load_state_dict(old["optimizer"])
    assert set(old["optimizer"]["param_groups"][0]) <= set(OPTIMIZERS[name][0](mlp().parameters())
                                                           .state_dict()["param_groups"][0])
    for at in (4, 5):
        step(model, optimizer, x, y)
        new = torch.load(f"to-{name}/checkpoints/step-{at:08}.pth")
        assert worst(model, new["model"]) < 2e-6, f"step {at}: off by {worst(model, new['model'])}"
    # The optimizer's state, too, in the same order and layout.
    mine, theirs = optimizer.state_dict()["state"], new["optimizer"]["state"]
    for i in mine:
        kept = [key for key in mine[i] if mine[i][key] is not None]
        assert kept == list(theirs[i]), f"{list(theirs[i])}"
        for key in kept:
            assert torch.allclose(mine[i][key], theirs[i][key], rtol=1e-4, atol=1e-6), key


def check_from_torch(name, x, y):
    """A checkpoint that torch.save wrote after 3 steps, two steps on in gtrain: what PyTorch has after 5."""
    run(name, f"scratch-{name}", 1)
    group = torch.load(f"scratch-{name}/checkpoints/step-00000001.pth")["optimizer"]["param_groups"][0]
    model = mlp()
    optimizer = OPTIMIZERS[name][0](model.parameters())
    for key in group:
        if key != "params":
            optimizer.param_groups[0][key] = group[key]
    for at in range(3):
        step(model, optimizer, x, y)
    file = f"from-{name}.pth"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "step": 3}, file)
    step(model, optimizer, x, y)
    step(model, optimizer, x, y)
    run(name, f"from-{name}", 5, "--resume", file)
    state = torch.load(f"from-{name}/model.pth", weights_only=True)
    assert worst(model, state) < 2e-6, f"off by {worst(model, state)}"



def check_groups():
    """Of a GPT the matrices decay and come first, each group in the order of declaration."""
    gtrain("train", "--model", GPT, "--data", "text:text.txt", "--steps", 2, "--weight-decay", "0.3", "--out", "gpt", *COMMON)
    new = torch.load("gpt/checkpoints/step-00000002.pth")
    names = [k for k in new["model"] if k != "lm_head.weight"]
    wanted = [k for k in names if new["model"][k].ndim > 1] + [k for k in names if new["model"][k].ndim == 1]
    first, second = new["optimizer"]["param_groups"]
    assert first["params"] + second["params"] == list(range(len(wanted)))
    assert len(first["params"]) == sum(new["model"][k].ndim > 1 for k in names)
    assert first["weight_decay"] == 0.3 and second["weight_decay"] == 0
    for i, name in enumerate(wanted):
        assert new["optimizer"]["state"][i]["exp_avg"].shape == new["model"][name].shape, name
        assert new["optimizer"]["state"][i]["step"] == 2
    parameters = [torch.nn.Parameter(new["model"][k]) for k in wanted]
    cut = len(first["params"])
    torch.optim.AdamW([{"params": parameters[:cut]}, {"params": parameters[cut:]}]).load_state_dict(new["optimizer"])
    assert torch.equal(new["model"]["lm_head.weight"], new["model"]["transformer.wte.weight"])


def check_single_group():
    """The same state in one group, as AdamW(model.parameters()) saves it, goes on to the same bits."""
    old = torch.load("gpt/checkpoints/step-00000002.pth")
    names = [k for k in old["model"] if k != "lm_head.weight"]
    groups = [k for k in names if old["model"][k].ndim > 1] + [k for k in names if old["model"][k].ndim == 1]
    state, group = old["optimizer"]["state"], dict(old["optimizer"]["param_groups"][0])
    group["params"] = list(range(len(names)))
    old["optimizer"] = {"state": {i: state[groups.index(k)] for i, k in enumerate(names)}, "param_groups": [group]}
    torch.save(old, "single.pth")
    for out, file in (("two", "gpt/checkpoints/step-00000002.pth"), ("one", "single.pth")):
        gtrain("train", "--config", "gpt/config.json", "--steps", 5, "--resume", file, "--out", out, "-q")
    assert open("one/model.pth", "rb").read() == open("two/model.pth", "rb").read()
    old["optimizer"]["param_groups"][0]["params"].pop()
    torch.save(old, "short.pth")
    error = gtrain("train", "--config", "gpt/config.json", "--steps", 5, "--resume", "short.pth", "--out", "no", fail=True)
    assert "the optimizer's groups hold" in error, error


def check_init_and_eval(x, y):
    """A nested DataParallel file of PyTorch is evaluated, and trained from, as PyTorch sees it."""
    model = mlp()
    torch.save({"epoch": 7, "net": {"module." + k: v for k, v in model.state_dict().items()}}, "nested.pth")
    r = json.loads(gtrain("eval", "--model", "mlp:5,7,3", "--ckpt", "nested.pth", "--data", "csv:table.csv,standardise=no", "--json"))
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(model(x), y).item()
        right = (model(x).argmax(1) == y).sum().item()
    assert list(r) == ["loss", "top1", "top5", "perplexity", "n"]
    assert abs(r["loss"] - loss) < 1e-6 and r["n"] == ROWS and abs(r["top1"] - right / ROWS) < 1e-9
    run("sgd-plain", "init", 1, "--init-from", "nested.pth")
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    step(model, optimizer, x, y)
    assert worst(model, torch.load("init/model.pth", weights_only=True)) < 2e-6


def main():
    x, y = table("table.csv")
    with open("text.txt", "w") as f:
        f.write(TEXT)
    checks = [(f"{name}: gtrain's checkpoint goes on in PyTorch", lambda n=name: check_to_torch(n, x, y)) for name in OPTIMIZERS]
    checks += [(f"{name}: PyTorch's checkpoint goes on in gtrain", lambda n=name: check_from_torch(n, x, y)) for name in OPTIMIZERS]
    checks += [("gpt: two groups, the matrices first", check_groups),
               ("gpt: one group is understood, a short one refused", check_single_group),
               ("a nested DataParallel file is evaluated and trained from", lambda: check_init_and_eval(x, y))]
    print(f"1..{len(checks)}")
    bad = 0
    for number, (name, check) in enumerate(checks, 1):
        try:
            check()
            print(f"ok {number} - {name}", flush=True)
        except Exception as e:
            bad += 1
            print(f"not ok {number} - {name}\n# {type(e).__name__}: " + str(e).replace("\n", "\n# "), flush=True)
    return bad != 0


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    result = main()
    os.chdir("/")
sys.exit(result)
