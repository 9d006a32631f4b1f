#!/usr/bin/env python3
"""trained_on.py - data is read as that which a run was trained on: classes by name, size, normalization, columns (TAP)."""
import csv
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
CLASSES = {"ant": 40, "bee": 120, "cat": 200}


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(side, values):
    rows = b"".join(b"\0" + bytes(values[y * side:(y + 1) * side]) for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def pictures(folder, names, side=4):
    """A folder of images: that of class `names[old]` has the pixels of class `old`."""
    draw = random.Random(7)
    for old, grey in CLASSES.items():
        for i in range(12):
            values = [grey + draw.randrange(-9, 9) for _ in range(side * side)]
            if old in names:
                os.makedirs(os.path.join(folder, names[old]), exist_ok=True)
                with open(os.path.join(folder, names[old], f"{i}.png"), "wb") as file:
                    file.write(png(side, values))
    return folder


def shards(folder, path):
    """The pictures of a folder as a webdataset, whose classes are numbers."""
    with tarfile.open(path, "w") as tar:
        for number, name in enumerate(sorted(os.listdir(folder))):
            with open(f"{number}.cls", "w") as file:
                file.write(str(number))
            tar.add(f"{folder}/{name}/0.png", f"{number}.png")
            tar.add(f"{number}.cls")
    return path


def table(path, classes, header="x,y,class", swap=False):
    """Rows around a point of each class, with the classes in this order."""
    draw = random.Random(3)
    centre = {"a": (-4, 0), "b": (4, 0), "c": (0, 5), "0": (-4, 0), "1": (4, 0)}
    with open(path, "w") as file:
        file.write(header + "\n" if header else "")
        for name in classes * 20:
            x, y = (c + draw.gauss(0, 0.3) for c in centre.get(name, (9, 9)))
            file.write(f"{y},{x},{name}\n" if swap else f"{x},{y},{name}\n")
    return path


def moved(path, source, names, old=None):
    """Columns of a table under these names; those of `old` where these are other ones. A name that it lacks has a column of its own."""
    with open(source, newline="") as file, open(path, "w") as out:
        out.write(",".join(names) + "\n")
        for row in csv.DictReader(file):
            out.write(",".join(row.get(name, "?") for name in old or names) + "\n")
    return path


def run(*arguments):
    return subprocess.run([GTRAIN, *arguments], capture_output=True, text=True)


def trained(out, model, data, *more):
    done = run("train", "-q", "--model", model, "--data", data, "--steps", "150", "--batch", "12", "--lr", "0.02",
               "--out", out, *more)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return out


def right(ckpt, data, said=None, least=0.99, most=1.01, model=None):
    """"" where the share of right answers is so, and standard error has a line with `said`, or none without it."""
    done = run("eval", "--ckpt", ckpt, "--data", data, "--json", *(["--model", model] if model else []))
    if done.returncode:
        return f"exit status {done.returncode}: {done.stderr}"
    top1 = json.loads(done.stdout)["top1"]
    told = [line for line in done.stderr.splitlines() if "read with" in line]
    if not least <= top1 <= most:
        return f"top-1 is {top1}"
    if (said is None) != (not told) or (said and said not in told[0]):
        return f"said {told}, not {said!r}"
    return ""


def refused(text, hint, *arguments):
    done = run(*arguments)
    lines = done.stderr.splitlines()
    if done.returncode not in (1, 2):
        return f"exit status {done.returncode}: {done.stderr}"
    if len(lines) > 2 or text not in lines[0] or (hint and (len(lines) < 2 or hint not in lines[1])):
        return f"said {done.stderr!r}, not {text!r} and {hint!r}"
    return ""


def overruled(text, ckpt, data, *more):
    """"" where the evaluation warns with this text, which names both values, and counts."""
    done = run("eval", "--ckpt", ckpt, "--data", data, "--json", *more)
    warnings = [line for line in done.stderr.splitlines() if "warning" in line]
    if done.returncode or len(warnings) != 1 or text not in warnings[0]:
        return f"exit status {done.returncode}: {done.stderr}"
    return ""


def forget(path):
    """Take the facts about the run out of its checkpoints, as a way through arrays does."""
    for folder in (path, os.path.join(path, "checkpoints")):
        for name in os.listdir(folder):
            if name.endswith(".pth"):
                file = os.path.join(folder, name)
                for source, target in ((file, "arrays.npz"), ("arrays.npz", "weights.pth")):
                    done = run("ckpt", "convert", source, "-o", target)
                    if done.returncode:
                        raise RuntimeError(done.stderr)
                os.replace("weights.pth", file)
                os.remove("arrays.npz")


def damaged():
    """A config.json that cannot be read says nothing of the data: the numbers would be wrong without a word."""
    whole = open("run/config.json").read()
    for name, text in {"cut": whole[:900], "empty": "", "zero std": re.sub(r'("std": \[\s*)[0-9.e-]+', r"\g<1>0.0", whole)}.items():
        shutil.copytree("run", "hurt")
        forget("hurt")
        with open("hurt/config.json", "w") as file:
            file.write(text)
        said = "'std'" if name == "zero std" else "'hurt/config.json' is damaged"
        for ckpt in ("hurt", "hurt/model.pth"):
            yield f"{ckpt}: config.json is {name}", refused(said, None, "eval", "--ckpt", ckpt, "--model", "mlp:16,8,3", "--data", "images:all")
        shutil.rmtree("hurt")


def images(folder):
    os.chdir(folder)
    same = {name: name for name in CLASSES}
    pictures("all", same)
    pictures("two", {"bee": "bee", "cat": "cat"})
    pictures("renamed", {"ant": "ant", "bee": "eagle", "cat": "dog"})
    pictures("swapped", {"ant": "cat", "bee": "bee", "cat": "ant"})
    pictures("large", same, side=8)
    trained("run", "mlp:16,8,3", "images:all,channels=1,size=4,mean=0.5,std=0.1", "--val", "images:two")
    yield "a run validated with fewer classes, size and normalization of --data", ""
    ev = ("eval", "--ckpt", "run", "--data")
    told = "mean=0.5, std=0.1"
    yield "normalization is the run's", right("run", "images:all", told)
    yield "the same may be given", right("run", "images:all,channels=1,size=4,mean=0.5,std=0.1")
    yield "a part of it may be given", right("run", "images:all,std=0.1", "mean=0.5")
    yield "size is the run's", right("run", "images:large", told)
    yield "a checkpoint of the run", right("run/model.pth", "images:all", told)
    os.symlink("run/checkpoints", "linked")
    os.symlink("run/model.pth", "latest.pth")
    for path in ("run/checkpoints//step-00000150.pth", "run//checkpoints/./step-00000150.pth", "linked/step-00000150.pth", "latest.pth"):
        yield f"the run of {path}", right(path, "images:all", told, model="mlp:16,8,3")
    os.chdir("run/checkpoints")
    yield "the run of a file in this folder", right("step-00000150.pth", "images:../../all", told)
    os.chdir("../..")
    yield from damaged()
    yield "classes may be missing", right("run", "images:two", told)
    yield "classes count by their names", right("run", "images:swapped", told, 0.3, 0.4)
    yield "unknown classes are listed", refused(
        "classes 'dog', 'eagle' are not in the data trained on, which has 'ant', 'bee', 'cat'", "by their names",
        *ev, "images:renamed")
    with open("a.cls", "w") as file:
        file.write("1")
    with tarfile.open("numbers.tar", "w") as tar:
        tar.add("all/ant/0.png", "a.png")
        tar.add("a.cls")
    yield "numbers where a key gives names", refused("classes '0', '1' are not in", "only numbers; classes=FILE gives them names",
                                                     *ev, "webdataset:numbers.tar,size=4")
    yield "renamed ones among as many", refused("classes 'dog', 'eagle' are not in", "by their names",
                                                *ev, "images:renamed,channels=1,mean=0.5,std=0.1")
    yield "only mean and std are forgotten", right("run", "images:all,channels=1,size=4", told)
    yield "another mean", overruled("mean=0.4, but the model was trained with mean=0.5", "run", "images:all,mean=0.4")
    yield "another std", overruled("std=1, but the model was trained with std=0.1", "run", "images:all,std=1")
    yield "both", overruled("mean=0.4, but the model was trained with mean=0.5, std=1, but", "run", "images:all,mean=0.4,std=1")
    done = run(*ev, "images:all,size=8")
    yield "another size, which the model does not take", "" if done.returncode and "goes from 16 to 3" in done.stderr else done.stderr
    yield "other channels", refused("4 x 4 pixels and 3 channels, but", "leave out channels=", *ev, "images:all,channels=3")
    trained("wide", "resnet20", "images:all,channels=3,size=8,reduce=no", "--steps", "2")
    yield "images are decoded as in training", right("wide", "images:all", "8 x 8 pixels, reduce=no", least=0)
    yield "or in another way", overruled("reduce=yes, but the model was trained with reduce=no", "wide", "images:all,reduce=yes")
    yield "another size, which the model takes", overruled(
        "16 x 16 pixels, but the model was trained with 8 x 8", "wide", "images:all,size=16")
    go_on = ("train", "-q", "--model", "resnet20", "--steps", "4", "--out", "wide", "--data", "images:all,channels=3,size=8,reduce=no", "--resume", "auto")
    shards("all", "all.tar")
    for val in ("images:all,size=16", "images:all,size=4", "webdataset:all.tar,size=16"):
        yield f"--val {val} has another size, which the run's programs do not take", refused(
            "but the model was trained on 8 x 8", "leave out size=", *go_on, "--val", val)
    trained("vit", "vit:image=8", "images:all", "--steps", "1")
    wrong = "was trained on images of 8 x 8 pixels, but the model takes 12 x 12"
    yield "a model of another size does not take that of the checkpoint", refused(
        wrong, "size=12 in --data", "train", "-q", "--model", "vit:image=12", "--init-from", "vit", "--data", "images:all", "--dry-run")
    yield "nor do predictions", refused(wrong, "size=12 in --read", "predict", "--ckpt", "vit", "--model", "vit:image=12", "all/ant/0.png")
    small = ("train", "-q", "--steps", "1", "--data", "images:all,channels=3", "--model", "resnet18:image=32", "--dry-run", "--batch")
    yield "a last batch of one sample", refused("layer4.0.bn1: batch_norm: 1 value per channel has no variance",
                                                "only the last batch of an epoch is so small, with 1 sample: --drop-last leaves it out", *small, "35")
    yield "all batches of one", refused("1 value per channel has no variance", "use a larger batch or larger images", *small, "1")
    trained("flat", "lenet", "images:all,size=16", "--steps", "1")
    done = run("train", "-q", "--resume", "flat", "--steps", "2", "--data", "images:all,size=20")
    good = done.returncode and done.stderr.endswith("hint: is it a checkpoint of this model, with these settings?\n")
    yield "an earlier checkpoint is of no help where shapes are others", "" if good else done.stderr
    yield "another kind of data", refused("the data are rows of numbers, but the model was trained on images", "",
                                          *ev, "random:16/3")
    go_on = ("train", "-q", "--steps", "160", "--out", "run", "--resume", "auto", "--data")
    yield "a run does not go on with other classes", refused(
        "classes 'dog', 'eagle' are not in", "", *go_on, "images:renamed")
    begin = ("train", "-q", "--model", "mlp:16,8,3", "--steps", "1", "--out", "other", "--init-from", "run", "--data")
    yield "--val has other classes", refused("--val: 'renamed': classes 'dog', 'eagle' are not in", "by their names", *begin,
                                             "images:all", "--val", "images:renamed")
    done = run(*begin[:1], *begin[2:], "images:all", "--val", "images:two,mean=0")
    yield "--val is normalized in another way", "" if "--val: mean=0, but the model was trained with mean=0.5" in done.stderr else done.stderr
    done = run("train", "-q", "--config", "run/config.json", "--out", "again", "--steps", "1")
    yield "config.json is a configuration", done.stderr
    done = run("train", "-q", "--steps", "160", "--out", "run", "--resume", "auto", "--data", "images:two")
    yield "a run goes on with fewer classes", done.stderr if done.returncode else right("run", "images:all", told)


def outside(folder):
    """Checkpoints outside of a run directory bring the facts along, in any format that has room for text."""
    os.chdir(folder)
    pictures("all", {name: name for name in CLASSES})
    pictures("renamed", {"ant": "x", "bee": "y", "cat": "z"})
    pictures("swapped", {"ant": "cat", "bee": "bee", "cat": "ant"})
    trained("run", "mlp:16,8,3", "images:all,channels=1,size=4,mean=0.5,std=0.1")
    shutil.copy("run/model.pth", "alone.pth")
    shutil.copy("run/checkpoints/step-00000150.pth", "step.pth")
    for source, target in (("alone.pth", "a.safetensors"), ("step.pth", "b.safetensors"), ("a.safetensors", "back.pth"),
                           ("alone.pth", "legacy.pt"), ("alone.pth", "none.npz"), ("none.npz", "none.pth")):
        done = run("ckpt", "convert", source, "-o", target, *(["--to", "legacy"] if "legacy" in target else []))
        yield f"{source} becomes {target}", done.stderr if done.returncode else ""
    run("ckpt", "merge", "--average", "alone.pth", "back.pth", "-o", "mean.pth")
    run("ckpt", "rename", "back.pth", "-o", "named.pth", "--map", "^=module.")
    for file in ("alone.pth", "step.pth", "a.safetensors", "b.safetensors", "back.pth", "legacy.pt", "mean.pth", "named.pth"):
        yield f"{file} says it all", right(file, "images:all", "mean=0.5, std=0.1")
    yield "classes count by their names", right("alone.pth", "images:swapped", "mean=0.5, std=0.1", 0.3, 0.4)
    yield "unknown ones are listed", refused("classes 'x', 'y', 'z' are not in the data trained on", "by their names",
                                             "eval", "--ckpt", "alone.pth", "--data", "images:renamed")
    yield "arrays have no room", refused("--model is missing", None, "eval", "--ckpt", "none.pth", "--data", "images:all")
    model = "mlp:16,8,3"
    yield "a file outside a run says nothing", right("none.pth", "images:all,mean=0.5,std=0.1,channels=1", model=model)
    yield "nor of classes", right("none.pth", "images:renamed,mean=0.5,std=0.1,channels=1", model=model)
    forget("run")
    with open("run/config.json") as file:
        config = json.load(file)
    about = config.pop("about")
    yield "config.json describes the data", "" if about.pop("version") and about == {"data": {
        "kind": "image", "classes": 3, "size": [4, 4, 1], "mean": [0.5], "std": [0.1],
        "reduce": True, "class-names": ["ant", "bee", "cat"]}} else str(about)

    def write(config):
        with open("run/config.json", "w") as file:
            json.dump(config, file)
    write(config)
    done = run("eval", "--ckpt", "run", "--data", "images:all,channels=1,size=4")
    yield "without a description the options do not stand for one", (
        "" if "does not say how pixels were normalized" in done.stderr else done.stderr)
    for wrong, text in ((dict(about["data"], classes=2), "'class-names' must be"),
                        (dict(about["data"], kind="x"), "'kind' must be"),
                        (dict(about["data"], size=[4, -4, 1]), "'size' must be"),
                        (dict(about["data"], mean=["a"]), "'mean' must be"), (dict(about["data"], reduce="no"), "'reduce' must be"), (dict(about["data"], eos=[-1]), "'eos' must be"),
                        (dict(about["data"], eos=[0] * 17), "'eos' must be"), (dict(about["data"], bos="x"), "'bos' must be"), ([], "'kind' must be")):
        write(dict(config, about={"data": wrong}))
        yield f"a damaged description: {text}", refused(text, "", "eval", "--ckpt", "run", "--data", "images:all")
    write(dict(config, about="my notes"))
    done = run("train", "--config", "run/config.json", "--out", "again", "--dry-run")
    yield "'about' in a config.json may be anything", done.stderr if done.returncode else ""
    with open(os.path.join(b"all", b"ant", b"0.png"), "rb") as file:
        bytes_of_one = file.read()
    os.makedirs(b"all/caf\xe9")
    with open(b"all/caf\xe9/1.png", "wb") as file:
        file.write(bytes_of_one)
    done = run("train", "-q", "--model", "mlp:16,8,4", "--data", "images:all,channels=1", "--steps", "1", "--out", "latin")
    yield "a class name that is not UTF-8", done.stderr
    yield "and back", right("latin", "images:all", "4 x 4 pixels", least=0)
    names = [row["class"] for row in json.loads(run("eval", "--ckpt", "latin", "--data", "images:all", "--json", "--per-class").stdout)["classes"]]
    yield "each byte of it that is not UTF-8 is U+FFFD in JSON", "" if names == ["ant", "bee", "caf\ufffd", "cat"] else str(names)


def begun(out, model, data, *more, steps="1"):
    """Standard error of a run that begins with other weights."""
    done = run("train", "--model", model, "--data", data, "--steps", steps, "--batch", "12", "--lr", "0.02", "--out", out, *more)
    return done.stderr if not done.returncode else f"exit status {done.returncode}: {done.stderr}"


def wants(text, *parts, lacks="exit status"):
    return "" if all(part in text for part in parts) and lacks not in text else text


def fine_tuned(folder):
    """--init-from with other classes: the head begins anew, the rest is the checkpoint's."""
    os.chdir(folder)
    pictures("all", {name: name for name in CLASSES})
    pictures("two", {"bee": "bee", "cat": "cat"})
    pictures("renamed", {"ant": "ant", "bee": "eagle", "cat": "dog"})
    pictures("pair", {"ant": "x", "cat": "y"})
    trained("run", "mlp:16,8,3", "images:all,channels=1,size=4,mean=0.5,std=0.1")
    new, told = "'2.weight' starts with random weights, because --data has", "mean=0.5, std=0.1"
    said = begun("other", "mlp:16,8,3", "images:renamed", "--init-from", "run", steps="150")
    yield "other names of as many classes", wants(said, new + " 3 classes", told) or right("other", "images:renamed", told)
    for head, rest in (("2.weight", "0.weight"), ("2.bias", "0.bias")):
        done = run("ckpt", "diff", "--json", "run/model.pth", "other/model.pth")
        changed = {row["key"] for row in json.loads(done.stdout)["differences"]}
        yield f"both {head} and {rest} were trained", "" if {head, rest} <= changed else str(changed)
    said = begun("pair_run", "mlp:16,8,2", "images:pair", "--init-from", "run", steps="150")
    yield "another number of classes", wants(said, new + " 2 classes") or right("pair_run", "images:pair", told)
    # The passes put other values than the parameters before the last layer: copies in 16 bits, gathered or sharded ones.
    for options in (["--amp", "bf16"], ["--nproc", "2", "--parallel", "zero3"], ["--nproc", "2", "--tensor-parallel", "2"]):
        for model, data, count in (("mlp:16,8,3", "images:renamed", 3), ("mlp:16,8,2", "images:pair", 2)):
            said = begun("passes", model, data, "--init-from", "run", *options)
            rows = run("ckpt", "diff", "--json", "run/model.pth", "passes/model.pth").stdout
            moved = {row["key"]: row.get("max_abs", 1) for row in json.loads(rows or '{"differences": []}')["differences"]}
            # One step at this rate moves no bias further than 0.02.
            good = f"{new} {count} classes" in said and moved.get("2.bias", 0) > 0.05
            yield f"{model} with {' '.join(options)} begins its whole head anew", "" if good else f"{said} {moved}"
            shutil.rmtree("passes", ignore_errors=True)
    for frozen, name in (("2.*", "2.weight"), ("*.bias", "2.bias")):
        yield f"a new head cannot be frozen by {frozen}", refused(
            f"--freeze matches '{name}', which starts with random weights, because --data has 2 classes", f"use a --freeze that does not match '{name}'", "train", "-q",
            "--model", "mlp:16,8,2", "--init-from", "run", "--data", "images:pair", "--freeze", frozen, "--steps", "1", "--out", "frozen")
    for ckpt in ("run", "run/model.pth"):
        yield f"the same classes of {ckpt} keep their head", wants(begun("same", "mlp:16,8,3", "images:all", "--init-from", ckpt),
                                                             "weights from", lacks="random weights")
        shutil.rmtree("same")
    yield "so do some of them", wants(begun("some", "mlp:16,8,3", "images:two", "--init-from", "run"), "weights from",
                                      "--data keeps the 3 classes of run", "of which 1 has no samples", lacks="random weights")
    yield "nothing but the head may differ", refused("'0.weight' has shape [8, 16], the model wants [9, 16]", "is it a checkpoint",
                                                     "train", "-q", "--model", "mlp:16,9,3", "--init-from", "run", "--data", "images:all",
                                                     "--steps", "1", "--out", "wide")
    forget("pair_run")
    os.remove("pair_run/config.json")
    spec = "images:all,channels=1,size=4,mean=0.5,std=0.1"
    yield "a file that says nothing: shapes tell", wants(begun("back", "mlp:16,8,3", spec, "--init-from", "pair_run/model.pth"), new)
    run("ckpt", "rename", "run/model.pth", "-o", "named.pth", "--map", "^0=net.0")
    start = ("train", "-q", "--model", "mlp:16,8,3", "--data", "images:all", "--steps", "1", "--init-from", "named.pth", "--out")
    yield "names that do not fit", refused("2 keys are missing, the first is '0.weight'", "--map", *start, "no")
    done = run(*start, "mapped", "--map", "^net[.]=")
    yield "--map makes them fit", done.stderr
    done = run(*start, "loose", "--strict=no")
    yield "--strict=no tells them", wants(done.stderr, "missing key '0.weight'", "unexpected key 'net.0.weight'", lacks="error")
    done = run(*start, "still", "--strict=no", "--freeze", "0.*")
    yield "and the frozen ones", wants(done.stderr, "--freeze: 2 frozen parameters, the first of them '0.weight', are not in named.pth and will not be trained")
    yield "--map is for --init-from", refused("--map has no effect", None, "train", "--model", "mlp:16,8,3", "--data", "images:all",
                                              "--map", "a=b", "--out", "none")
    yield "a bad expression", refused("--map: ", None, *start, "bad", "--map", "(=x")


def answers(folder):
    """What eval says of single samples, by a computation of its own: the weights as numpy's arrays."""
    os.chdir(folder)
    pictures("all", {"ant": 'a,"b', "bee": "bee", "cat": "cat"})
    trained("run", "mlp:16,8,3", "images:all,channels=1,size=4,mean=0.5,std=0.1", "--steps", "4")
    run("ckpt", "convert", "run/model.pth", "-o", "w.npz")
    w = {}
    with zipfile.ZipFile("w.npz") as arrays:
        for name in arrays.namelist():
            data = arrays.read(name)
            count = len(data) - 10 - struct.unpack("<H", data[8:10])[0]
            w[name[:-4]] = struct.unpack(f"<{count // 4}f", data[-count:])

    def layer(x, i):
        weight, bias = w[f"{i}.weight"], w[f"{i}.bias"]
        return [sum(weight[k * len(x) + j] * v for j, v in enumerate(x)) + b for k, b in enumerate(bias)]

    def answer(path):
        with open(path, "rb") as file:
            rows = zlib.decompress(file.read().split(b"IDAT")[1])
        x = [(rows[y * 5 + 1 + i] / 255 - 0.5) / 0.1 for y in range(4) for i in range(4)]
        logits = layer([max(v, 0) for v in layer(x, 0)], 2)
        e = [math.exp(v - max(logits)) for v in logits]
        return e.index(max(e)), max(e) / sum(e)

    names, found = ['a,"b', "bee", "cat"], {}
    for more in ([], ["--nproc", "2", "--batch", "5"]):
        done = run("eval", "--ckpt", "run", "--data", "images:all", "--json", "--per-class", "--confusion", "--predictions", "p.csv", *more)
        result = json.loads(done.stdout)
        with open("p.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        wrong, matrix = [], [[0] * 3 for _ in names]
        for row in rows:
            best, probability = answer(os.path.join("all", row["sample"]))
            if row["predicted"] != names[best] or abs(float(row["probability"]) - probability) > 1e-5:
                wrong.append(f"{row} is {names[best]} {probability}")
            if row["class"] != os.path.dirname(row["sample"]):
                wrong.append(str(row))
            matrix[names.index(row["class"])][best] += 1
        yield f"each of {len(rows)} samples {more}", "\n".join(wrong) if wrong or len(rows) == 36 else f"{len(rows)} rows"
        yield f"the matrix {more}", "" if result["confusion"] == matrix else f"{result['confusion']} is {matrix}"
        classes = [{"class": name, "n": 12, "right": matrix[i][i], "predicted": sum(row[i] for row in matrix)} for i, name in enumerate(names)]
        counts = [{key: row[key] for key in classes[0]} for row in result["classes"]]
        yield f"the classes {more}", "" if counts == classes else str(result["classes"])
        yield f"top-1 {more}", "" if abs(result["top1"] - sum(matrix[i][i] for i in range(3)) / 36) < 1e-9 else str(result["top1"])
        found[str(more)] = rows
    yield "batches and ranks do not matter", "" if len({json.dumps(rows) for rows in found.values()}) == 1 else str(found)
    with open("t.txt", "w") as file:
        file.write("abcabcabc" * 99)
    trained("text", "gpt:layers=1,heads=1,width=8,block=8", "text:t.txt")
    yield "text has no classes", refused("text has no classes", None, "eval", "-q", "--ckpt", "text", "--data", "text:t.txt", "--confusion")
    os.mkdir("folder")
    os.mkfifo("pipe")
    for path in ("no/p.csv", "folder", "pipe"):
        yield f"'{path}' cannot be written", refused(f"'{path}'", None, "eval", "-q", "--ckpt", "run", "--data", "images:all",
                                                     "--predictions", path)


def splits(folder):
    """Without split=, --data and eval read the training part, and --val another one; a warning tells of the same files."""
    os.chdir(folder)
    for split in ("train", "test"):
        pictures(f"both/{split}", {name: name for name in CLASSES})
    same = "warning: --val reads the same files as --data"
    default = {"--data": "split=train, by default", "--val": "split=test, by default"}
    for number, (data, val, warned) in enumerate((("both", "both", False), ("both", "both,split=train", True), ("both", "both/train", True),
                                                  ("both", "both,split=test", False), ("both/test", "both,split=test", True))):
        said = begun(f"run{number}", "mlp:16,8,3", f"images:{data},channels=1", "--val", f"images:{val}")
        yield f"--data images:{data} --val images:{val}", wants(
            said, *[f"{option}: {default[option]}" for option, spec in (("--data", data), ("--val", val)) if spec == "both"],
            *([same] if warned else []), lacks="exit status" if warned else same)
    done = run("eval", "--ckpt", "run0", "--data", "images:both")
    yield "eval names the split, too", wants(done.stderr, f"--data: {default['--data']}")


def tables(folder):
    os.chdir(folder)
    table("t.csv", ["a", "b", "c"])
    trained("run", "mlp:2,8,3", "csv:t.csv", "--val", "csv:" + table("val.csv", ["c", "b"]))
    ev = ("eval", "--ckpt", "run", "--data")
    yield "all classes", right("run", "csv:t.csv")
    yield "classes in another order", right("run", "csv:" + table("o.csv", ["c", "b", "a"]))
    yield "some classes", right("run", "csv:" + table("s.csv", ["b", "c"]))
    yield "an unknown class", refused("class 'd' is not in the data trained on, which has 'a', 'b', 'c'", "",
                                      *ev, "csv:" + table("d.csv", ["a", "d"]))
    yield "a renamed class among as many", refused("class 'z' is not in the data trained on", "",
                                                   *ev, "csv:" + table("r.csv", ["z", "b", "c"]))
    yield "numbers for names", refused("classes '0', '1' are not in", "names, but those of the data are only numbers", *ev,
                                       "csv:" + table("n.csv", ["0", "1"]))
    yield "a target of another name", overruled("the target is 'k', but the model was trained on 'class'", "run",
                                                "csv:" + table("k.csv", ["a", "b", "c"], "x,y,k"))
    yield "columns in another order", right("run", "csv:" + table("x.csv", ["a", "b"], "y,x,class", swap=True))
    yield "columns and target among others", right("run", "csv:" + moved("w.csv", "t.csv", ("class", "y", "id", "x", "more")))
    yield "others are named", wants(run(*ev, "csv:w.csv").stderr, "column 'id' and others: ignored")
    yield "other columns", refused("there is no column 'y', but the model", None, *ev, "csv:" + table("z.csv", ["a"], "x,z,class"))
    for setting, why in (("skip=x", "a feature of the training: column 'x' is skipped already"), ("target=x", "a feature of the training: column 'x' is the target already"),
                         ("categories=x", "data option 'categories=x': column 'x' had numbers in the data")):
        yield f"{setting} of a known column", refused(why, None, *ev, "csv:t.csv," + setting)
    yield "two columns of a known name", refused("columns 1 and 2 have the same name, 'x'", "rename", *ev, "csv:" + moved("2.csv", "t.csv", "yxx"))
    moved("years.csv", "t.csv", ("2019", "2020", "class"), ("x", "y", "class"))
    trained("years", "mlp:2,8,3", "csv:years.csv,header=yes")
    yield "a header of numbers is known by its names", right("years", "csv:" + moved("y2.csv", "years.csv", ("class", "2020", "2019")))
    yield "no header", right("run", "csv:" + table("h.csv", ["c", "a"], None))
    with open("wide.csv", "w") as file:
        file.write("1,2,3,a\n")
    yield "more columns", refused("rows of 3 features, but the model was trained on 2", "", *ev, "csv:wide.csv")
    trained("numbers", "mlp:2,8,2", "csv:" + table("m.csv", ["0", "1"]))
    yield "names for numbers", refused("classes 'a', 'b', 'c' are not in", "names, but those of the model are only numbers",
                                       "eval", "--ckpt", "numbers", "--data", "csv:t.csv")
    yield "the highest number may be missing", right("numbers", "csv:" + table("m0.csv", ["0"]))
    yield "a higher one may not", refused("line 3, column 'class': the target '2' is not among the classes", "numbered from 0",
                                          "eval", "--ckpt", "numbers", "--data", "csv:" + table("m2.csv", ["0", "2"]))


def numbers(folder):
    """A regression that goes on with other data: the target's scale belongs to its name."""
    os.chdir(folder)
    draw = random.Random(5)
    with open("t.csv", "w") as file:
        file.write("x,y,price,cost,count,kind\n")
        for _ in range(60):
            x, y = draw.gauss(0, 1), draw.gauss(0, 1)
            file.write(f"{x},{y},{500 + 20 * x + 5 * y},{3 - x},{round(100 + 9 * x)},{'high' if x > 0 else 'low'}\n")
    for target in ("price", "cost", "count", "kind"):
        moved(f"{target}.csv", "t.csv", ("x", "y", target))
    moved("prices.csv", "t.csv", ("x", "y", "price"), ("x", "y", "count"))
    trained("run", "mlp:2,8,1", "csv:price.csv")

    def begin(model, data, *more):
        said = begun("more", model, data, "--init-from", "run", *more)
        with open("more/config.json") as file:
            target = json.load(file)["about"]["data"].get("target", {})
        shutil.rmtree("more")
        return said, target.get("mean", 0)
    said, mean = begin("mlp:2,8,1", "csv:price.csv")
    yield "the same target keeps its scale", wants(said, "the target keeps the mean", lacks="random weights") or (mean < 400 and str(mean))
    said, mean = begin("mlp:2,8,1", "csv:cost.csv", "--val", "csv:price.csv")
    yield "another target has another scale, and a new head", wants(
        said, "the target is 'cost', not 'price' as in the training", "'2.weight' starts with random weights") or (mean > 5 and str(mean))
    yield "--val of another target", wants(said, "--val: the target is 'price', but the model was trained on 'cost'")
    said, mean = begin("mlp:2,8,1", "csv:prices.csv")
    yield "whole numbers go on as numbers", wants(said, "regression, as in the training") or (mean < 400 and str(mean))
    said, mean = begin("mlp:2,8,2", "csv:kind.csv")
    yield "words begin classes", wants(said, "'2.weight' starts with random weights") or (mean and str(mean))
    done = run("eval", "--ckpt", "run", "--data", "csv:count.csv")
    yield "eval of another target", wants(done.stderr, "warning: --data: the target is 'count', but the model was trained on 'price'")
    errors = [json.loads(run("eval", "--ckpt", "run", "--data", data, "--json").stdout)["mse"]
              for data in ("csv:price.csv", "csv:" + moved("p.csv", "t.csv", ("price", "y", "kind", "x")))]
    yield "eval finds columns and target by their names", "" if errors[0] == errors[1] < 40 else str(errors)


if __name__ == "__main__":
    GTRAIN = os.path.abspath(GTRAIN)
    sys.exit(tap.run([images, outside, fine_tuned, answers, splits, tables, numbers], GTRAIN))
