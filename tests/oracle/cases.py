#!/usr/bin/python3
# cases.py - cases of GTRAIN_TEST_DATA/cases: the command of each, and what it has to print, write and end with.
"""
A case is a folder with a file `cmd`, a shell command, and the files that it reads. The command runs in a copy of the folder.
CASES says what is right; `cases.py NAME...` runs those alone whose name begins so.
"""
import csv
import io
import json
import os
import pickle
import pickletools
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import ckpt_raw
import tap

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.environ.get("GTRAIN_TEST_DATA", os.path.join(HERE, "..", "..", "..", "shared", "data"))
FOLDER = os.path.join(DATA, "cases")
LIMIT = 120  # seconds


class Right:
    """The right outcome: exit status, patterns that the output (of both streams) has to match or must not match, files that must
    not exist, and `check`, a function from the case's folder and the output to a problem or ""."""

    def __init__(self, status=0, says=(), never=(), absent=(), check=None):
        self.status, self.says, self.never, self.absent, self.check = status, says, never, absent, check

    def problem(self, folder, ran):
        text = ran.stdout + ran.stderr
        wrong = []
        if ran.returncode != self.status:
            wrong.append(f"exit status {ran.returncode}, not {self.status}")
        wrong += [f"no line has {p!r}" for p in self.says if not re.search(p, text)]
        wrong += [f"a line has {p!r}" for p in self.never if re.search(p, text)]
        wrong += [f"there is a file {name}" for name in self.absent if os.path.exists(os.path.join(folder, name))]
        if not wrong and self.check:
            wrong += filter(None, [self.check(folder, text)])
        return "\n".join(wrong + [text]) if wrong else ""


def table(features, classes):
    """The check that the run of a table has these numbers of features and these classes."""

    def check(folder, _text):
        with open(os.path.join(folder, "run", "config.json")) as f:
            data = json.load(f)["about"]["data"]
        found = data["features"], data["class-names"]
        return "" if found == (features, classes) else f"features and classes: {found}"

    return check


def has_classes(count):
    """A check that the run in the folder `run` has so many classes."""
    def check(folder, _text):
        with open(os.path.join(folder, "run", "config.json")) as f:
            found = json.load(f)["about"]["data"]["classes"]
        return "" if found == count else f"{found} classes, not {count}"
    return check


def predicts(samples):
    """A check of out.csv: class and probability of each sample."""
    def check(folder, _text):
        with open(os.path.join(folder, "out.csv")) as f:
            rows = {row["sample"]: row for row in csv.DictReader(f)}
        return "".join(f"{name}: {rows[name]}" for name, (label, probability) in samples.items()
                       if rows[name]["predicted"] != label or abs(float(rows[name]["probability"]) - probability) > 1e-5)
    return check


def is_protocol_2(folder, _text):
    """What strip-module has written can be read by torch.load(weights_only=True)."""
    with zipfile.ZipFile(os.path.join(folder, "out.pth")) as z:
        pickle = z.read(next(name for name in z.namelist() if name.endswith("/data.pkl")))
    operands = [op.name for op, _, _ in pickletools.genops(pickle) if op.proto > 2]
    return "" if pickle[:2] == b"\x80\2" and not operands else f"out.pth begins with {pickle[:2]!r} and has {operands[:3]}"


def read(folder, name):
    with open(os.path.join(folder, name)) as f:
        return f.read()


