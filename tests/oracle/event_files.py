#!/usr/bin/env python3
"""event_files.py - the files of train --tensorboard, read by a decoder of our own, beside metrics.jsonl and checkpoints (TAP)."""
import glob
import json
import os
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402
from training import GTRAIN, curve, gtrain, make_data, np, torch, use_avx2  # noqa: E402

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
        assert shape == [1]
        return tensor[8][0].decode()
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
    tags = {}
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
            assert metadata[4] == [1 if name == "scalars" else 2]
            if name == "scalars":
                number = struct.unpack("<f", value[2][0])[0]
            else:
                number = hparams_of(plugin[2][0]) if name == "hparams" else tensor_of(value)
            tags.setdefault(tag, {})[step] = number
    return tags


# ---- what the files must have

def expect_metrics(tags, out):
    """Every number in metrics.jsonl that is no count or time is there, and no other."""
    wanted = {}
    for split in ("train", "val"):
        for row in curve(out, split):
            for key, value in row.items():
                if key not in ("split", "step", "epoch", "n", "time_s", "ema"):
                    wanted.setdefault(f"{split}/{key}", {})[row["step"]] = value
    found = {tag: steps for tag, steps in tags.items() if tag.split("/")[0] in ("train", "val")}
    assert wanted and {t: list(s) for t, s in found.items()} == {t: list(s) for t, s in wanted.items()}, f"{list(found)} {list(wanted)}"
    for tag, steps in wanted.items():
        for step, value in steps.items():
            number = found[tag][step]
            # rates and fractions have 6 and 3 digits in metrics.jsonl
            close = 6e-3 if tag == "train/data_wait" else 1e-5 if tag.endswith("_per_s") else 2e-7
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
    use_avx2()
    sys.exit(tap.run(tap.parts, GTRAIN, sys.argv[1:]))
