#!/usr/bin/python3
# inputs.py - every command with each of its inputs missing, empty, a folder, a FIFO, random bytes, cut in half: status 1 or 2 and one clear line.
"""
The commands and their inputs are those that `gtrain help --json` lists: an operand, an option that takes a file, a checkpoint or
data. A new one fails this test until it has a row. Outputs are in the table too: a folder or a FIFO in their way.
"""
import concurrent.futures
import json
import os
import random
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import outcome
import small_files
import tap

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
SANITIZED = bool(os.environ.get("SANITIZE"))
LIMIT = 60 if SANITIZED else 10  # seconds
SEED = 7
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
GPT = small_files.GPT
ON_GPT = ["--model", GPT, "--data", "text:text.txt", "--threads", "1"]
TRAIN = ["train", "--steps", "1", "--batch", "4", "--threads", "1", "--workers", "1", "-q", "--out", "out"]
EVAL = ["eval", "--threads", "1", "--batch", "4", "-q"]
GENERATE = ["generate", "--tokens", "3", "--threads", "1"]

# Metavars of the options that name a file to read, or something to write; others are values.
READ = {"CKPT", "BASE", "auto|CKPT", "DATA", "MODEL", "FILE", "FILE|RECIPE", "SPEC|FILE", "TOKENIZER", "ADAPTER", "KEY=VALUE,...|ADAPTER"}
WRITTEN = {"DIR", "OUT"}
VALUES = {"KEY=VALUE,...", "LIST", "N|auto", "DEVICE", "TEXT", "PREFIX", "GLOB", "GLOB[|GLOB...]", "GLOB=X", "KEY[.KEY...]", "FROM..TO", "FROM=TO", "REGEX=REPLACEMENT", "MxNxK[,...]", "wait=N,warmup=N,active=N,repeat=N", "URL", "NAME", "NAME[:key=value,...]", "balanced|W,W,...",
          "HOST:N,...", "PROGRAM", "W,W,..."}
OPERANDS = {"PATH", "PATH...", "FILE", "FILE...", "IN", "TUNED", "A", "B", "INPUT...", "RUN..."}


class Row:
    """A command with one input to damage. `{}` in `args` is the damaged file; `good` the file that it was; `whole` where it lies,
    if it is part of a folder that is copied. `fine` are ways that may succeed, `findings` says that results may tell."""

    def __init__(self, command, slot, args, good, whole=None, fine=(), findings=False):
        self.command, self.slot, self.args, self.good = command, slot, args, good
        self.whole, self.fine, self.findings = whole, fine, findings

    def name(self):
        return f"{self.command} {self.slot}" + (f" ({os.path.relpath(self.good, self.whole)})" if self.whole else "")


CKPT = "run/model.pth"
CUT_MAY_DO = ("half",)  # a text or a table that ends early is another one
FOLDER_MAY_DO = ("folder",)
ANYTHING_GOES = ("missing", "empty", "folder", "fifo", "random", "half")


