"""small_files.py - small inputs of every kind that gtrain reads, made without PyTorch."""
import gzip
import io
import json
import os
import pickle
import random
import re
import struct
import subprocess
import tarfile
import zipfile
import zlib

GPT = "gpt:layers=1,width=8,heads=1,block=8"
TEXT = "the quick brown fox jumps over the lazy dog.\n" * 12
SIDE = 8

# A key of ECDSA with the curve P-256, for tests alone.
KEY = """-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIOExPnYRHhCouvvpSlV+pcpsq7WY+G+W6pXBliSPXHwMoAoGCCqGSM49
AwEHoUQDQgAEM3Gem3H20advlG59TT35Mhh6OJIsc5BVVUFUAqcVyUxX7EqMmkwi
mlQwxkYHUInYhm4iMGnL+nFnaCVtxaqC0A==
-----END EC PRIVATE KEY-----
"""
PUBLIC_KEY = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEM3Gem3H20advlG59TT35Mhh6OJIs
c5BVVUFUAqcVyUxX7EqMmkwimlQwxkYHUInYhm4iMGnL+nFnaCVtxaqC0A==
-----END PUBLIC KEY-----
"""


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rng, side=SIDE):
    rows = b"".join(b"\0" + rng.randbytes(3 * side) for _ in range(side))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def jpeg(rng, side=SIDE):
    """b"" where no library that writes it is installed."""
    try:
        from PIL import Image
    except ImportError:
        return b""
    f = io.BytesIO()
    Image.frombytes("RGB", (side, side), rng.randbytes(3 * side * side)).save(f, "JPEG")
    return f.getvalue()


def labelled(folder):
    """The images of images() as a webdataset: KEY.png or .jpg, and KEY.cls."""
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode="w") as tar:
        for number, label in enumerate(("a", "b")):
            for name in sorted(os.listdir(f"{folder}/{label}")):
                key, ending = os.path.splitext(name)
                with open(f"{folder}/{label}/{name}", "rb") as g:
                    parts = {ending: g.read(), ".cls": b"%d" % number}
                for ending, data in parts.items():
                    info = tarfile.TarInfo(f"{label}{key}{ending}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return f.getvalue()


def idx(magic, shape, rng, top):
    head = struct.pack(">I", magic) + b"".join(struct.pack(">I", n) for n in shape)
    count = 1
    for n in shape:
        count *= n
    return head + bytes(rng.randrange(top) for _ in range(count))


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def images(folder, rng):
    for label in ("a", "b"):
        for i in range(4):
            made = jpeg(rng) if i == 3 else b""
            write(f"{folder}/{label}/{i}.{'jpg' if made else 'png'}", made or png(rng))


def packed(folder, mode):
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode=mode) as tar:
        for where, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                path = os.path.join(where, name)
                info = tar.gettarinfo(path, os.path.join("images", os.path.relpath(path, folder)))
                info.mtime = info.uid = info.gid = 0
                info.uname = info.gname = ""
                with open(path, "rb") as g:
                    tar.addfile(info, g)
    return f.getvalue()


def mnist(folder, rng, ending=""):
    for part, count in (("train", 12), ("t10k", 4)):
        for name, magic, shape, top in (("images-idx3", 0x803, (count, SIDE, SIDE), 256), ("labels-idx1", 0x801, (count,), 10)):
            data = idx(magic, shape, rng, top)
            write(f"{folder}/{part}-{name}-ubyte{ending}", gzip.compress(data, mtime=0) if ending else data)


def tokenizer():
    """A tokenizer.json of GPT-2's kind: its letters for bytes, and some merges."""
    plain = [b for b in range(256) if 0x21 <= b <= 0x7e or (0xa1 <= b and b != 0xad)]
    others = [b for b in range(256) if b not in plain]
    letters = [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]
    merges = ["t h", "th e", "\u0120 the", "o w", "q u", "qu i"]
    vocab = letters + [m.replace(" ", "") for m in merges]
    return json.dumps({"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
                       "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(vocab)}, "merges": merges}})


def npy(kind, shape, data):
    """An array of numpy's in its file: kind "<f4", "|u1"."""
    head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + data


def npz(arrays):
    f = io.BytesIO()
    with zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy"), array)
    return f.getvalue()


def named(module, name):
    """What pickle writes by its name."""
    return type(name, (), {"__module__": module})


class Array:
    """Pickled as numpy pickles an array of uint8."""
    def __init__(self, shape, data):
        self.shape, self.data = shape, data

    def __reduce_ex__(self, protocol):
        return named("numpy.core.multiarray", "_reconstruct"), (named("numpy", "ndarray"), (0,), b"b"), (1, self.shape, Dtype(), False, self.data)


class Dtype:
    def __reduce_ex__(self, protocol):
        return named("numpy", "dtype"), ("u1", False, True), (3, "|", None, None, None, -1, -1, 0)


class Pickler(pickle._Pickler):
    """Writes classes by their names without importing them."""
    def save_type(self, obj):
        if obj in (Array, Dtype) or not obj.__module__.startswith("numpy"):
            return super().save_type(obj)
        self.write(b"c" + f"{obj.__module__}\n{obj.__name__}\n".encode())

    dispatch = {**pickle._Pickler.dispatch, type: save_type}


def cifar10(folder, rng, count=4):
    """The Python version of CIFAR-10."""
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        f = io.BytesIO()
        Pickler(f, 2).dump({"labels": [rng.randrange(10) for _ in range(count)], "data": Array((count, 3072), rng.randbytes(3072 * count))})
        write(f"{folder}/{name}", f.getvalue())


def make_data(folder, seed=1):
    """text.txt, texts/, rows.jsonl, chat.jsonl, chat.jinja, tok/, table.csv, mnist/, mnist.gz/, images/, images.tar, images.tar.gz, labelled.tar, x.npy, y.npy, xy.npz, cifar10/."""
    rng = random.Random(seed)
    write(f"{folder}/text.txt", TEXT)
    write(f"{folder}/tok/tokenizer.json", tokenizer())
    write(f"{folder}/rows.jsonl", "".join(json.dumps({"text": line}) + "\n" for line in TEXT.splitlines()))
    write(f"{folder}/chat.jsonl", "".join(json.dumps({"messages": [{"role": "user", "content": "%d" % i}, {"role": "assistant", "content": "the dog"}]}) + "\n"
                                          for i in range(8)))
    write(f"{folder}/chat.jinja", "{% for m in messages %}{{ m.role[0] }}{{ m.content }}{% endfor %}{% if add_generation_prompt %}a{% endif %}")
    write(f"{folder}/texts/a.txt", TEXT)
    write(f"{folder}/texts/b.txt", TEXT)
    write(f"{folder}/table.csv", "a,b,c,class\n" + "".join(
        ",".join("%.3f" % rng.uniform(-1, 1) for _ in range(3)) + ",%s\n" % rng.choice(("x", "y")) for _ in range(24)))
    mnist(f"{folder}/mnist", rng)
    mnist(f"{folder}/mnist.gz", rng, ".gz")
    images(f"{folder}/images", rng)
    write(f"{folder}/images.tar", packed(f"{folder}/images", "w"))
    write(f"{folder}/images.tar.gz", gzip.compress(packed(f"{folder}/images", "w"), mtime=0))
    write(f"{folder}/labelled.tar", labelled(f"{folder}/images"))
    write(f"{folder}/names.txt", "a\nb\n")
    x = npy("<f4", (24, 3), struct.pack("<72f", *(rng.uniform(-1, 1) for _ in range(72))))
    y = npy("|u1", (24,), bytes(rng.randrange(3) for _ in range(24)))
    write(f"{folder}/x.npy", x)
    write(f"{folder}/y.npy", y)
    write(f"{folder}/xy.npz", npz({"x": x, "y": y}))
    cifar10(f"{folder}/cifar10", rng)


DATA = {  # what --data is given, by the name of what it reads
    "text": "text:text.txt", "texts": "text:texts", "jsonl": "jsonl:rows.jsonl,level=byte",
    "chat": "chat:chat.jsonl,tokenizer=tok,template=chat.jinja", "csv": "csv:table.csv", "mnist": "mnist:mnist", "mnist.gz": "mnist:mnist.gz",
    "images": "images:images,size=8", "tar": "images:images.tar,size=8", "tar.gz": "images:images.tar.gz,size=8",
    "webdataset": "webdataset:labelled.tar,size=8,classes=names.txt",
    "npy": "npy:x.npy,target=y.npy", "npz": "npz:xy.npz", "cifar10": "cifar10:cifar10",
}


def model_for(data):
    return GPT if data.startswith(("text", "jsonl", "chat")) else "mlp"


def train(gtrain, folder, out, data="text:text.txt", *more, steps=3, env=None):
    """A run directory with a checkpoint per step; the same bytes each time, so measured times are replaced."""
    done = subprocess.run([gtrain, "train", "--model", model_for(data), "--data", data, "--steps", str(steps), "--save-every", "1",
                           "--keep", "0", "--batch", "4", "--threads", "1", "--workers", "1", "-q", "--out", out, *more],
                          cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"cannot train for the test: {done.stderr}")
    with open(f"{folder}/{out}/metrics.jsonl", "r+") as f:
        text = re.sub(r'("(?:time_s|samples_per_s|data_wait|[a-z_]*(?:time|per_s)[a-z_]*|memory_bytes)": *)[0-9.eE+-]+', r"\g<1>1.5", f.read())
        f.seek(0)
        f.truncate()
        f.write(text)
    with open(f"{folder}/{out}/status.json", "r+") as f:
        text = re.sub(r'("(?:pid|started|ended)": )[0-9.]+', r"\g<1>1", f.read())
        f.seek(0)
        f.truncate()
        f.write(text)
