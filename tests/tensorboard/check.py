"""check.py - TensorBoard itself reads runs of train --tensorboard: its accumulator of events, and its server with all plugins."""
import argparse
import glob
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import numpy as np
from tensorboard import program, version
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

TEXT = "the quick brown fox jumps over the lazy dog, and goes on. " * 30
MODEL = ["--model", "gpt:layers=2,heads=2,width=32,block=16", "--batch", "4", "--val-split", "0.2", "--eval-every", "10", "--log-every", "2",
         "--save-every", "10", "--tensorboard", "--histogram-every", "5", "-q"]
STEPS, KILLED_AFTER = 40, 20
# counts and times have no curve
WITHOUT = {"split", "step", "epoch", "n", "time_s", "wall_time", "late_rank"}
DIGITS = {"data_wait": 6e-3, "late": 6e-3, "samples_per_s": 1e-5, "tokens_per_s": 1e-5}  # that metrics.jsonl has, where there are fewer than float32 has


def gtrain(args, *words):
    subprocess.run([os.path.abspath(args.gtrain), "train", *words], check=True)


def train(args, folder):
    """Two runs with other learning rates. The second one lost its last checkpoints, and was resumed."""
    with open(f"{folder}/text.txt", "w") as f:
        f.write(TEXT)
    for name, lr in (("whole", "1e-3"), ("resumed", "3e-3")):
        gtrain(args, *MODEL, "--data", f"text:{folder}/text.txt", "--lr", lr, "--steps", str(STEPS), "--out", f"{folder}/runs/{name}")
    gtrain(args, "--model", "lenet", "--data", "random,samples=60", "--val", "random,samples=40", "--batch", "10", "--steps", "8", "--eval-every", "4",
           "--tensorboard", "-q", "--out", f"{folder}/runs/images")
    out = f"{folder}/runs/resumed"
    for path in glob.glob(f"{out}/checkpoints/*"):
        if int(path[-12:-4]) > KILLED_AFTER:
            os.remove(path)
    gtrain(args, "--resume", "auto", "--out", out, "-q")
    assert len(glob.glob(f"{out}/events.out.tfevents.*")) == 2


def metrics(out):
    """{tag: {step: value}} of metrics.jsonl."""
    wanted = {}
    with open(f"{out}/metrics.jsonl") as f:
        for row in map(json.loads, f):
            for key in row.keys() - WITHOUT:
                wanted.setdefault(f"{row['split']}/{key}", {})[row["step"]] = row[key]
    return wanted


def expect_curves(found, wanted, reader):
    assert found.keys() == wanted.keys(), f"{reader}: {sorted(found)}, not {sorted(wanted)}"
    for tag, steps in wanted.items():
        assert list(found[tag]) == list(steps), f"{reader}: {tag} has steps {list(found[tag])}, not {list(steps)}"
        for step, value in steps.items():
            close = DIGITS.get(tag.split("/")[1], 2e-7)
            assert math.isclose(found[tag][step], value, rel_tol=close, abs_tol=1e-9), f"{reader}: {tag} at {step}: {found[tag][step]}, not {value}"