def checkpoint_rows():
    writing = ["-o", "written.pth"]
    edits = {"strip-module": [], "add-module": [], "remap": ["--map", "cpu=cuda:0"], "rename": ["--map", "a=b"]}
    for word, more in edits.items():
        yield Row(f"ckpt {word}", "IN", ["ckpt", word, "{}", *more, *writing], CKPT)
        yield Row(f"ckpt {word}", "IN", ["ckpt", word, "{}", *more, "--in-place"], CKPT)
        yield Row(f"ckpt {word}", "--output", ["ckpt", word, CKPT, *more, "-o", "{}"], CKPT, fine=ANYTHING_GOES)
    for word, more in {"select": ["--keys", "*"], "convert": [], "merge": ["--average"]}.items():
        both = [CKPT] if word == "merge" else []
        slots = ["A", "B"] if both else ["FILE"]
        yield Row(f"ckpt {word}", slots[0], ["ckpt", word, "{}", *both, *more, *writing], CKPT)
        if both:
            yield Row(f"ckpt {word}", slots[1], ["ckpt", word, CKPT, "{}", *more, *writing], CKPT)
            for how in ([CKPT], ["--ties", "0.5"]):
                yield Row("ckpt merge", "--base", ["ckpt", word, CKPT, *how, "--base", "{}", *writing], CKPT)
            yield Row("ckpt merge", slots[1], ["ckpt", word, CKPT, "{}", "--slerp", "0.5", *writing], CKPT)
        yield Row(f"ckpt {word}", "--output", ["ckpt", word, CKPT, *both, *more, "--to", "pth", "-o", "{}"], CKPT, fine=ANYTHING_GOES)
    for word, findings in {"ls": False, "verify": True}.items():
        for how in ([], ["--json"]):
            yield Row(f"ckpt {word}", "FILE", ["ckpt", word, "{}", *how], CKPT, findings=findings)
    checks = ["ckpt", "verify", CKPT, "--signature"]
    yield Row("ckpt verify", "PATH...", ["ckpt", "verify", "{}", "--signature", "model.sig", "--key", "pub.pem"], CKPT, findings=True)
    yield Row("ckpt verify", "--signature", [*checks, "{}", "--key", "pub.pem"], "model.sig")
    yield Row("ckpt verify", "--key", [*checks, "model.sig", "--key", "{}"], "pub.pem")
    yield Row("ckpt sign", "PATH", ["ckpt", "sign", "{}", "--key", "key.pem", "-o", "new.sig"], CKPT, fine=("empty", "random", "half"))
    yield Row("ckpt sign", "--key", ["ckpt", "sign", CKPT, "--key", "{}", "-o", "new.sig"], "key.pem")
    yield Row("ckpt sign", "--output", ["ckpt", "sign", CKPT, "--key", "key.pem", "-o", "{}"], "model.sig", fine=("missing", "empty"))
    yield Row("ckpt diff", "A", ["ckpt", "diff", "{}", CKPT], CKPT)
    yield Row("ckpt diff", "B", ["ckpt", "diff", CKPT, "{}"], CKPT)
    yield Row("bench ckpt", "FILE", ["bench", "ckpt", "{}", "--runs", "1", "--dir", "scratch"], CKPT)
    yield Row("bench ckpt", "--dir", ["bench", "ckpt", CKPT, "--runs", "1", "--dir", "{}"], CKPT, fine=FOLDER_MAY_DO)
    bench = ["bench", "train", "--modes", "single", "--rounds", "1", "--steps", "1", "--discard", "0", "--batch", "4"]
    yield Row("bench train", "--dir", [*bench, "--model", "mlp:4,2", "--data", "random:4/2", "--dir", "{}"], CKPT, fine=FOLDER_MAY_DO)
    yield Row("bench train", "--model", [*bench, "--data", "random", "--model", "{}"], CKPT, findings=True)
    yield Row("bench train", "--data", [*bench, "--model", GPT, "--data", "text:{}"], "text.txt", fine=(*CUT_MAY_DO, "random"), findings=True)


CLUSTER = '{"hosts": 2, "devices_per_host": 8, "device": "H100"}'
CALIBRATION = """{"format": "gtrain calibration 1", "machine": "m", "device": "cpu", "processors": 2, "threads": 2, "link": null,
"products": {"f32": [[1e6, 1e11]]}, "copies": [[1e6, 1e10]], "ops": {}}"""
CALIBRATE = ["bench", "calibrate", "-q", "--nproc", "1", "--rounds", "1", "--steps", "1", "--model", "mlp:4,2", "--data", "random:4/2", "-o"]
LOAD = ["bench", "loader", "-q", "--rounds", "1", "--seconds", "0.001", "--workers", "0"]
SWEEP = ["bench", "sweep", "-q", "--rounds", "1", "--steps", "1", "--discard", "0", "--batch", "1", "--model", "mlp:4,2", "--data", "random:4/2"]


def plan_rows():
    plan = ["plan", "--model", "mlp:4,2", "--data", "random:4/2", "--cluster"]
    yield Row("plan", "--cluster", [*plan, "{}"], "cluster.json")
    yield Row("plan", "--calibration", [*plan, "1x2xcpu", "--calibration", "{}"], "calibration.json")
    yield Row("bench calibrate", "--output", [*CALIBRATE, "{}", "--dir", "absent"], CKPT)
    yield Row("bench calibrate", "--dir", [*CALIBRATE, "new.json", "--dir", "{}"], CKPT, fine=FOLDER_MAY_DO)
    yield Row("bench sweep", "--dir", [*SWEEP, "--dir", "{}"], CKPT, fine=FOLDER_MAY_DO)
    yield Row("bench loader", "--data", [*LOAD, "--data", "csv:{}"], "table.csv", fine=CUT_MAY_DO)


