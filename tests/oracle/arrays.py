#!/usr/bin/env python3
"""arrays.py - numpy's files and pickles as data sets: npy, npz, and the Python version of cifar10, sample by sample (TAP)."""
import json
import os
import pickle
import struct
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("1..0 # SKIP python has no numpy")
    sys.exit(0)

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
DUMP = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "data_dump")
IMAGE, VECTOR = 0, 1  # enum gt_sample_kind
N = 37


def dump(spec):
    """(kind, samples, height, width, channels, features, classes), bytes of all samples; or the error as a string."""
    out = subprocess.run([DUMP, spec], capture_output=True)
    lines = out.stderr.decode().splitlines()
    if out.returncode:
        return " | ".join(line for line in lines if line.startswith(("error", "hint"))), b""
    numbers = [int(word) for word in lines[0].split()]
    return tuple(numbers[:6] + numbers[7:]), out.stdout


def samples(inputs, targets):
    return b"".join(np.ascontiguousarray(x).tobytes() + np.ascontiguousarray(y).tobytes() for x, y in zip(inputs, targets))


def judge(spec, shape, inputs, targets):
    got, data = dump(spec)
    if got != shape:
        return f"{got}, not {shape}"
    return "" if data == samples(inputs, targets) else "other samples"


def features(folder):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(N, 300)), rng.integers(0, 5, N)
    y[0] = 4
    kinds = {"float64": x, "float32": x.astype("f4"), "float16": x.astype("f2"), "big-endian float32": x.astype(">f4"),
             "int8": (x * 20).astype("i1"), "int16": (x * 2000).astype("i2"), "uint32": (abs(x) * 2000).astype("u4"), "int64": (x * 20).astype("i8"),
             "bool": x > 0, "Fortran's order": np.asfortranarray(x)}
    for name, values in kinds.items():
        np.savez(f"{folder}/a.npz", x=values, y=y)
        yield f"npz: features of {name}", judge(f"npz:{folder}/a.npz", (VECTOR, N, 0, 0, 0, 300, 5), values.astype("f4"), y.astype("i4"))
    for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "bool"):
        z, task = y.astype(name), ",task=classification"
        np.save(f"{folder}/x.npy", x)
        np.save(f"{folder}/y.npy", z.reshape(N, 1) if name == "i2" else z)
        yield f"npy: classes of {name}", judge(f"npy:{folder}/x.npy,target={folder}/y.npy{task}", (VECTOR, N, 0, 0, 0, 300, int(z.max()) + 1),
                                               x.astype("f4"), z.astype("i4"))
    np.savez_compressed(f"{folder}/b.npz", inputs=x[:, 0], targets=x[:, 1])
    np.savez(f"{folder}/n.npz", names=np.array(["neg", "pos"]), x=x, y=y, what=np.array([None]))
    yield "npz: arrays of strings and objects beside them", judge(f"npz:{folder}/n.npz", (VECTOR, N, 0, 0, 0, 300, 5), x.astype("f4"), y.astype("i4"))
    yield "npz: regression, one feature, deflated", judge(f"npz:{folder}/b.npz", (VECTOR, N, 0, 0, 0, 1, 1), x[:, :1].astype("f4"), x[:, 1].astype("f4"))


