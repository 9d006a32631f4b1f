#!/usr/bin/python3
"""
save_sharded.py - checkpoints of which each rank writes a part, and those that a thread writes (TAP).

A set must have what the file of the same run has; runs go on from it on other numbers of ranks with the bits of a run that went on
undisturbed. HF_PYTHON names a python with PyTorch 2: it loads sets by torch.distributed.checkpoint.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import GTRAIN, gtrain, make_data, torch  # noqa: E402

NEW_PYTHON = os.environ.get("HF_PYTHON")
GPT = "gpt:layers=2,heads=2,width=32,block=16,dropout=0.1"
COMMON = ["--steps", "4", "--save-every", "2", "--keep", "0", "--seed", "3", "--ema", "0.9", "-q"]
BATCH = 8  # of all ranks together
STEP = "checkpoints/step-00000002"


def train(folder, out, ranks, options, copies=1):
    """Train the small gpt; `copies` of the ranks share each sample."""
    gtrain("train", "--model", GPT, "--data", f"text:{folder}/text.txt", "--nproc", ranks, "--batch", BATCH * copies // ranks,
           "--out", f"{folder}/{out}", *COMMON, *options)
    return f"{folder}/{out}"


def same(a, b, where="", but=()):
    """b has strings where a has numbers as keys, and lacks empty dicts."""
    if isinstance(a, dict):
        for key in a:
            name = key if key in b else str(key)
            if key in but or (name not in b and a[key] == {}):
                continue
            assert name in b, f"{where}: no '{key}'"
            same(a[key], b[name], f"{where}.{key}")
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b), f"{where}: other elements"
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{i}]")
    else:
        assert a == b, f"{where}: {a!r} and {b!r}"


def read(path):
    with open(path, "rb") as f:
        return f.read()


def parts(path):
    return sorted(name for name in os.listdir(path) if name != ".metadata")


def as_file(path):
    gtrain("ckpt", "convert", "-q", path, "-o", f"{path}.pth")
    return torch.load(f"{path}.pth")


TENSOR, PIPE = ["--tensor-parallel", "2"], ["--pipeline-parallel", "2"]
#        ranks, options, ranks with the same samples, files of the set
SETS = {
    "one rank": (1, [], 1, 1),
    "ddp": (2, [], 1, 2),
    "ddp, muon": (2, ["--optimizer", "muon"], 1, 2),
    "dp": (2, ["--parallel", "dp"], 1, 1),
    "mirrored": (2, ["--parallel", "mirrored"], 1, 2),
    "zero1": (3, ["--parallel", "zero1", "--bucket-size", "4K", "--batch", "2"], 1, 3),
    "zero3": (4, ["--parallel", "zero3", "--bucket-size", "4K"], 1, 4),
    "tensor": (2, TENSOR, 2, 2),
    "tensor, sequence": (2, [*TENSOR, "--sequence-parallel"], 2, 2),
    "tensor, zero3": (4, [*TENSOR, "--parallel", "zero3", "--bucket-size", "2K"], 2, 4),
    "pipeline": (2, PIPE, 2, 2),
    "pipeline, tensor, zero1": (8, [*PIPE, *TENSOR, "--parallel", "zero1"], 4, 8),
}


@tap.cases(list(SETS))
def a_set_has_what_the_file_has(folder, name):
    ranks, options, copies, files = SETS[name]
    make_data(folder)
    file = train(folder, "file", ranks, options, copies)
    in_thread = list(SETS).index(name) % 2  # the thread writes what is written at once
    made = train(folder, "set", ranks, [*options, "--save-sharded", *(["--save-async"] if in_thread else [])], copies)
    assert len(parts(f"{made}/{STEP}.dcp")) == files, parts(f"{made}/{STEP}.dcp")
    same(torch.load(f"{file}/{STEP}.pth"), as_file(f"{made}/{STEP}.dcp"), but=["config"])
    assert read(f"{made}/model_ema.pth") == read(f"{file}/model_ema.pth")


# The modes before and after, with ranks: --reproducible makes their bits those of one rank.
ZERO1, ZERO3 = ["--parallel", "zero1"], ["--parallel", "zero3", "--bucket-size", "4K"]
MOVES = [(1, [], 1, 2, [], 1), (2, ZERO1, 1, 4, ZERO3, 1), (4, ZERO3, 1, 1, [], 1), (4, ZERO1, 1, 2, TENSOR, 2),
         (2, TENSOR, 2, 4, [*TENSOR, *ZERO1], 2), (2, PIPE, 2, 4, ["--parallel", "zero2"], 1)]


def instead(options):
    """The options, and the defaults of others that the checkpoint names."""
    default = {"--parallel": "ddp", "--tensor-parallel": "1", "--pipeline-parallel": "1"}
    return [*options, *(word for option, value in default.items() if option not in options for word in (option, value))]


def other_ranks(folder):
    """Runs go on from a set on other ranks, with the bits of the run on one rank."""
    make_data(folder)
    alone = {kind: train(folder, f"alone-{kind}", ranks, [*options, "--reproducible"], copies)
             for kind, ranks, options, copies in (("data", 1, [], 1), ("tensor", 2, TENSOR, 2))}
    for i, (ranks, options, copies, then, after, sharing) in enumerate(MOVES):
        form = ["--save-sharded", *(["--save-async"] if i % 2 else [])]
        before = train(folder, f"{i}-before", ranks, [*options, "--reproducible", *form], copies)
        out = train(folder, f"{i}-after", then, [*instead(after), "--reproducible", "--save-sharded", "--resume", f"{before}/{STEP}.dcp"],
                    sharing)
        kinds = {"tensor" if "--tensor-parallel" in words else "data" for words in (options, after)}
        problem = ""
        if len(kinds) == 1 and read(f"{out}/model.pth") != read(f"{alone[kinds.pop()]}/model.pth"):
            problem = "the model has other bits"
        yield f"{ranks} ranks {' '.join(options)}, then {then} {' '.join(after)}", problem


@tap.cases([""])
def forms_follow_each_other(folder, _):
    """A run that goes on in place may change the form; the newest checkpoints stay, in one form of each step."""
    make_data(folder)
    run = f"{folder}/run"
    for steps, options in ((2, ["--save-sharded"]), (3, ["--save-sharded=no"]), (4, ["--save-sharded", "--save-async"])):
        gtrain("train", "--model", GPT, "--data", f"text:{folder}/text.txt", "--nproc", 2, "--batch", 4, *COMMON[2:], "--keep", 2,
               "--save-every", 1, "--steps", steps, "--lr-schedule", "constant", "--out", run, "--resume", "auto", *options)
    found = sorted(os.listdir(f"{run}/checkpoints"))
    assert found == ["step-00000003.pth", "step-00000004.dcp"], found
    last = f"{run}/checkpoints/{found[1]}"
    os.rename(f"{last}/.metadata", f"{folder}/metadata")
    said = gtrain("train", "--out", run, "--resume", "auto", status=1)
    assert f"'{last}' is damaged: it has no .metadata\n" in said, said
    os.rename(f"{folder}/metadata", f"{last}/.metadata")
    gtrain("train", "--out", run, "--resume", "auto", "--save-sharded=no")  # at its end, it saves the last step again
    found = sorted(os.listdir(f"{run}/checkpoints"))
    assert found == ["step-00000003.pth", "step-00000004.pth"], found


# The ranks and options of runs whose writes fail.
FAULTS = {"a file": (1, []), "a set of two ranks": (2, ["--save-sharded"])}


@tap.cases([f"{name}, {when}" for name in FAULTS for when in ("at once", "in a thread")])
def failed_writes_are_reported(folder, name):
    """The run ends with the error, and leaves neither a part of a checkpoint nor a temporary name."""
    form, when = name.rsplit(", ", 1)
    ranks, options = FAULTS[form]
    make_data(folder)
    fake = os.path.abspath(os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "fake", "fail_call.so"))
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    done = subprocess.run([GTRAIN, "train", "--model", GPT, "--data", f"text:{folder}/text.txt", "--nproc", str(ranks), "--batch", "2",
                           "--steps", "20", "--save-every", "2", "-q", "--out", f"{folder}/run", *options,
                           *(["--save-async"] if when == "in a thread" else [])], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "LD_PRELOAD": fake, "FAIL_CALL": "pwrite:*:ENOSPC", "ASAN_OPTIONS": asan})
    assert done.returncode == 1 and "No space left" in done.stderr, f"{done.returncode}: {done.stderr}"
    assert f"'{folder}/run/checkpoints/step-00000002." in done.stderr, done.stderr
    found = os.listdir(f"{folder}/run/checkpoints")
    assert not found, found


# ---- other programs ----

BY_NAME = """
import sys, torch, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
x, y = torch.load(sys.argv[1])
net = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
optim = torch.optim.AdamW(net.parameters(), 0.02, weight_decay=0.1)
def step():
    optim.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optim.step()
