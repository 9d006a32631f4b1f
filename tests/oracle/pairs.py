#!/usr/bin/python3
"""
pairs.py - direct preference optimization: the samples of pairs, PyTorch's loss and curve, every mode, and resumed runs (TAP).

The tokenizer and the template are those of chat_files.py.
"""
import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys

sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common")
import tap  # noqa: E402
from chat_files import IGNORE, SPECIALS, make, messages, sample, turns  # noqa: E402
from training import COMMON, GTRAIN, TESTS, apart, curve, gtrain, torch  # noqa: E402

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import models  # noqa: E402

DUMP = os.path.join(TESTS, "data_dump")
BLOCK = 64
BETA = 0.3


def numbers(count, shift=0):
    return [{"prompt": "%d+%d?" % (i, i + shift), "chosen": "%d" % (2 * i + shift), "rejected": "no" + "!" * (i % 5)} for i in range(count)]


def make_pairs(folder, rows, name="pairs"):
    make(folder, [])
    with open(f"{folder}/{name}.jsonl", "w") as f:
        f.write("".join(json.dumps(row) + "\n" for row in rows))
    return f"pairs:{folder}/{name}.jsonl,tokenizer={folder}/tok"


def pieces(row):
    """The texts of a row of numbers(): of the better answer, and of the other one."""
    return [[*turns([("user", row["prompt"])]), *turns([("assistant", row[name])])] for name in ("chosen", "rejected")]