def images(folder):
    rng = np.random.default_rng(4)
    x, y = rng.integers(0, 256, (N, 5, 7, 3), dtype=np.uint8), np.arange(N) % 10
    first = x.transpose(0, 3, 1, 2)
    shape = (IMAGE, N, 5, 7, 3, 0, 10)
    both = rng.integers(0, 256, (N, 3, 6, 4), dtype=np.uint8)  # three channels first, or four last
    np.savez(f"{folder}/i.npz", x_train=x, y_train=y, x_test=first.copy(), y_test=y, train_images=x[:2], train_labels=y[:2], both=both, y=y)
    np.savez(f"{folder}/g.npz", X=x[..., 0], y=y)
    yield "npz: images, channels last", judge(f"npz:{folder}/i.npz", shape, x, y.astype("i4"))
    yield "npz: channels first, another split", judge(f"npz:{folder}/i.npz,split=test,mean=0.5", shape, x, y.astype("i4"))
    np.savez(f"{folder}/v.npz", x_train=x, y_train=y, x_test=x[:3], y_test=y[:3])
    gtrain = os.environ.get("GTRAIN", "build/gtrain")
    ran = subprocess.run([gtrain, "train", "--model", "mlp:105,10", "--data", f"npz:{folder}/v.npz", "--val", f"npz:{folder}/v.npz",
                          "--steps", "1", "--out", f"{folder}/run"], capture_output=True, text=True)
    yield "npz: --val reads another part", "" if "--val: inputs are 'x_test'" in ran.stderr and "same files" not in ran.stderr else ran.stderr
    yield "npz: grey images", judge(f"npz:{folder}/g.npz", (IMAGE, N, 5, 7, 1, 0, 10), x[..., 0], y.astype("i4"))
    named = f"npz:{folder}/i.npz,input=both,target=y"
    yield "npz: named arrays, layout=hwc", judge(f"{named},layout=hwc", (IMAGE, N, 3, 6, 4, 0, 10), both, y.astype("i4"))
    yield "npz: named arrays, layout=chw", judge(f"{named},layout=chw", (IMAGE, N, 6, 4, 3, 0, 10), both.transpose(0, 2, 3, 1), y.astype("i4"))
    got = dump(named)[0]
    yield "npz: a layout that may be either is asked for", "" if "[37, 3, 6, 4] has its channels first or last | hint: say which" in got else got