for i in range(3):
    step()
model, state = get_state_dict(net, optim)
dcp.save({"model": model, "optim": state, "step": 3} if sys.argv[3] == "names" else
         {"model": net.state_dict(), "optimizer": optim.state_dict(), "step": 3}, checkpoint_id=sys.argv[2])
step()
torch.save(net.state_dict(), sys.argv[2] + ".pth")
"""

LOAD = """
import sys, torch, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
dcp_to_torch_save(sys.argv[1], sys.argv[2])
whole = torch.load(sys.argv[2], weights_only=False)
zeros = {"model": {k: torch.zeros_like(v) for k, v in whole["model"].items()}}
dcp.load(zeros, checkpoint_id=sys.argv[1])
assert all(torch.equal(zeros["model"][k], v) for k, v in whole["model"].items())
torch.save(whole, sys.argv[2])
"""


def run_new(script, *args):
    done = subprocess.run([NEW_PYTHON, "-c", script, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


if NEW_PYTHON:
    @tap.cases(["ddp", "zero3", "tensor, zero3"])
    def pytorch_loads_a_set(folder, name):
        ranks, options, copies, _ = SETS[name]
        make_data(folder)
        made = train(folder, "set", ranks, [*options, "--save-sharded"], copies)
        run_new(LOAD, f"{made}/{STEP}.dcp", f"{folder}/loaded.pth")
        file = train(folder, "file", ranks, options, copies)
        same(torch.load(f"{file}/{STEP}.pth"), torch.load(f"{folder}/loaded.pth"), but=["config"])

    @tap.cases(["numbers", "names"])
    def goes_on_from_pytorch(folder, keys):
        torch.manual_seed(1)
        x, y = torch.randn(24, 5), torch.randint(0, 3, (24,))
        torch.save((x, y), f"{folder}/data.pt")
        with open(f"{folder}/table.csv", "w") as f:
            f.writelines(",".join(repr(float(v)) for v in row) + f",{int(target)}\n" for row, target in zip(x, y))
        run_new(BY_NAME, f"{folder}/data.pt", f"{folder}/dcp", keys)
        gtrain("train", "--model", "mlp:5,7,3", "--data", f"csv:{folder}/table.csv,standardise=no", "--batch", 24, "--lr", 0.02,
               "--lr-schedule", "constant", "--warmup", 0, "--weight-decay", 0.1, "--steps", 4, "-q", "--resume", f"{folder}/dcp",
               "--out", f"{folder}/out")
        mine, theirs = torch.load(f"{folder}/out/model.pth"), torch.load(f"{folder}/dcp.pth")
        worst = max(float((mine[k] - theirs[k]).abs().max()) for k in theirs)
        assert worst < 1e-5, f"the fourth step is {worst} apart"


if __name__ == "__main__":
    sys.exit(tap.run([other_ranks, *tap.parts], GTRAIN, sys.argv[1:]))
