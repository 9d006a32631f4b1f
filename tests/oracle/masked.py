#!/usr/bin/env python3
"""
masked.py - encoders that find hidden tokens: which tokens are hidden, PyTorch's curve in every mode, and folders (TAP).

The tokens are hidden here again, as lib/data/text/masked.c does, from random numbers counted by seed, epoch and place. HF_PYTHON names a
python that has transformers, whose classes have the same loss.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import GTRAIN, TESTS, apart, curve, gtrain, np, torch  # noqa: E402
from philox import philox  # noqa: E402

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import encoders  # noqa: E402
import labelled  # noqa: E402
import mixup  # noqa: E402

F, BOUND, STREAM, RATE, BLOCK, IGNORE = torch.nn.functional, 1e-5, 0x40000009, 0.3, 16, -100
HIDDEN = "ba"  # the token that stands for hidden ones
STILL = ["--steps", 1, "--optimizer", "sgd", "--lr", 1e-30, "--weight-decay", 0]


# ---- samples ----

def stream(name, lines, member="text"):
    """The tokens of all rows between special tokens, whole samples of them, and which ones are special."""
    words, (begin, end) = encoders.FAMILIES[name]["words"], (0, 2) if name == "roberta" else (2, 3)
    ids, special = [], []
    for line in lines:
        text = [words.index(word) for word in line[member].split()]
        ids += [begin, *text, end]
        special += [True, *[False] * len(text), True]
    whole = len(ids) // BLOCK * BLOCK
    return np.array(ids[:whole]), np.array(special[:whole])


def hide(name, ids, special, seed, epoch, rate=RATE):
    """Inputs and targets of all samples in an epoch."""
    words = encoders.FAMILIES[name]["words"]
    places = np.arange(len(ids), dtype=np.uint64)
    counter = np.stack([places, places * 0, places * 0 + STREAM, places * 0 + epoch], 1).astype(np.uint64)
    chosen, way, other = (philox(seed, counter)[:, k].astype(np.uint64) for k in range(3))
    hidden, tenth = ~special & (chosen < rate * 2.0 ** 32), (2 ** 32 - 1) // 10
    stands = np.where(way < 8 * tenth, words.index(HIDDEN), np.where(way < 9 * tenth, other * len(words) >> 32, ids))
    return [torch.tensor(x.astype(np.int64)).view(-1, BLOCK) for x in (np.where(hidden, stands, ids), np.where(hidden, ids, IGNORE))]


def loss_of(name, w, x, y):
    scores = encoders.network(name, w, x, torch.ones_like(x), torch.zeros_like(x))
    return F.cross_entropy(scores.flatten(0, 1), y.flatten(), ignore_index=IGNORE)


def write(folder, name, **more):
    w, lines = encoders.weights(name, masked=True), encoders.rows(name)
    encoders.write_folder(f"{folder}/hf", name, w, architectures=[encoders.FAMILIES[name]["class"].replace("SequenceClassification", "MaskedLM")], **more)
    return w, lines, f"masked:{labelled.write(f'{folder}/rows.jsonl', lines)},block={BLOCK},rate={RATE},mask={HIDDEN}"


def order(samples, ranks, rank, batch, epoch):
    line = f"{samples} {ranks} {rank} {batch} 0 1 1 {mixup.SEED} {epoch}\n"
    text = subprocess.run([os.path.join(TESTS, "sampler_dump")], input=line, check=True, capture_output=True, text=True).stdout
    return [[int(i) for i in row.split()] for row in text.splitlines()[1:-1]]


MODES = [(1, 6, []), (2, 3, []), (2, 3, ["--parallel", "zero3"]), (2, 6, ["--tensor-parallel", "2"]), (2, 6, ["--pipeline-parallel", "2"])]


def training(folder):
    """The curve of two epochs, in which other tokens are hidden, is PyTorch's, and so are the weights."""
    for name in encoders.FAMILIES:
        _, lines, data = write(f"{folder}/{name}", name) if os.makedirs(f"{folder}/{name}") is None else None
        ids, special = stream(name, lines)
        for i, (ranks, batch, more) in enumerate(MODES if name == "bert" else MODES[:1] + MODES[3:4]):
            w, want, readers = encoders.weights(name, masked=True), [], ranks if batch == 3 else 1
            opt = torch.optim.SGD(w.values(), lr=0.05, momentum=0.9)
            for epoch in range(2):
                x, y = hide(name, ids, special, mixup.SEED, epoch)
                for each in zip(*(order(len(x), readers, rank, batch, epoch) for rank in range(readers))):
                    chosen = [k for part in each for k in part]
                    loss = loss_of(name, w, x[chosen], y[chosen])
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
                    want.append({"loss": float(loss)})
            out = f"{folder}/{name}/{i}"
            gtrain("train", "--model", f"{folder}/{name}/hf", "--data", data, "--epochs", 2, "--out", out, "--nproc", ranks, "--batch", batch, *labelled.COMMON, *more)
            got, saved = curve(out), torch.load(f"{out}/model.pth")
            far = apart(got, want) if len(got) == len(want) else 1
            off = max(float((saved[key] - w[key]).abs().max()) for key in w)
            yield f"{name}, {ranks} ranks {more}", "" if far <= BOUND and off <= 1e-5 else f"losses {far:.1e}, weights {off:.1e}, {len(got)} steps"