def run_rows():
    """A run directory as --ckpt, --init-from, --resume, with a file of it damaged; and one with the weights alone, without
    the facts about the run."""
    uses = {
        ("eval", "--ckpt"): [*EVAL, "--ckpt", "copy", "--data", "text:text.txt"],
        ("generate", "--ckpt"): [*GENERATE, "--ckpt", "copy"],
        ("train", "--init-from"): [*TRAIN, *ON_GPT, "--init-from", "copy"],
        ("train", "--resume"): [*TRAIN, "--resume", "copy", "--steps", "4"],
        ("train", "--out"): ["train", "--resume", "auto", "--out", "copy", "--steps", "4", "-q"],
    }
    for (command, slot), args in uses.items():
        for file in ("config.json", "vocab.json", "checkpoints/step-00000003.pth", "checkpoints", "metrics.jsonl", "model.pth"):
            fine = ANYTHING_GOES if file in UNUSED[slot] else ("missing",) if file in REPLACED[slot] else ()
            known = IN_CHECKPOINTS.get((slot, file), fine)
            yield Row(command, slot, args, f"run/{file}", whole="run", fine=known)
            if (command, file) == ("eval", "vocab.json"):
                fine = ("missing",)  # with a warning
            if slot in ("--ckpt", "--init-from"):
                yield Row(command, slot, args, f"older/{file}", whole="older", fine=fine)


def shown_run_rows():
    """A run directory that is listed and shown, with a file of it damaged. A page says so; only metrics that are no file are an error."""
    for file in ("config.json", "metrics.jsonl"):
        fine = ANYTHING_GOES if file == "config.json" else ("missing", "empty", "random", "half")
        yield Row("report", "RUN...", ["report", "copy", "-o", "page.html", "-q"], f"run/{file}", whole="run", fine=fine)
        yield Row("report", "RUN...", ["report", "copy", "--text", "-q"], f"run/{file}", whole="run", fine=fine)
        yield Row("runs", "DIR", ["runs", "copy", "-q"], f"run/{file}", whole="run", fine=ANYTHING_GOES)
    yield Row("report", "--output", ["report", "run", "-q", "-o", "{}"], CKPT, fine=("missing", "empty", "random", "half"))


def hugging_face_rows():
    """A folder of Hugging Face's, with a file of it damaged."""
    uses = {
        ("train", "--model"): [*TRAIN, "--model", "./copy", "--data", "text:text.txt"],
        ("train", "--init-from"): [*TRAIN, "--model", GPT, "--data", "text:text.txt", "--init-from", "copy"],
        ("eval", "--ckpt"): [*EVAL, "--ckpt", "copy", "--data", "text:text.txt"],
        ("generate", "--ckpt"): [*GENERATE, "--ckpt", "copy"],
    }
    for (command, slot), args in uses.items():
        for file in ("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json", "model.safetensors"):
            fine = ("missing",) if file not in ("config.json", "model.safetensors") else ()
            fine = ("missing",) if (slot, file) == ("--init-from", "config.json") else fine  # weights are enough
            fine = () if (command, file) == ("generate", "tokenizer.json") else fine
            fine = ANYTHING_GOES if (slot, file) == ("--model", "model.safetensors") else fine
            yield Row(command, slot, args, f"hf/{file}", whole="hf", fine=fine)
    yield Row("generate", "--ckpt", [*GENERATE, "--chat", "--ckpt", "copy"], "hf/chat_template.jinja", whole="hf", fine=("empty",))
    yield Row("ckpt convert", "--output", ["ckpt", "convert", "run", "--to", "hf", "-o", "{}"], CKPT, fine=FOLDER_MAY_DO + ("missing",))
    yield Row("ckpt convert", "FILE", ["ckpt", "convert", "copy", "-o", "out.gguf"], "hf/config.json", whole="hf")
    yield Row("ckpt convert", "FILE", ["ckpt", "convert", "copy", "-o", "out.gguf"], "hf/tokenizer.json", whole="hf", fine=("missing",))