CASES = {
    "01-safetensors-f8e8m0":
        Right(check=lambda folder, _: ckpt_raw.problem(f"{folder}/mx.safetensors", f"{folder}/out.pth")),
    "03-csv-decimal-comma":
        Right(says=[r"decimal comma", r"the first row names the columns"], never=[r"categories"], check=table(3, ["no", "yes"])),
    "05-csv-label-first":
        Right(status=1, says=[r"'pixel15' is the target, but has the same value", r"target=label"], absent=["run"]),
    "06-csv-semicolon-quoted-header":
        Right(status=1, says=[r"sep=semicolon"], never=[r"damaged"]),
    "07-csv-utf16":
        Right(status=1, says=[r"UTF-16", r"iconv"], never=[r"damaged"]),
    "08-csv-gz":
        Right(says=[r"done: 2 steps"], never=[r"damaged"]),
    "09-images-Training-Testing":
        Right(says=[r"--data: split=Training, by default"]),
    "10-images-all-webp":
        Right(says=[r"done: 2 steps"]),
    "11-mnist-dot-names":
        Right(says=[r"done: 2 steps"]),
    "12-mnist-torchvision-root":
        Right(says=[r"done: 2 steps"]),
    "13-mnist-format-26-classes":
        Right(says=[r"done: 2 steps"], check=has_classes(21)),
    "14-slurm-exported-world-size":
        Right(says=[r"done: 2 steps"]),
    "15-master-addr-own-hostname":
        Right(says=[r"done: 2 steps"], never=["error"]),
    "20-resume-two-group-adamw-mlp":
        Right(says=[r"adamw with states of 4 parameters", r"weight decay 0\.1: 2 parameters have it, 2 have none"], never=["warning"]),
    "22-resume-nesterov":
        Right(never=["warning"], check=lambda folder, _: "" if '"nesterov": true' in read(folder, "run/config.json") else "no Nesterov"),
    "23-eval-lightning-ckpt":
        Right(says=[r"'net\.' removed from 4 keys", r"loss 1\.085850"]),
    "24-two-state-dicts":
        Right(1, says=[r"(?s)2 state_dicts[^\n]*: 'generator', 'discriminator'.*2 state_dicts", r"ckpt select --path generator"],
              never=["saved elsewhere"], absent=["out.safetensors"]),
    "25-state-dict-of-numpy":
        Right(says=["4 tensors"], check=lambda folder, _: same_arrays(folder)),
    "26-npz-with-names":
        Right(says=["left behind: 'classes', 'history'", r"classes +numpy.ndarray of strings", r"W1 +float32 +\[4, 3\]"],
              check=lambda folder, _: "" if set(ckpt_raw.read_safetensors(folder + "/out.safetensors")) == {"W1", "b1"} else "names"),
    "27-torch-export-pt2":
        Right(says=[r"torch-export", r"2\.weight +float32 +\[3, 8\]"], never=["TorchScript"]),
    "28-onnx-hint":
        Right(says=[r"onnx", r"1 tensor"]),
    "34-hf-vit-exact-size":
        Right(says=[r"wide.png +b +72\.05 %"]),
    "35-lr-jump-on-resume":
        Right(says=[r"the learning rate goes from 0\.0107 to 0\.0587 at step 21, because the cosine now ends at step 40"]),
    "36-rank-without-world-size":
        Right(says=[r"done: 2 steps"]),
    "37-csv-integer-target":
        Right(says=[r"regression, as with task=regression", r"mlp, 1281 parameters"]),
    # torchvision truncates: 64 x 48 becomes 42 x 32. Rounded up to 43 x 32, the probability would be 0.5929.
    "38-images-resize-then-crop":
        Right(check=predicts({"a/1.png": ("a", 0.559287)})),
    "39-pickle-protocol-4":
        Right(says=[r"pickle protocol 4, of which torch\.load\(weights_only=True\) refuses .*'Unsupported operand 149'",
                    r"`gtrain ckpt convert` writes the checkpoint in protocol 2"], never=["nothing is wrong"], check=is_protocol_2),
    "40-slurm-rank-from-batch-script":
        Right(says=[r"done: 2 steps"], never=["error"]),
}


class Arrays(pickle.Unpickler):
    """The numpy arrays of a pickle, which any version of numpy wrote."""

    def find_class(self, module, name):
        return super().find_class(module.replace("numpy._core", "numpy.core"), name)


def same_arrays(folder):
    """Case 25: the tensors are the arrays of the pickle."""
    with zipfile.ZipFile(folder + "/numpy.pth") as z:
        arrays = Arrays(io.BytesIO(z.read("numpy/data.pkl"))).load()
    got = ckpt_raw.read_safetensors(folder + "/out.safetensors")
    right = {n: ("F32", list(a.shape), a.tobytes()) for n, a in arrays.items()}
    return "" if got == right else f"{got} for {right}"


def run(case, right, top):
    folder = shutil.copytree(os.path.join(FOLDER, case), os.path.join(top, case))
    os.symlink(GTRAIN, os.path.join(top, "gtrain"))
    env = {**os.environ, "PATH": top + os.pathsep + os.environ["PATH"], "OMP_NUM_THREADS": "1"}
    with open(os.path.join(folder, "cmd")) as f:
        command = f.read()
    ran = subprocess.run(["bash", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         errors="replace", timeout=LIMIT, check=False)
    return right.problem(folder, ran)


def cases(_folder):
    """Every case, with the outcome that is right."""
    for case, right in CASES.items():
        if sys.argv[1:] and not case.startswith(tuple(sys.argv[1:])):
            continue
        if not os.path.isdir(os.path.join(FOLDER, case)):
            yield case, tap.Skip(f"no data: {FOLDER}/{case}")
        elif not right:
            yield case, tap.Skip("not mended")
        else:
            with tempfile.TemporaryDirectory() as top:
                yield case, run(case, right, top)


if __name__ == "__main__":
    sys.exit(tap.run([cases], GTRAIN))