@tap.cases(encoders.FAMILIES)
def folders(folder, name):
    """Evaluations hide the same tokens each time; a run has the file's names and the second ones of tied weights, and so does its folder."""
    w, lines, data = write(folder, name)
    x, y = hide(name, *stream(name, lines), 0, 0)
    with torch.no_grad():
        want = float(loss_of(name, w, x, y))
    got = encoders.evaluated("--ckpt", f"{folder}/hf", "--data", data)
    assert abs(got - want) < BOUND * want, (got, want)
    said = gtrain("train", "--model", f"{folder}/hf", "--data", data, "--val", data, "--out", f"{folder}/run", *STILL)
    assert "30 % of which are hidden" in said, said
    saved = torch.load(f"{folder}/run/model.pth")
    assert [key for key in saved if key in w] == list(w) and all(torch.equal(saved[key], w[key]) for key in w), list(saved)
    tied = {"bert": ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"], "roberta": ["lm_head.decoder.weight", "lm_head.decoder.bias"],
            "distilbert": ["vocab_projector.weight"], "modernbert": ["decoder.weight"]}[name]
    assert sorted(key for key in saved if key not in w) == sorted(tied), list(saved)
    assert encoders.evaluated("--ckpt", f"{folder}/run", "--data", data) == got
    gtrain("ckpt", "convert", f"{folder}/run", "--to", "hf", "-o", f"{folder}/back", "-q")
    with open(f"{folder}/back/config.json") as f:
        assert json.load(f)["architectures"][0].endswith("ForMaskedLM")
    assert encoders.evaluated("--ckpt", f"{folder}/back", "--data", data) == got
    labels = labelled.write(f"{folder}/labels.jsonl", encoders.rows(name, labels=("a", "b")))
    said = gtrain("train", "--model", f"{folder}/back", "--data", f"labelled:{labels}", "--out", f"{folder}/classes", *STILL)
    assert ("'classifier.weight' starts with random weights, because --model lacks it" if name == "modernbert"
            else "3 more start with random weights, because --model lacks them") in said, said


HF = """
import json, sys
import torch
import transformers
folder, back = sys.argv[1:]
x, y = (torch.tensor(v) for v in json.load(open(folder + "/samples.json")))
net, info = transformers.AutoModelForMaskedLM.from_pretrained(back, output_loading_info=True, local_files_only=True)
with torch.no_grad():
    print(json.dumps([{k: list(v) for k, v in info.items() if v}, float(net.eval()(input_ids=x, labels=y).loss)]))
print(net.load_state_dict(torch.load(folder + "/run/model.pth"), strict=True))
"""


def transformers(folder):
    """The classes of transformers open what was trained, to the same loss."""
    python = os.environ.get("HF_PYTHON")
    for name in encoders.FAMILIES:
        if not python:
            yield f"{name} of transformers", tap.Skip("transformers: HF_PYTHON names a python that has it")
            continue
        at = f"{folder}/{name}"
        os.makedirs(at)
        _, lines, data = write(at, name)
        gtrain("train", "--model", f"{at}/hf", "--data", data, "--steps", 5, "--batch", 6, "--out", f"{at}/run", *labelled.COMMON)
        gtrain("ckpt", "convert", f"{at}/run", "--to", "hf", "-o", f"{at}/back", "-q")
        with open(f"{at}/samples.json", "w") as f:
            json.dump([v.tolist() for v in hide(name, *stream(name, lines), 0, 0)], f)
        done = subprocess.run([python, "-c", HF, at, f"{at}/back"], capture_output=True, text=True)
        wrong, loss = json.loads(done.stdout.splitlines()[0]) if not done.returncode else (done.stderr, 0)
        own = encoders.evaluated("--ckpt", f"{at}/run", "--data", data)
        yield f"{name} of transformers", "" if not wrong and abs(loss - own) < BOUND * own else f"{wrong} {loss} {own}"


# ---- what cannot be read ----

REFUSED = {  # data, status, what the message says
    "no such token": ("masked:{0},mask=[MASK]", 2, ["mask=[MASK] is not a token"]),
    "no usual token": ("masked:{0}", 2, ["neither [MASK] nor <mask>", "mask=TOKEN"]),
    "rate": ("masked:{0},mask=ba,rate=1", 2, ["rate=1", "below 1"]),
    "few tokens": ("masked:{0},mask=ba,block=9999", 1, ["352 tokens", "a sample has 9999", "block=N"]),
    "long samples": ("masked:{0},mask=ba,block=40", 2, ["texts of 40 tokens", "32 positions"]),
    "no text": ("masked:{0},mask=ba,text=words", 1, ["line 1", "no text 'words'", "text=NAME"]),
    "text without hidden tokens": ("text:{0}", 2, ["trained on texts with a class each"]),
}


@tap.cases(REFUSED)
def refused(folder, name):
    spec, status, words = REFUSED[name]
    write(folder, "bert")
    labelled.refuse(folder, f"{folder}/hf", spec.format(f"{folder}/rows.jsonl"), status, words)


@tap.cases(["gpt", "lenet"])
def models(folder, name):
    write(folder, "bert")
    said = gtrain("train", "--model", name, "--data", f"masked:{folder}/rows.jsonl,mask=ba,block=16,tokenizer={folder}/hf", "--steps", 1, "--out", f"{folder}/run", status=2)
    assert f"model '{name}' does not find hidden tokens" in said and "bert, roberta" in said, said


if __name__ == "__main__":
    sys.exit(tap.run([training, transformers, *tap.parts], GTRAIN, sys.argv[1:]))