def adapter_rows():
    """A folder with an adapter, with a file of it damaged, or another file in its place."""
    uses = {
        "train": [*TRAIN, "--model", GPT, "--data", "text:text.txt", "--init-from", CKPT],
        "eval": [*EVAL, "--ckpt", CKPT, "--data", "text:text.txt"],
        "generate": [*GENERATE, "--ckpt", CKPT],
        "predict": ["predict", "--ckpt", CKPT, "text.txt", "--threads", "1", "-q"],
        "ckpt merge-lora": ["ckpt", "merge-lora", CKPT, "-o", "written.pth"],
    }
    for command, args in uses.items():
        yield Row(command, "--lora", [*args, "--lora", "{}"], "adapted/adapter/adapter_config.json")
        for file in ("adapter_config.json", "adapter_model.safetensors"):
            yield Row(command, "--lora", [*args, "--lora", "copy"], f"adapted/adapter/{file}", whole="adapted/adapter")
    yield Row("ckpt merge-lora", "IN", ["ckpt", "merge-lora", "{}", "--lora", "adapted/adapter", "-o", "written.pth"], CKPT)
    yield Row("ckpt merge-lora", "--output", ["ckpt", "merge-lora", CKPT, "--lora", "adapted/adapter", "--to", "pth", "-o", "{}"], CKPT,
              fine=ANYTHING_GOES)
    to_gguf = ["--to", "gguf", "-o", "written.gguf"]
    yield Row("ckpt convert", "--base", ["ckpt", "convert", "adapted/adapter", "--base", "{}", *to_gguf], CKPT)
    for file in ("adapter_config.json", "adapter_model.safetensors"):
        yield Row("ckpt convert", "FILE", ["ckpt", "convert", "copy", "--base", "run", *to_gguf], f"adapted/adapter/{file}", whole="adapted/adapter")
    extract = ["ckpt", "extract-lora", "--rank", "2", "-q"]
    yield Row("ckpt extract-lora", "TUNED", [*extract, "{}", "--base", CKPT, "-o", "written"], "tuned.pth")
    yield Row("ckpt extract-lora", "--base", [*extract, "tuned.pth", "--base", "{}", "-o", "written"], CKPT)
    yield Row("ckpt extract-lora", "--output", [*extract, "tuned.pth", "--base", CKPT, "-o", "{}"], CKPT, fine=("missing",))


# Files of a run directory that a command does without, writes anew, or makes up for: the checkpoint before takes the place of the last.
UNUSED = {
    "--ckpt": ("metrics.jsonl", "model.pth", "checkpoints"), "--init-from": ("config.json", "metrics.jsonl", "model.pth", "checkpoints"),
    "--resume": ("metrics.jsonl", "model.pth"), "--out": ("metrics.jsonl", "model.pth", "checkpoints"),
}
# Files whose facts the checkpoints have, too.
IN_CHECKPOINTS = {(slot, "vocab.json"): ANYTHING_GOES for slot in ("--ckpt", "--init-from", "--resume")} | {
    ("--ckpt", "config.json"): ("missing",)}
LAST = "checkpoints/step-00000003.pth"
REPLACED = {"--ckpt": (LAST,), "--init-from": (LAST, "vocab.json"), "--resume": (LAST, "vocab.json"), "--out": (LAST, "vocab.json")}


def option_rows():
    yield Row("train", "--init-from", [*TRAIN, *ON_GPT, "--init-from", "{}"], CKPT)
    yield Row("train", "--resume", [*TRAIN, *ON_GPT, "--resume", "{}"], CKPT)
    yield Row("train", "--config", [*TRAIN, "--config", "{}"], "run/config.json")
    yield Row("train", "--out", ["train", *ON_GPT, "--steps", "1", "-q", "--out", "{}"], CKPT, fine=FOLDER_MAY_DO + ("missing",))
    yield Row("eval", "--ckpt", [*EVAL, *ON_GPT, "--vocab", "run/vocab.json", "--ckpt", "{}"], CKPT)
    yield Row("generate", "--ckpt", [*GENERATE, "--model", GPT, "--vocab", "run/vocab.json", "--ckpt", "{}"], CKPT)
    yield Row("eval", "--vocab", [*EVAL, *ON_GPT, "--ckpt", CKPT, "--vocab", "{}"], "run/vocab.json")
    yield Row("eval", "--data", [*EVAL[:3], "-q", "--ckpt", "run", "--task", "lambada", "--data", "{}"], "lambada.jsonl", fine=CUT_MAY_DO)
    yield Row("eval", "--predictions", [*EVAL, "--ckpt", "run", "--data", "text:text.txt", "--predictions", "{}"], CKPT)
    yield Row("data get", "--to", ["data", "get", "shakespeare", "-q", "--mirror", "http://127.0.0.1:1", "--to", "{}"], CKPT)
    yield Row("data ls", "--to", ["data", "ls", "--to", "{}"], CKPT, fine=ANYTHING_GOES)
    yield from tokenizer_rows()
    for prompt in ([], ["--prompt", "a"]):
        yield Row("generate", "--vocab", [*GENERATE, *prompt, "--model", GPT, "--ckpt", CKPT, "--vocab", "{}"], "run/vocab.json")