def check_accumulator(out):
    """The reader in Python, which PyTorch's users have, too."""
    events = EventAccumulator(out, size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    expect_curves({tag: {e.step: e.value for e in events.Scalars(tag)} for tag in tags["scalars"]}, metrics(out), "EventAccumulator")
    kinds = {}
    for tag in tags["tensors"]:
        kinds.setdefault(events.SummaryMetadata(tag).plugin_data.plugin_name, []).append(tag)
    assert sorted(kinds["text"]) == ["config", "text"], kinds["text"]
    text = tensor_util.make_ndarray(events.Tensors("config")[0].tensor_proto).item().decode()
    assert "| batch | 4 |" in text, text
    for tag in kinds["histograms"]:
        for e in events.Tensors(tag):
            rows = tensor_util.make_ndarray(e.tensor_proto)
            assert rows.shape == (30, 3) and np.all(rows[:, 0] <= rows[:, 1]) and rows[:, 2].sum() > 0, f"{tag}: {rows}"
    assert {tag.split("/")[0] for tag in kinds["histograms"]} == {"parameters", "gradients"}
    start = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    options = plugin_data_pb2.HParamsPluginData.FromString(start).session_start_info.hparams
    assert options["batch"].number_value == 4 and options["model"].string_value.startswith("gpt:"), options
    end = plugin_data_pb2.HParamsPluginData.FromString(events.SummaryMetadata("_hparams_/session_end_info").plugin_data.content)
    assert end.session_end_info.status == 1, end
    return len(tags["scalars"]), len(kinds["histograms"])


class Server:
    """A TensorBoard that serves a folder of runs. `fast`: with its data server, which is written in Rust."""

    def __init__(self, logdir, fast):
        board = program.TensorBoard()
        board.configure(argv=["tensorboard", "--logdir", logdir, "--port", "0", "--load_fast", "true" if fast else "false",
                              "--samples_per_plugin", "scalars=1000,histograms=1000,text=100"])
        self.url = board.launch()

    def read(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}data/{path}", data, {"Content-Type": "application/json"} if data else {})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def get(self, path, body=None, **query):
        return json.loads(self.read(f"{path}?{urllib.parse.urlencode(query)}", body))

    def wait(self, runs):
        """Until the server has read the ends of all runs."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            tags = self.get("plugin/scalars/tags")
            if len(tags) == runs and all("val/loss" in run for run in tags.values()):
                return tags
            time.sleep(0.5)
        raise AssertionError(f"the server has read {tags}")


def check_server(folder, fast):
    """Curves, texts, histograms, images, and the table of runs with their options and metrics."""
    server = Server(f"{folder}/runs", fast)
    name = "the server, with its data server" if fast else "the server"
    tags = server.wait(3)
    for run in ("whole", "resumed"):
        found = {tag: {step: value for _, step, value in server.get("plugin/scalars/scalars", run=run, tag=tag)} for tag in tags[run]}
        expect_curves(found, metrics(f"{folder}/runs/{run}"), name)
        texts = server.get("plugin/text/text", run=run, tag="config")
        assert "<td>batch</td>" in texts[0]["text"] and "<td>4</td>" in texts[0]["text"], texts[0]["text"]
        texts = server.get("plugin/text/text", run=run, tag="text")
        assert [t["step"] for t in texts] == [10, 20, 30, 40] and "<pre><code>" in texts[-1]["text"], texts
        rows = server.get("plugin/histograms/histograms", run=run, tag="gradients/transformer.wte.weight")
        assert [row[1] for row in rows] == list(range(5, STEPS + 1, 5)), rows
    images = server.get("plugin/images/images", run="images", tag="misclassified/images", sample=0)
    assert [i["step"] for i in images] == [4, 8], images
    png = server.read("plugin/images/individualImage?" + images[-1]["query"])
    assert png.startswith(b"\x89PNG") and struct.unpack(">II", png[16:24]) == (28, 28), png
    table = server.get("plugin/text/text", run="images", tag="misclassified/table")[-1]["text"]
    assert table.count("<tr>") == 1 + server.get("plugin/images/tags")["images"]["misclassified/images"]["samples"], table
    groups = server.get("plugin/hparams/session_groups", {"experimentName": "", "allowedStatuses": ["STATUS_SUCCESS"], "colParams": [], "startIndex": 0,
                                                          "sliceSize": 10})["sessionGroups"]
    assert sorted(g["hparams"]["lr"] for g in groups if g["hparams"]["model"].startswith("gpt")) == [1e-3, 3e-3], groups
    assert sorted(g["name"] for g in groups) == ["images", "resumed", "whole"], groups
    for group in groups:
        values = {m["name"]["tag"]: m["value"] for m in group["metricValues"]}
        assert "val/loss" in values and "train/loss" in values, values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gtrain", default="build/gtrain")
    parser.add_argument("--keep", metavar="DIR", help="leave the runs in this new folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.abspath(args.keep or scratch)
        os.makedirs(folder, exist_ok=True)
        train(args, folder)
        for run in ("whole", "resumed"):
            curves, histograms = check_accumulator(f"{folder}/runs/{run}")
            print(f"{run}: EventAccumulator has the {curves} curves of metrics.jsonl, the options, and {histograms} histograms")
        for fast in (False, True):
            check_server(folder, fast)
            print(f"TensorBoard {version.VERSION} with{'' if fast else 'out'} its data server has them, too, and the table of options and metrics")


if __name__ == "__main__":
    sys.exit(main())