def python2(folder, name, data, labels):
    """A batch as Python 2 pickled it, protocol 2: text is bytes (SHORT_BINSTRING, BINSTRING)."""
    def text(s):
        return b"U" + bytes([len(s)]) + s
    array = (b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R(K\x01" + b"".join(b"M" + struct.pack("<H", n) for n in data.shape) +
             b"\x86cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89" +
             b"T" + struct.pack("<I", data.nbytes) + data.tobytes() + b"tb")
    body = b"}(" + text(b"data") + array + text(b"labels") + b"](" + b"".join(b"K" + bytes([n]) for n in labels) + b"eu."
    with open(f"{folder}/{name}", "wb") as f:
        f.write(b"\x80\x02" + body)
    with open(f"{folder}/{name}", "rb") as f:
        back = pickle.load(f, encoding="bytes")  # Python has the same opinion
    assert (back[b"data"] == data).all() and back[b"labels"] == list(labels)


def cifar10(folder):
    rng, splits = np.random.default_rng(5), {"train": range(5), "test": range(5, 6)}
    data, labels = rng.integers(0, 256, (6, N, 3072), dtype=np.uint8), rng.integers(0, 10, (6, N)).tolist()
    files = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    meta = {"label_names": list("abcdefghij"), "num_vis": 3072}

    def check(split):
        x = np.concatenate([data[i] for i in splits[split]]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        y = np.concatenate([labels[i] for i in splits[split]])
        return judge(f"cifar10:{folder},split={split}", (IMAGE, len(y), 32, 32, 3, 0, 10), x, y.astype("i4"))

    def write(i, protocol, keys=str, **other):
        entries = {"batch_label": "a batch", "labels": labels[i], "data": data[i], **other}
        with open(f"{folder}/{files[i]}", "wb") as f:
            pickle.dump({keys(k): v for k, v in entries.items()}, f, protocol)

    for i, name in enumerate(files):
        python2(folder, name, data[i], labels[i])
    yield "cifar10: pickles of Python 2", check("train") or check("test")
    for protocol in range(6):
        for i in range(6):
            write(i, protocol, str if protocol % 2 else str.encode)
        with open(f"{folder}/batches.meta", "wb") as f:
            pickle.dump(meta, f, protocol)
        yield f"cifar10: pickles of protocol {protocol}", check("train") or check("test")
        with open(f"{folder}/batches.meta", "wb") as f:  # as pickle.load(encoding="bytes") gives it
            pickle.dump({k.encode(): [n.encode() for n in v] if isinstance(v, list) else v for k, v in meta.items()}, f, protocol)
        for i, dtype in enumerate(("i8", "u1", ">i4", "i2", "u8", "i8")):
            write(i, protocol, str.encode, labels=np.array(labels[i], dtype))
        yield f"cifar10: names of bytes, labels in arrays, protocol {protocol}", check("train") or check("test")
    subprocess.run([GTRAIN, "train", "--model", "mlp:3072,10", "--data", f"cifar10:{folder}", "--steps", "1", "--out", f"{folder}/run", "-q"], check=True)
    with open(f"{folder}/run/config.json") as f:
        names = json.load(f)["about"]["data"]["class-names"]
    yield "cifar10: a run keeps names that are bytes", "" if names == meta["label_names"] else str(names)
    wrong = [("other labels", dict(labels=[10] * N), "label 0 is not in 0..9"), ("too few labels", dict(labels=[1]), "'labels' is no list or array of 37"),
             ("an array of other labels", dict(labels=np.array([1] * 9 + [-1] * (N - 9))), "label 9 is not in 0..9"),
             ("an array of too few labels", dict(labels=np.arange(9)), "'labels' is no list or array of 37"),
             ("rows of labels", dict(labels=np.zeros((N, 1), int)), "'labels' is no list or array of 37"),
             ("labels with fractions", dict(labels=np.zeros(N)), "test_batch': 'labels': cannot read a tensor of float64 as int64"),
             ("a label of 2^64-1", dict(labels=np.full(N, 2**64 - 1, np.uint64)), "test_batch': 'labels': the value 18446744073709551615 does not fit int64"),
             ("no labels", dict(labels=None), "'labels' is no list or array of 37"), ("floats", dict(data=data[5] / 2), "'data' is no array of uint8"),
             ("other rows", dict(data=data[5][:, :5]), "'data' is no array of uint8"), ("a list", dict(data=[1]), "'data' is no array of uint8"),
             ("no samples", dict(data=data[5][:0], labels=[]), "'data' is no array of uint8")]
    for name, other, message in wrong:
        write(5, 2, **other)
        got = dump(f"cifar10:{folder},split=test")[0]
        yield f"cifar10: {name}", "" if message in got else got
    with open(f"{folder}/ran", "wb"):
        pass

    class Attack:
        def __reduce__(self):
            return os.unlink, (f"{folder}/ran",)
    write(5, 2, data=Attack())
    got = dump(f"cifar10:{folder},split=test")[0]
    yield "cifar10: a pickle that would run code is not run", "" if "'data' is no array" in got and os.path.exists(f"{folder}/ran") else got
    write(5, 2)
    with open(f"{folder}/test_batch", "r+b") as f:
        f.truncate(1000)
    got = dump(f"cifar10:{folder},split=test")[0]
    yield "cifar10: a cut pickle", "" if "pickle: " in got else got
    with open(f"{folder}/batches.meta", "wb") as f:
        pickle.dump({"label_names": ["a"]}, f)
    got = dump(f"cifar10:{folder}")[0]
    yield "cifar10: too few names", "" if "'label_names' is no list of 10" in got else got


def errors(folder):
    x, y = np.ones((N, 4)), np.arange(N) % 3

    def save(**arrays):
        np.savez(f"{folder}/e.npz", **arrays)
        return f"npz:{folder}/e.npz"
    bad, late = x.copy(), y.astype("f4")
    bad[5, 2], late[3] = np.nan, np.inf
    np.save(f"{folder}/x.npy", x)
    table = [
        ("no known pair", lambda: save(a=x, b=y), "no pair of known names among the arrays 'a', 'b' | hint: name them: npz:"),
        ("a split that is missing", lambda: save(x_train=x, y_train=y) + ",split=test", "no pair of known names"),
        ("a name that is missing", lambda: save(x=x, y=y) + ",input=x,target=z", "there is no 'z' among the arrays 'x', 'y'"),
        ("one name", lambda: save(x=x, y=y) + ",input=x", "input= and target= go together"),
        ("another number of targets", lambda: save(x=x, y=y[:5]), "37 inputs in 'x', but 5 targets in 'y'"),
        ("one-hot rows", lambda: save(x=x, y=np.eye(3)[y]), "has more than one target for a sample | hint: task=labels reads several labels of 0 or 1; of one-hot rows y"),
        ("a class below 0", lambda: save(x=x, y=y - 1), "'y': target 0 is -1, which is no class"),
        ("a class that is no whole number", lambda: save(x=x, y=y + 0.5) + ",task=classification", "target 0 is 0.5, which is no class"),
        ("too many classes", lambda: save(x=x, y=y + 2**20), "target 0 is 1.04858e+06, which is no class"),
        ("words", lambda: save(x=x, y=np.array(["a"] * N)), "array 'y'"),
        ("complex features", lambda: save(x=x * 1j, y=y), "array 'x' of complex128 [37, 4] has no numbers that can be features"),
        ("images of floats", lambda: save(x=np.ones((N, 5, 5)), y=y), "is no array of images, which are uint8 | hint: for pixels of 0 to 1"),
        ("five dimensions", lambda: save(x=np.ones((N, 1, 1, 1, 1)), y=y), "has no samples of 1 to 3 dimensions"),
        ("no samples", lambda: save(x=x[:0], y=y[:0]), "has no samples"),
        ("no features", lambda: save(x=x[:, :0], y=y), "has no features, or too many"),
        ("a scalar", lambda: save(x=1.0, y=y), "has no samples of 1 to 3 dimensions"),
        ("no channels", lambda: save(x=np.ones((N, 9, 9, 9), "u1"), y=y), "has no dimension of 1 to 4 channels there"),
        ("a feature that is NaN", lambda: save(x=bad, y=y), "'x': sample 5: feature 2 is nan"),
        ("a target that is infinite", lambda: save(x=x, y=late), "'y': target 3 is inf"),
        ("npy without targets", lambda: f"npy:{folder}/x.npy", "data 'npy' have no targets | hint: write npy:X.npy,target=Y.npy"),
        ("a layout of features", lambda: save(x=x, y=y) + ",layout=hwc", "layout= is for images with channels, which 'x' has not"),
        ("a mean of features", lambda: save(x=x, y=y) + ",mean=1", "mean= and std= are for images, which 'x' has not"),
        ("npz as npy", lambda: "npy:" + save(x=x, y=y)[4:] + f",target={folder}/x.npy", "not an .npy file, but npz | hint: write npz:"),
        ("npy as npz", lambda: f"npz:{folder}/x.npy", "not an .npz file, but npy"),
    ]
    for name, make, message in table:
        got = dump(make())[0]
        yield f"error: {name}", "" if message in got else str(got)


def gtrain(*arguments):
    done = subprocess.run([GTRAIN, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def tables(folder):
    """Arrays and tables of the same numbers are the same data, whichever of them a model was trained on."""
    rng = np.random.default_rng(6)
    x = (rng.normal(size=(60, 4)) * [1, 10, 100, 1000] + [0, 5, 50, -500]).astype("f4")
    targets = {"classification": rng.integers(0, 3, 60), "regression": (x.sum(1) * 3 + 7).astype("f4")}
    for task, y in targets.items():
        np.savez(f"{folder}/{task}.npz", x=x, y=y)
        with open(f"{folder}/{task}.csv", "w") as f:
            f.writelines(",".join(repr(float(v)) for v in row) + f",{target}\n" for row, target in zip(x, y))
        kinds = [f"csv:{folder}/{task}.csv", f"npz:{folder}/{task}.npz"]
        for on, other in (kinds, kinds[::-1]):
            out = f"{folder}/{task}-{on[:3]}"
            gtrain("train", "-q", "--model", "mlp", "--data", on, "--steps", "30", "--batch", "20", "--lr", "1e-3", "--out", out)
            same, cross = (json.loads(gtrain("eval", "--json", "--ckpt", out, "--data", data)) for data in (on, other))
            keys = [key for key in same if key not in ("data", "seconds", "samples_per_s", "data_wait", "time_s") and "per_s" not in key]
            differ = [key for key in keys if isinstance(same[key], (int, float)) and abs(same[key] - cross[key]) > 1e-6 * max(1, abs(same[key]))]
            yield f"{task}: trained on {on[:3]}, evaluated on {other[:3]}", f"{same} {cross}" if differ or "loss" not in keys else ""
    np.savez(f"{folder}/whole.npz", x=x, y=np.arange(60))
    gtrain("train", "-q", "--model", "mlp:4,256,1", "--data", f"npz:{folder}/whole.npz", "--steps", "1", "--init-from", f"{folder}/regression-npz",
           "--out", f"{folder}/whole")
    same = gtrain("eval", "--json", "--ckpt", f"{folder}/whole", "--data", f"npz:{folder}/whole.npz")
    yield "regression: goes on with integers", "" if "mse" in json.loads(same) else same
    with open(f"{folder}/words.csv", "w") as f:
        f.writelines(f"{i % 7},{'ab'[i % 2]},{i % 3}\n" for i in range(30))
    gtrain("train", "-q", "--model", "mlp", "--data", f"csv:{folder}/words.csv", "--steps", "2", "--batch", "10", "--out", f"{folder}/words")
    np.savez(f"{folder}/words.npz", x=np.zeros((5, 3)), y=np.zeros(5, "i4"))
    done = subprocess.run([GTRAIN, "eval", "--ckpt", f"{folder}/words", "--data", f"npz:{folder}/words.npz"], capture_output=True, text=True)
    yield "a table with words is no array", "" if done.returncode == 2 and "a table with words in column 1" in done.stderr else done.stderr


def targets(folder):
    """Integers that are hardly meant as classes, when a model is to be trained on them."""
    i = np.arange(300)
    x, images = np.random.default_rng(7).normal(size=(300, 4)), np.zeros((300, 8, 8), "u1")
    prices, codes = 5000 + i * 37 % 250 * 100, np.array([10, 250, 3000])[i % 3]
    table = [
        ("prices", "mlp", {"x": x, "y": prices}, 0, "inputs are 'x', targets 'y'; the target has 250 different whole numbers, from 5000 to 29900, in 300 samples: "
         "regression, as with task=regression"),
        ("codes", "mlp", {"x": x, "y": codes}, 1, "y: 3 different whole numbers from 10 to 3000 are too far apart"),
        ("one value", "mlp", {"x": x, "y": i * 0 + 3}, 1, "'y': all targets are 3"),
        ("one number", "mlp", {"x": x, "y": i * 0 + 3.5}, 1, "'y': all targets are 3.5"),
        ("classes", "mlp", {"x": x, "y": i % 30}, 0, "mlp, 8990 parameters"),
        ("images with gaps between the classes", "mlp", {"x": images, "y": codes}, 0, "warning: --data: only 3 of 3001 classes have images"),
        ("images of many classes", "mlp", {"x": images, "y": i}, 0, "inputs are 'x', targets 'y'\n"),
    ]
    for name, model, arrays, status, message in table:
        np.savez(f"{folder}/t.npz", **arrays)
        done = subprocess.run([GTRAIN, "train", "--dry-run", "--model", model, "--data", f"npz:{folder}/t.npz"],
                              capture_output=True, text=True)
        said = done.stdout + done.stderr
        yield f"targets: {name}", "" if done.returncode == status and message in said else f"status {done.returncode}: {said}"


if __name__ == "__main__":
    sys.exit(tap.run((features, images, cifar10, errors, tables, targets), DUMP, sys.argv[1:]))