def tokenizer_rows():
    """A tokenizer named on the command line or in --data, and the copy in a run directory."""
    tok, named = "tok/tokenizer.json", ["--tokenizer", "{}"]
    yield Row("data tokenizer", "FILE...", ["data", "tokenizer", "-q", "--vocab", "300", "-o", "new.json", "{}"], "text.txt", fine=(*CUT_MAY_DO, "empty", "random"))
    yield Row("data tokenizer", "--output", ["data", "tokenizer", "-q", "--vocab", "300", "text.txt", "-o", "{}"], CKPT, fine=("missing", "empty", "random", "half"))
    yield Row("eval", "--tokenizer", [*EVAL, *ON_GPT, "--ckpt", "pairs/model.pth", *named], tok)
    yield Row("generate", "--tokenizer", [*GENERATE, "--ckpt", "pairs/model.pth", *named], tok)
    yield Row("train", "--data", [*TRAIN, "--model", GPT, "--data", "text:text.txt,level=bpe,tokenizer={}"], tok)
    yield Row("train", "--data", [*TRAIN, "--model", GPT, "--data", "text:{},level=bpe,tokenizer=tok"], "text.txt", fine=(*CUT_MAY_DO, "random"))
    yield Row("eval", "--ckpt", [*EVAL, "--ckpt", "copy", "--data", "text:text.txt"], "pairs/tokenizer.json", whole="pairs")
    yield Row("generate", "--ckpt", [*GENERATE, "--ckpt", "copy"], "pairs/tokenizer.json", whole="pairs")
    yield Row("train", "--resume", [*TRAIN, "--resume", "copy", "--steps", "4"], "pairs/tokenizer.json", whole="pairs", fine=("missing",))  # --data names it


def predict_rows():
    predict = ["predict", "--threads", "1", "-q", "--ckpt"]
    yield Row("predict", "--ckpt", [*predict, "{}", "table.csv"], "rows/model.pth")
    yield Row("predict", "INPUT...", [*predict, "rows", "table.csv", "{}"], "table.csv", fine=CUT_MAY_DO)
    yield Row("predict", "INPUT...", [*predict, "pictures", "{}"], "images/a/1.png")
    yield Row("predict", "INPUT...", [*predict, "run", "text.txt", "{}"], "text.txt", fine=CUT_MAY_DO)


def data_rows():
    for kind, spec in small_files.DATA.items():
        path = spec.split(":")[1].split(",")[0]
        model = ["--model", small_files.model_for(spec)]
        fine = CUT_MAY_DO if path in ("text.txt", "table.csv", "rows.jsonl", "chat.jsonl") else ()
        held = [(path, None)]
        if os.path.isdir(path):
            held = [(os.path.join(where, name), path) for where, _, names in os.walk(path) for name in names if "10k" not in name]
        for good, whole in sorted(held)[::2 if kind == "images" else 1][:4]:
            if whole:
                damaged, fine = spec.replace(f":{path}", ":copy"), PART_MAY_DO.get(kind, ())
            else:
                damaged = spec.replace(f":{path}", ":{}")
            yield Row("train", "--data", [*TRAIN, *model, "--data", damaged], good, whole, fine)
            if kind == "images":
                yield Row("train", "--data", [*TRAIN, *model, "--data", damaged, "--strict-data"], good, whole, NOT_THERE)
            # By default, --val reads the files of the test part.
            part = ",split=train" if spec.startswith(("mnist:", "cifar10:")) else ""
            yield Row("train", "--val", [*TRAIN, *model, "--data", spec, "--val", damaged + part], good, whole, fine)
            if kind == "text":
                yield Row("eval", "--data", [*EVAL, *model, "--ckpt", CKPT, "--data", damaged], good, whole, fine)