def dump(spec):
    """The block and the samples: tokens of both texts, the reference, targets of both."""
    done = subprocess.run([DUMP, spec], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    count, block = (int(done.stderr.split()[k]) for k in (1, 6))
    words = struct.unpack("<%di" % (len(done.stdout) // 4), done.stdout)
    each = 4 * block + 1
    assert len(words) == count * each, (len(words), count, block)
    rows = [words[i:i + each] for i in range(0, len(words), each)]
    return block, [(list(r[:2 * block]), r[2 * block], list(r[2 * block + 1:])) for r in rows]


def both(texts, block):
    halves = [sample(text, block) for text in texts]
    return halves[0][0] + halves[1][0], 0, halves[0][1] + halves[1][1]


FORMS = ["texts", "messages", "a prompt in both", "a prompt in both and its text", "a longer prompt in both", "cut"]


@tap.cases(FORMS)
def forms(folder, name):
    talk = [("user", "1+1?"), ("assistant", "2"), ("user", "so")]
    good, bad = [("assistant", "yes")], [("assistant", "no, no"), ("user", "oh")]
    texts = [[*turns(talk, ()), *turns(good)], [*turns(talk, ()), *turns(bad[:1])]]
    if name == "texts":
        rows = numbers(3)
        block, found = dump(make_pairs(folder, rows))
        assert found == [both(pieces(row), block) for row in rows], found
        return
    if name == "messages":
        row = {"prompt": messages(talk), "chosen": messages(good), "rejected": messages(bad)}
    elif name == "a prompt in both":
        row = {"chosen": messages(talk + good), "rejected": messages(talk + bad)}
    elif name == "a prompt in both and its text":
        row = {"prompt": "1+1?", "chosen": messages(talk + good), "rejected": messages(talk + bad)}
    elif name == "a longer prompt in both":  # the answer in the prompt is not trained on
        row = {"prompt": messages(talk[:1]), "chosen": messages(talk[1:] + good), "rejected": messages(talk[1:] + bad)}
    else:
        row = {"prompt": "1", "chosen": "a" * 80, "rejected": "b"}
        alike = {"prompt": "1", "chosen": "a" * 80, "rejected": "a" * 81}
        rows = [row, alike, {"prompt": "1" * 80, "chosen": "a", "rejected": "b"}, {"prompt": "1", "chosen": "a", "rejected": "b"}]
        block, found = dump(make_pairs(folder, rows))
        assert block == BLOCK and found == [both(pieces(r), BLOCK) for r in (rows[0], rows[3])], (block, found)
        return
    block, found = dump(make_pairs(folder, [row]))
    assert found == [both(texts, block)], f"{found}\nnot\n{both(texts, block)}"


# ---- training ----

def margins(model, rows, block):
    """log p of the better answer less that of the other one."""
    x = torch.tensor([r[0] for r in rows]).view(-1, block)
    y = torch.tensor([r[2] for r in rows]).view(-1, block)
    p = -torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=IGNORE, reduction="none").view(-1, 2, block).sum(2)
    return p[:, 0] - p[:, 1]


def dpo(score, smoothing):
    logs = torch.nn.functional.logsigmoid
    return (-(1 - smoothing) * logs(score) - smoothing * logs(-score)).mean()


def begin(folder):
    """Weights to begin with, which do not come from pairs."""
    with open(f"{folder}/t.txt", "w") as f:
        f.write("1+1? 2 no yes " * 30)
    out, model = f"{folder}/begin", f"gpt:layers=2,heads=2,width=16,block={BLOCK}"
    gtrain("train", "--model", model, "--data", f"text:{folder}/t.txt,tokenizer={folder}/tok", "--batch", 4, "--out", out, "--steps", 1, "-q")
    return out, model


def torch_model(path):
    model = models.GPT(2, 2, 16, BLOCK, 256 + len(SPECIALS))
    model.load_state_dict(torch.load(f"{path}/model.pth"), strict=False)
    return model


def torch_curve(start, spec, val, smoothing, steps):
    model, (block, rows), (_, held) = torch_model(start), dump(spec), dump(val)
    with torch.no_grad():
        reference, held_reference = margins(model, rows, block), margins(model, held, block)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(steps):
        loss = dpo(BETA * (margins(model, rows, block) - reference), smoothing)
        losses.append({"loss": loss.item()})
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        score = BETA * (margins(model, held, block) - held_reference)
    return losses, {"loss": dpo(score, 0).item(), "accuracy": (score > 0).double().mean().item()}


MODES = {
    "one rank": ["--batch", 12], "two ranks": ["--nproc", 2, "--batch", 6], "micro-batches": ["--batch", 3, "--accumulate", 4],
    "sharded": ["--nproc", 2, "--batch", 3, "--accumulate", 2, "--parallel", "zero3"], "dp": ["--nproc", 2, "--batch", 6, "--parallel", "dp"],
    "tensor": ["--nproc", 2, "--batch", 12, "--tensor-parallel", 2],
    "pipeline": ["--nproc", 2, "--batch", 12, "--pipeline-parallel", 2, "--chunks", 2], "recomputed": ["--batch", 12, "--recompute"],
    "reproducible": ["--nproc", 2, "--batch", 6, "--reproducible"],
}


def training(folder):
    """Full batches beside PyTorch, and evaluations."""
    rows = numbers(12)
    spec, val = make_pairs(folder, rows), make_pairs(folder, numbers(7, 3), "val")
    start, model = begin(folder)
    common = [*COMMON[2:], "--steps", 6, "--init-from", start, "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--lr", 0.5, "--model", model,
              "--data", spec, "--val", val, "--eval-every", 6]
    for smoothing in (0, 0.2):
        losses, held = torch_curve(start, spec, val, smoothing, 6)
        yield f"the loss begins at log 2, smoothing {smoothing}", "" if abs(losses[0]["loss"] - 0.693147) < 1e-5 else str(losses[0])
        for label, options in (MODES if not smoothing else {"smoothed": MODES["one rank"]}).items():
            out = f"{folder}/{label.replace(' ', '-')}"
            gtrain("train", *common, *options, "--loss", f"dpo:beta={BETA},label-smoothing={smoothing}", "--out", out)
            found, end = curve(out), curve(out, "val")[-1]
            far = max(apart(found, losses), abs(end["loss"] / held["loss"] - 1), abs(end["accuracy"] - held["accuracy"]))
            yield f"the curve is PyTorch's: {label}", "" if len(found) == 6 and far < 1e-5 else f"{far} apart: {found[-1]} {losses[-1]} {end} {held}"
    gtrain("train", *common, "--batch", 12, "--amp", "bf16", "--loss", f"dpo:beta={BETA}", "--out", f"{folder}/bf16")
    far = apart(curve(f"{folder}/bf16"), torch_curve(start, spec, val, 0, 6)[0])
    yield "in bfloat16", "" if far < 0.02 else f"{far} apart"
    for name, model in {"llama": f"llama:layers=2,heads=2,width=16,block={BLOCK}", "a stack": f"seq:Embedding({256 + len(SPECIALS)},8),Linear(8,{256 + len(SPECIALS)})"}.items():
        losses = []
        # A stack has no layers that stages or ranks could share.
        for i, options in enumerate((["--batch", 12], ["--nproc", 4, "--batch", 6, *(["--tensor-parallel", 2] if name == "llama" else ["--batch", 3])])):
            out = f"{folder}/{name[-5:]}-{i}"
            gtrain("train", *COMMON[2:], "--steps", 4, "--optimizer", "sgd", "--lr", 0.5, "--model", model, "--data", spec, *options, "--out", out)
            losses.append(curve(out))
        far = apart(*losses)
        yield f"{name}: four ranks have the curve of one", "" if far < 1e-5 and losses[0][-1]["loss"] < losses[0][0]["loss"] else f"{far} apart: {losses[0]}"
    gtrain("train", *common, "--batch", 12, "--tensorboard", "--out", f"{folder}/board")
    yield "with texts for TensorBoard", "" if any(name.startswith("events") for name in os.listdir(f"{folder}/board")) else "no events"
    yield from adapters(folder, common)
    yield "the library's steps are those of the command", library(folder, start, model=common[common.index("--model") + 1], spec=spec)


def library(folder, start, model, spec):
    """The difference of three steps of libgtrain from those of `train`."""
    path = os.path.join(os.path.dirname(GTRAIN), "libgtrain.so")
    if os.environ.get("SANITIZE") or not os.path.exists(path):
        return tap.Skip("no library that Python can load")
    options = {"model": model, "data": spec, "init-from": start, "batch": 12, "steps": 3, "optimizer": "sgd", "lr": 0.5, "loss": "dpo:beta=2"}
    gtrain("train", *COMMON[2:], *(word for name, value in options.items() for word in (f"--{name}", value)), "--out", f"{folder}/command")
    lib, run, loss, error = ctypes.CDLL(path), ctypes.c_void_p(), ctypes.c_double(), ctypes.create_string_buffer(2048)
    text = "".join(f"{name}={value}\n" for name, value in {**options, "warmup": 0, "lr-schedule": "constant", "drop-last": "yes", "seed": 3}.items())
    if lib.gtrain_open(ctypes.byref(run), text.encode(), error):
        return repr(error.raw.split(b"\0\0")[0])
    losses = []
    for _ in range(3):
        lib.gtrain_step(run, None, 0, ctypes.byref(loss), error)
        losses.append({"loss": loss.value})
    lib.gtrain_close(run)
    far = apart(losses, curve(f"{folder}/command"))
    return "" if far < 1e-6 and losses[0]["loss"] > 0.69 else f"{far} apart: {losses}"


def adapters(folder, common):
    """The model without its adapters is the reference: their product is 0 at first."""
    losses = {}
    for label, options in {"one": ["--batch", 12], "two": ["--nproc", 2, "--batch", 6]}.items():
        out = f"{folder}/lora-{label}"
        gtrain("train", *common, *options, "--lora", "r=2", "--out", out)
        losses[label] = curve(out)
    first, last = losses["one"][0]["loss"], losses["one"][-1]["loss"]
    far = apart(losses["one"], losses["two"])
    yield "adapters begin at log 2 and learn, on two ranks, too", "" if abs(first - 0.693147) < 1e-5 and last < first and far < 1e-5 else f"{first} {last} {far}"


def refused_by(*args, words):
    done = subprocess.run([GTRAIN, *map(str, args)], capture_output=True, text=True, timeout=120)
    return "" if done.returncode in (1, 2) and words in done.stderr and done.stderr.count("\n") <= 3 else f"{done.returncode}: {done.stderr}"


def resuming(folder):
    """A resumed run has the references of its first weights, or is refused."""
    spec, val = make_pairs(folder, numbers(12)), make_pairs(folder, numbers(5, 3), "val")
    start, model = begin(folder)
    args = ["train", *COMMON[2:], "--init-from", start, "--model", model, "--data", spec, "--val", val, "--batch", 4, "--lr", 0.01]
    gtrain(*args, "--steps", 8, "--out", f"{folder}/whole")
    gtrain(*args, "--steps", 4, "--save-every", 4, "--out", f"{folder}/half")
    shutil.copytree(f"{folder}/half", f"{folder}/lost")
    again = ["train", "--resume", f"{folder}/half", "--steps", 8, "-q"]
    shutil.copy(f"{folder}/pairs.jsonl", f"{folder}/kept.jsonl")
    make_pairs(folder, numbers(12, 1))
    yield "other pairs are refused", refused_by(*again, words="it is of other pairs than those of --data")
    shutil.move(f"{folder}/kept.jsonl", f"{folder}/pairs.jsonl")
    os.remove(f"{folder}/lost/reference.safetensors")
    yield "a missing reference is refused", refused_by("train", "--resume", f"{folder}/lost", "--steps", 8, "-q", words="there is no reference.safetensors")
    with open(f"{folder}/half/reference.safetensors", "rb") as f:
        data = f.read()
    with open(f"{folder}/half/reference.safetensors", "wb") as f:
        f.write(data[:-1] + bytes([data[-1] ^ 1]))
    yield "a damaged reference is refused", refused_by(*again, words="reference.safetensors")
    with open(f"{folder}/half/reference.safetensors", "wb") as f:
        f.write(data)
    gtrain(*again)
    found = [[r["loss"] for r in curve(f"{folder}/{name}")] for name in ("whole", "half")]
    yield "the curve is that of one run", "" if len(found[0]) == 8 and found[0] == found[1] else f"{found}"
    with open(f"{folder}/half/reference.safetensors", "rb") as f:
        yield "the reference stays", "" if f.read() == data else "the file changed"


def refused(folder):
    spec, row = make_pairs(folder, numbers(4)), numbers(1)[0]
    start, model = begin(folder)
    train = ["train", "--model", model, "--steps", 1, "--batch", 2]
    for loss, data, words in (("cross-entropy", spec, "cross-entropy is for classes, but the targets are pairs of texts"),
                              ("dpo", f"text:{folder}/t.txt", "dpo is for pairs of texts, but the targets are tokens"),
                              ("dpo:beta=0", spec, "'0' is not a value for 'beta'"), ("dpo:gamma=1", spec, "has no setting 'gamma'")):
        yield f"{loss}", refused_by(*train, "--loss", loss, "--data", data, words=words)
    yield "other data for --val", refused_by(*train, "--data", spec, "--val", f"text:{folder}/t.txt,tokenizer={folder}/tok", words="--val: --loss dpo")
    yield "evaluating pairs", refused_by("eval", "--ckpt", start, "--data", spec, words="pairs are measured against the weights that a run begins with")
    for i, (name, changed, words) in enumerate((
            ("no worse answer", {"rejected": None}, 'the row has no "chosen" and "rejected"'), ("equal answers", {"rejected": row["chosen"]}, '"chosen" and "rejected" are the same'), ("an empty list", {"chosen": []}, '"chosen" has no message behind'),
            ("no common prompt", {"prompt": None, "chosen": messages([("assistant", "x")]), "rejected": messages([("user", "x")])}, "have no prompt in common"),
            ("no prompt", {"prompt": None}, 'is a text, and there is no "prompt"'), ("a number", {"chosen": 1}, '"chosen" is not a list of messages'),
            ("no answer", {"prompt": messages([("user", "1")]), "chosen": messages([("user", "x")])}, '"chosen" has no answer of the role assistant'))):
        wrong = {k: v for k, v in {**row, **changed}.items() if v is not None}
        yield name, refused_by(*train, "--data", make_pairs(folder, [row, wrong], f"wrong{i}"), words=words)


if __name__ == "__main__":
    sys.exit(tap.run([*tap.parts, training, resuming, refused], DUMP, sys.argv[1:]))
