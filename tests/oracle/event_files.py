#!/usr/bin/env python3
"""event_files.py - the files of train --tensorboard, read by a decoder of our own, beside metrics.jsonl and checkpoints (TAP)."""
import csv
import glob
import html
import io
import json
import os
import random
import re
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import small_files  # noqa: E402
import tap  # noqa: E402
from training import GTRAIN, curve, gtrain, make_data, np, torch, use_isa  # noqa: E402

try:
    from PIL import Image
except ImportError:
    print("1..0 # SKIP python has no Pillow")
    sys.exit(0)

GPT = ["--model", "gpt:layers=2,heads=2,width=32,block=16", "--data", "text:{}/text.txt", "--batch", 4]
MLP = ["--model", "mlp", "--data", "csv:{}/table.csv", "--batch", 4]
BUCKETS = 30


# ---- the decoder: records, and fields of protocol buffers

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return ~crc & 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(path):
    with open(path, "rb") as f:
        data = f.read()
    while data:
        size, head = struct.unpack("<QI", data[:12])
        body, (tail,) = data[12:12 + size], struct.unpack("<I", data[12 + size:16 + size])
        assert head == masked(data[:8]) and tail == masked(body), f"{path}: a record has a wrong CRC"
        yield body
        data = data[16 + size:]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{number: [values]}: integers, 4 or 8 bytes, or bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            size, at = {1: (8, at), 5: (4, at)}.get(key & 7) or varint(data, at)
            value, at = data[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def tensor_of(value):
    tensor = fields(value[8][0])
    shape = [fields(dim)[1][0] for dim in fields(tensor[2][0]).get(2, [])]
    if tensor[1] == [7]:
        assert shape in ([], [len(tensor[8])])
        return tensor[8] if shape else tensor[8][0].decode()
    return np.frombuffer(tensor[4][0], "<f8").reshape(shape) if 4 in tensor else None


def hparams_of(content):
    """The start of a session, as a dict of its options, or the status at the end."""
    plugin = fields(content)
    if 4 in plugin:
        return fields(plugin[4][0])[1][0]
    options = {}
    for entry in map(fields, fields(plugin[3][0])[1]):
        (kind, (value,)), = fields(entry[2][0]).items()
        options[entry[1][0].decode()] = {2: lambda v: struct.unpack("<d", v)[0], 3: bytes.decode, 4: bool}[kind](value)
    return options


def read(out):
    """{tag: {step: value}} of the files in a folder, as TensorBoard reads them: a session drops later steps of the files before."""
    tags, plugins = {}, {}
    for path in sorted(glob.glob(f"{out}/events.out.tfevents.*")):
        events = [fields(body) for body in records(path)]
        assert events[0][3] == [b"brain.Event:2"], f"{path}: no version"
        for event in events[1:]:
            step, now = event[2][0], struct.unpack("<d", event[1][0])[0]
            assert abs(now - time.time()) < 600, f"{path}: the time is {now}"
            if 7 in event:
                assert fields(event[7][0]) == {1: [1]}
                tags = {tag: {s: v for s, v in steps.items() if s < step} for tag, steps in tags.items()}
                continue
            value, = map(fields, fields(event[5][0])[1])
            metadata = fields(value[9][0])
            plugin, tag = fields(metadata[1][0]), value[1][0].decode()
            name = plugin[1][0].decode()
            assert metadata[4] == [{"scalars": 1, "images": 3}.get(name, 2)]
            assert plugins.setdefault(tag, name) == name, f"{tag} is of {name} and of {plugins[tag]}"
            if name == "scalars":
                number = struct.unpack("<f", value[2][0])[0]
            else:
                number = hparams_of(plugin[2][0]) if name == "hparams" else tensor_of(value)
            assert name == "hparams" or step not in tags.get(tag, {}), f"{tag} has step {step} twice"
            tags.setdefault(tag, {})[step] = number
    return tags


# ---- what the files must have

def expect_metrics(tags, out):
    """Every number in metrics.jsonl that is no count or time is there, and no other."""
    wanted = {}
    for split in ("train", "val"):
        for row in curve(out, split):
            for key, value in row.items():
                if key not in ("split", "step", "epoch", "n", "time_s", "wall_time", "late_rank", "ema"):
                    wanted.setdefault(f"{split}/{key}", {})[row["step"]] = value
    found = {tag: steps for tag, steps in tags.items() if tag.split("/")[0] in ("train", "val")}
    assert wanted and {t: list(s) for t, s in found.items()} == {t: list(s) for t, s in wanted.items()}, f"{list(found)} {list(wanted)}"
    for tag, steps in wanted.items():
        for step, value in steps.items():
            number = found[tag][step]
            # rates and fractions have 6 and 3 digits in metrics.jsonl
            close = 6e-3 if tag in ("train/data_wait", "train/late") else 1e-5 if tag.endswith("_per_s") else 2e-7
            good = np.isnan(number) if value is None else abs(number - value) <= close * abs(value)
            assert good, f"{tag} at step {step}: {number} and {value}"


@tap.cases(["a language model", "a table", "evaluations of numbers"])
def numbers(folder, name):
    make_data(folder)
    words = {"a language model": [*GPT, "--val-split", 0.2, "--ema", 0.9],
             "a table": [*MLP, "--val-split", 0.2],
             "evaluations of numbers": ["--model", "mlp", "--data", "csv:{}/table.csv,target=1", "--batch", 4, "--val-split", 0.2]}[name]
    words = [str(w).format(folder) for w in words]
    gtrain("train", *words, "--steps", 23, "--log-every", 5, "--eval-every", 10, "--tensorboard", "-q", "--out", f"{folder}/run")
    tags = read(f"{folder}/run")
    expect_metrics(tags, f"{folder}/run")
    assert list(tags["train/loss"]) == [5, 10, 15, 20, 23] and list(tags["val/loss"]) == [10, 20, 23]
    with open(f"{folder}/run/config.json") as f:
        options = {k: json.dumps(v, separators=(",", ":")) if isinstance(v, list) else v for k, v in json.load(f).items()
                   if v not in (None, []) and k != "about"}
    assert tags["_hparams_/session_start_info"] == {0: options}, tags["_hparams_/session_start_info"]
    assert tags["_hparams_/session_end_info"] == {0: 1}
    text = tags["config"][0]
    assert "| option | value |\n| --- | --- |\n" in text and "| steps | 23 |\n" in text and "| lr\\-schedule | cosine |\n" in text, text


@tap.cases([""])
def off(folder, _):
    """Without the option there is no file."""
    make_data(folder)
    gtrain("train", *[str(w).format(folder) for w in MLP], "--steps", 3, "-q", "--out", f"{folder}/run")
    assert not glob.glob(f"{folder}/run/events*")


MODES = {"one rank": [], "ddp": ["--nproc", 2], "zero1": ["--nproc", 2, "--parallel", "zero1"], "zero3": ["--nproc", 2, "--parallel", "zero3"],
         "tensor parallel": ["--nproc", 2, "--tensor-parallel", 2], "pipeline": ["--nproc", 2, "--pipeline-parallel", 2],
         "threads": ["--nproc", 2, "--parallel", "dp"], "float16": ["--amp", "fp16"]}


def expect_histogram(rows, tensor, tag, close):
    """All elements are counted between the smallest and the largest, in buckets that adjoin."""
    assert rows.shape == (BUCKETS, 3) and rows[:, 2].sum() == tensor.numel(), f"{tag}: {rows[:, 2].sum()} of {tensor.numel()}"
    assert np.array_equal(rows[1:, 0], rows[:-1, 1]), f"{tag}: gaps"
    low, high = float(tensor.min()), float(tensor.max())
    scale = close * max(abs(low), abs(high)) + 1e-12
    assert abs(rows[0, 0] - low) <= scale and abs(rows[-1, 1] - high) <= scale, f"{tag}: {rows[0, 0]} to {rows[-1, 1]}, not {low} to {high}"
    if close == 0:
        counts, _ = np.histogram(tensor.double().numpy(), BUCKETS)
        assert np.abs(counts - rows[:, 2]).sum() <= 2, f"{tag}: {rows[:, 2]}, not {counts}"  # a rounding error moves an element


@tap.cases(list(MODES))
def histograms(folder, name):
    """Weights are those of the checkpoint of the same step. Gradients follow from two checkpoints of SGD."""
    make_data(folder)
    lr = 0.5
    gtrain("train", *[str(w).format(folder) for w in GPT], *MODES[name], "--steps", 7, "--tensorboard", "--histogram-every", 3, "--save-every", 1,
           "--keep", 0, "--optimizer", "sgd", "--momentum", 0, "--weight-decay", 0, "--lr", lr, "--lr-schedule", "constant", "--warmup", 0,
           "-q", "--out", f"{folder}/run")
    tags = read(f"{folder}/run")
    weights = {s: torch.load(f"{folder}/run/checkpoints/step-{s:08}.pth")["model"] for s in (2, 3, 5, 6)}
    names = {tag.split("/", 1)[1] for tag in tags if tag.startswith("parameters/")}
    assert names and names <= set(weights[3]) and names == {tag.split("/", 1)[1] for tag in tags if tag.startswith("gradients/")}
    for step in (3, 6):
        for key in names:
            steps = tags[f"parameters/{key}"]
            assert list(steps) == [3, 6] and list(tags[f"gradients/{key}"]) == [3, 6], f"{key}: {list(steps)}"
            expect_histogram(steps[step], weights[step][key], f"{key} at step {step}", 0)
            gradient = (weights[step - 1][key] - weights[step][key]) / lr
            # weights are rounded when they are updated
            rounding = float(weights[step][key].abs().max()) * 2e-7 / (lr * float(gradient.abs().max()) + 1e-12)
            expect_histogram(tags[f"gradients/{key}"][step], gradient, f"gradient of {key} at step {step}", rounding + 1e-6)


SIDE = 12


def make_images(folder):
    """Two classes of random images, which a small model learns badly. The name of one would change a table in Markdown."""
    rng = random.Random(1)
    for name in ("a", "b|<i>_c_"):
        os.makedirs(f"{folder}/images/{name}")
        for i in range(15):
            with open(f"{folder}/images/{name}/{i:02}.png", "wb") as f:
                f.write(small_files.png(rng, SIDE))


def misses(table):
    """The cells of the table of misclassified images."""
    head, _, *rows = table.splitlines()
    assert head == "| sample | class | predicted | probability |", table
    return [[html.unescape(re.sub(r"\\(.)", r"\1", cell)) for cell in row[2:-2].split(" | ")] for row in rows]


@tap.cases(["one rank", "zero3", "pipeline"])
def images(folder, name):
    """The misclassified images with the highest probability are those that eval finds, pixel by pixel. In a pipeline there are none."""
    make_images(folder)
    out, data = f"{folder}/run", f"images:{folder}/images,size={SIDE}"
    gtrain("train", "--model", f"mlp:{SIDE * SIDE * 3},8,2", "--data", data, "--val", data, "--batch", 4, "--steps", 4, "--eval-every", 2, "--lr", 1e-3,
           "--tensorboard", *MODES[name], "-q", "--out", out)
    tags = read(out)
    expect_metrics(tags, out)
    if name == "pipeline":
        assert not any("misclassified" in tag for tag in tags)
        return
    gtrain("eval", "--ckpt", f"{out}/model.pth", "--data", data, "--predictions", f"{folder}/predictions.csv", "-q")
    with open(f"{folder}/predictions.csv", newline="") as f:
        wrong = sorted((r for r in csv.DictReader(f) if r["class"] != r["predicted"]), key=lambda r: -float(r["probability"]))[:8]
    shown, table = tags["misclassified/images"], tags["misclassified/table"]
    assert list(shown) == list(table) == [2, 4] and wrong
    rows = misses(table[4])
    assert [r[:3] for r in rows] == [[w["sample"], w["class"], w["predicted"]] for w in wrong], f"{rows} {wrong}"
    assert all(abs(float(r[3]) - float(w["probability"])) < 1e-4 for r, w in zip(rows, wrong))
    assert shown[4][:2] == [b"12", b"12"] and len(shown[4]) == 2 + len(rows)
    for image, row in zip(shown[4][2:], rows):
        pixels, wanted = Image.open(io.BytesIO(image)), Image.open(f"{folder}/images/{row[0]}")
        assert pixels.mode == "RGB" and pixels.tobytes() == wanted.tobytes(), row[0]


def verbatim(paragraph):
    assert all(line.startswith("    ") for line in paragraph.split("\n")), paragraph
    return "\n".join(line[4:] for line in paragraph.split("\n"))


TEXTS = {"one rank": [], "ddp": MODES["ddp"], "zero1, bfloat16": [*MODES["zero1"], "--amp", "bf16"], "zero2, bfloat16":
         ["--nproc", 2, "--parallel", "zero2", "--amp", "bf16"], "mean of the weights": ["--ema", 0.5]}


@tap.cases(list(TEXTS))
def texts(folder, name):
    """At each evaluation, the model continues the validation text as generate does with the weights that were evaluated."""
    make_data(folder)
    out = f"{folder}/run"
    gtrain("train", *[str(w).format(folder) for w in GPT], "--val-split", 0.2, "--steps", 12, "--eval-every", 6, "--lr", 1e-2, "--tensorboard",
           *TEXTS[name], "-q", "--out", out)
    text = read(out)["text"]
    assert list(text) == [6, 12]
    before, prompt, between, written = re.fullmatch(r"(After the prompt)\n\n(.*)\n\n(the model writes)\n\n(.*)\n\n", text[12], re.S).groups()
    with open(f"{folder}/text.txt") as f:
        assert verbatim(prompt) in f.read() and len(verbatim(prompt)) == 8 and len(verbatim(written)) == 8, text[12]
    weights = "model_ema.pth" if "--ema" in TEXTS[name] else "model.pth"
    done = subprocess.run([GTRAIN, "generate", "--ckpt", f"{out}/{weights}", "--prompt", verbatim(prompt), "--tokens", "8", "--seed", "0", "-q", "--json"],
                          capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["text"] == verbatim(prompt) + verbatim(written), f"{done.stdout} {text[12]}"
    assert text[6] != text[12]


@tap.cases(["zero3", "a network without a vocabulary"])
def no_texts(folder, name):
    """Where no text can be written, a line says why, and the run goes on."""
    make_data(folder)
    words = [str(w).format(folder) for w in GPT] if name == "zero3" else ["--model", GPT[1] + ",vocab=20", "--data", "random", "--batch", 4]
    said = gtrain("train", *words, "--val-split", 0.2, "--steps", 2, "--tensorboard", *MODES.get(name, []), "--out", f"{folder}/run")
    why = "rank 0 lacks weights of other ranks" if name == "zero3" else "the data have no vocabulary"
    assert f"--tensorboard: no text at evaluations, because {why}\n" in said, said
    assert "text" not in read(f"{folder}/run")


@tap.cases([""])
def resumed(folder, _):
    """A resumed run continues the curves: steps that are done again count once, and the end is a success."""
    make_data(folder)
    words = [*[str(w).format(folder) for w in GPT], "--val-split", 0.2, "--eval-every", 4, "--log-every", 2, "--save-every", 10, "-q"]
    out = f"{folder}/run"
    gtrain("train", *words, "--steps", 24, "--tensorboard", "--out", out)
    os.remove(f"{out}/checkpoints/step-00000024.pth")
    os.remove(f"{out}/checkpoints/step-00000020.pth")
    gtrain("train", "--resume", "auto", "--out", out, "--steps", 30, "-q")  # the run's configuration has --tensorboard
    assert len(glob.glob(f"{out}/events.out.tfevents.*")) == 2
    tags = read(out)
    expect_metrics(tags, out)
    assert list(tags["train/loss"]) == list(range(2, 31, 2)) and list(tags["config"]) == [0, 10]
    gtrain("train", "--resume", "auto", "--out", out, "--steps", 30, "-q")  # nothing is left to do
    expect_metrics(read(out), out)


@tap.cases(["a run that is stopped", "a file that is removed"])
def running(folder, name):
    """Numbers are there a second later. A stopped run has no end; without its file, a run goes on, with one warning."""
    make_data(folder)
    out = f"{folder}/run"
    words = [GTRAIN, "train", *[str(w).format(folder) for w in MLP], "--steps", "100000000", "--tensorboard", "--log-every", "100", "-q", "--out", out]
    run = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not any(os.path.getsize(p) > 4096 for p in glob.glob(f"{out}/events*")):
        time.sleep(0.05)
    path, = glob.glob(f"{out}/events*")
    assert os.path.getsize(path) > 4096, "nothing was written"
    if name == "a file that is removed":
        os.remove(path)
        time.sleep(2.2)
    run.terminate()
    _, said = run.communicate(timeout=60)
    if name == "a file that is removed":
        assert said == f"warning: cannot write '{path}': it was removed; the run continues without it\n", said
        assert glob.glob(f"{out}/checkpoints/step-*.pth")
    else:
        tags = read(out)
        expect_metrics(tags, out)
        assert "_hparams_/session_end_info" not in tags and not said, said


@tap.cases([""])
def failed(folder, _):
    """A run that fails says so."""
    make_data(folder)
    gtrain("train", *[str(w).format(folder) for w in GPT], "--steps", 50, "--lr", 1e30, "--optimizer", "sgd", "--warmup", 0, "--tensorboard", "-q",
           "--out", f"{folder}/run", status=1)
    assert read(f"{folder}/run")["_hparams_/session_end_info"] == {0: 2}


if __name__ == "__main__":
    use_isa()
    sys.exit(tap.run(tap.parts, GTRAIN, sys.argv[1:]))