# A folder without one of its files is another folder, unless the set of files is fixed.
# What is no file is no image, and a damaged image is left out.
NOT_THERE = ("missing", "folder", "fifo")
PART_MAY_DO = {"texts": ("missing", "empty", "half"), "images": ANYTHING_GOES}


def names_rows():
    yield Row("train", "--data", [*TRAIN, "--model", "mlp", "--data", "webdataset:labelled.tar,size=8,classes={}"], "names.txt")


def wrong_words():
    """Not files: a name that is none. (command, slot, arguments)"""
    for slot, command in {"--model": [*TRAIN, "--data", "text:text.txt"], "--data": [*TRAIN, "--model", GPT]}.items():
        for word in ("nosuch", "nosuch:path", "", ":", ",", "text:", "gpt:layers=x", "mlp:0"):
            yield "train", slot, [*command, slot, word]
    for slot, word in (("--model", "nosuch"), ("--data", "random:x")):
        yield "plan", slot, ["plan", "--cluster", "8xH100", "--model", "mlp:4,2", "--data", "random:4/2", slot, word]
        yield "bench calibrate", slot, [*CALIBRATE, "new.json", slot, word]
        yield "bench sweep", slot, [*SWEEP, slot, word]
        yield "bench sweep", "--backend", [*SWEEP, "--backend", "shm," + word]
        yield "bench loader", slot, [*LOAD, "--data", "csv:table.csv", slot, word]
    for word in ("nosuch", "", "gpt:layers=x"):
        yield "eval", "--model", [*EVAL, "--data", "text:text.txt", "--ckpt", CKPT, "--model", word]
        yield "predict", "--model", ["predict", "--ckpt", "rows", "table.csv", "--model", word]
        yield "generate", "--model", [*GENERATE, "--vocab", "run/vocab.json", "--ckpt", CKPT, "--model", word]


def rows():
    for part in (checkpoint_rows, plan_rows, option_rows, run_rows, shown_run_rows, hugging_face_rows, adapter_rows, predict_rows, data_rows, names_rows):
        yield from part()


# ---- ways to damage ----

def damage(way, path, good):
    """Put at `path` what is left of the file `good`."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
    data = b"" if os.path.isdir(good) else open(good, "rb").read()
    if way == "folder":
        os.mkdir(path)
    elif way == "fifo":
        os.mkfifo(path)
    elif way != "missing":
        small_files.write(path, {"empty": b"", "random": random.Random(SEED).randbytes(1000), "half": data[:len(data) // 2]}[way])


WAYS = ("missing", "empty", "folder", "fifo", "random", "half")


def judge(row, way, folder, number):
    """Run the command in a folder of its own that shares the good files; "" or the problems."""
    here = os.path.join(folder, f"case-{number}")
    os.mkdir(here)
    for name in os.listdir(folder):
        if not name.startswith("case-"):
            os.symlink(os.path.join(folder, name), os.path.join(here, name))
    if row.whole:
        shutil.copytree(os.path.join(folder, row.whole), os.path.join(here, "copy"))
        path = os.path.join(here, "copy", os.path.relpath(row.good, row.whole))
    else:
        path = os.path.join(here, "damaged" + os.path.splitext(row.good)[1])
    damage(way, path, os.path.join(folder, row.good))
    args = [a.replace("{}", os.path.basename(path)) for a in row.args]
    done = outcome.run([GTRAIN, *args], LIMIT, here, ENV, file_bytes=64 << 20)
    found = outcome.problems(done, (0, 1, 2) if way in row.fine else (1, 2), row.findings)
    if not found and done.status and not (row.findings and done.out):
        found = outcome.only_error_and_hints(done)
        if done.out:
            found.append(f"standard output is not empty: {done.out[:200]!r}")
    found += [f"left behind: {path}" for path in outcome.temporaries(here)]
    if found:
        found.append("command: " + " ".join(args))
    shutil.rmtree(here)
    return "\n".join(found)


def weights_alone(run, copy):
    """A copy of a run whose checkpoints have been npz files, which have no room for text."""
    shutil.copytree(run, copy)
    for where, _, names in os.walk(copy):
        for file in (os.path.join(where, name) for name in names if name.endswith(".pth")):
            for source, target in ((file, "arrays.npz"), ("arrays.npz", "weights.pth")):
                subprocess.run([GTRAIN, "ckpt", "convert", "-q", source, "-o", target], check=True)
            os.replace("weights.pth", file)
            os.remove("arrays.npz")


def cases(folder):
    os.chdir(folder)
    small_files.make_data(folder)
    small_files.train(GTRAIN, folder, "run", env=ENV)
    small_files.train(GTRAIN, folder, "rows", "csv:table.csv", env=ENV)
    small_files.train(GTRAIN, folder, "pictures", "images:images,size=8", env=ENV)
    small_files.train(GTRAIN, folder, "pairs", "text:text.txt,level=bpe,tokenizer=tok", env=ENV)
    weights_alone("run", "older")
    small_files.write("./cluster.json", CLUSTER)
    small_files.write("./calibration.json", CALIBRATION)
    subprocess.run([GTRAIN, "ckpt", "convert", "-q", "pairs", "--to", "hf", "-o", "hf"], check=True)
    small_files.write("hf/chat_template.jinja", "{% for m in messages %}{{ m.role + m.content }}{% endfor %}")
    small_files.train(GTRAIN, folder, "adapted", "text:text.txt", "--lora", "r=2", env=ENV)
    subprocess.run([GTRAIN, "ckpt", "merge-lora", "-q", CKPT, "--lora", "adapted/adapter", "-o", "tuned.pth"], check=True)
    small_files.write("./lambada.jsonl", '{"text": "the quick brown fox"}\n' * 2)
    small_files.write("./key.pem", small_files.KEY)
    small_files.write("./pub.pem", small_files.PUBLIC_KEY)
    subprocess.run([GTRAIN, "ckpt", "sign", "-q", CKPT, "--key", "key.pem"], check=True)
    os.mkdir("scratch")
    work = [(row, way) for i, row in enumerate(rows()) for way in tap.one_in(2, WAYS, i)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda case: judge(*case[1], folder, case[0]), enumerate(work)))
    for row in dict.fromkeys(row for row, _ in work):
        bad = [f"{way}: {problem}" for (r, way), problem in zip(work, found) if r is row and problem]
        yield row.name(), "\n".join(bad)
    for command, slot, args in wrong_words():
        done = outcome.run([GTRAIN, *args], LIMIT, folder, ENV)
        yield f"{command} {slot} '{args[-1]}'", "\n".join(outcome.problems(done, (1, 2)) or outcome.only_error_and_hints(done))


# ---- nothing is forgotten ----

def inputs_of(command):
    """The slots of a command, from its table of options; an option of an unknown kind is a problem."""
    words = command["synopsis"].split("[OPTIONS]")[0].replace("(", " ").split()
    for i, word in enumerate(words):
        if word in OPERANDS and not words[i - 1].startswith("-"):
            yield word, ""
    for option in command["options"]:
        metavar = option.get("metavar")
        if option["type"] in ("string", "list") and metavar not in VALUES:
            known = metavar in READ | WRITTEN
            yield "--" + option["name"], "" if known else f"'{metavar}' is not among READ, WRITTEN and VALUES of tests/oracle/inputs.py"


def forgotten(folder):
    os.chdir(folder)
    small_files.make_data(folder)
    have = {(row.command, row.slot) for row in rows()} | {(command, slot) for command, slot, _ in wrong_words()}
    listed = json.loads(subprocess.run([GTRAIN, "help", "--json"], check=True, capture_output=True).stdout)["commands"]
    names = {c["name"] for c in listed}
    for command in listed:
        slots = dict(inputs_of(command))
        missing = [f"{slot} has no row" for slot in slots if (command["name"], slot) not in have]
        yield f"all inputs of {command['name']} are tried", "\n".join(missing + [p for p in slots.values() if p])
    yield "no row is of a command that is gone", "\n".join(c for c, _ in have if c not in names)


if __name__ == "__main__":
    print(f"# seed {SEED}")
    sys.exit(tap.run([cases, forgotten], GTRAIN, sys.argv[1:]))
