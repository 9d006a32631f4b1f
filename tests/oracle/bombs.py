#!/usr/bin/env python3
"""bombs.py - data that is small on the disk and large in memory is refused, or read, in little memory (TAP)."""
import gzip
import os
import struct
import subprocess
import sys
import tempfile
import zlib

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
MIB = 1 << 20
# Each bomb is of 1600. The address sanitizer takes some hundred by itself, and more for many small pieces.
# Sanitizers keep freed memory, and bytes about each byte.
BOUND_MIB = 2000 if os.environ.get("SANITIZE") else 600
TIMEOUT_S = 60
ZEROS = gzip.compress(bytes(16 * MIB), 1)  # a member of a gzip file; repeated, it makes a file


def write(folder, name, data):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


def sparse(folder, name, size):
    path = write(folder, name, b"")
    os.truncate(path, size)
    return path


TOKENIZERS = [
    ("millions of numbers", b'{"model":[0' + b",0" * (15 * MIB) + b"]}", "15728640 commas, more than 4000000"),
    ("41 MiB", b'{"model":"' + b"x" * (41 * MIB) + b'"}', "bytes, more than 41943040"),
    ("many lists", b'{"model":{"merges":[[]' + b",[]" * 3999990 + b"]}}", "'vocab' must be an object"),
    ("deep lists", b'{"model":' + b"[" * 100000, "not JSON"),
    ("the highest id", b'{"model":{"vocab":{"a":4194303,"b":4194303},"merges":[]}}', "two tokens have the id 4194303"),
]


# ---- idx ----

def idx(folder, dims, values):
    """A folder of MNIST whose images have this header and these compressed values."""
    header = struct.pack(">IIII", 0x803, *dims)
    write(folder, "train-images-idx3-ubyte.gz", gzip.compress(header) + values)
    write(folder, "train-labels-idx1-ubyte", struct.pack(">II", 0x801, dims[0]) + bytes(min(dims[0], 60000)))
    return f"mnist:{folder}"


# ---- tar ----

def tar_header(name, size, kind=b"0"):
    header = bytearray(512)
    header[0:len(name)] = name.encode()
    header[124:136] = b"%011o\0" % size if size < 8 << 30 else b"\x80" + size.to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[156:157] = kind
    header[257:265] = b"ustar\x0000"
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def tar(folder, *parts):
    """A tar.gz of parts: bytes are compressed, a number is so many members of zeros."""
    packed = b"".join(ZEROS * p if isinstance(p, int) else gzip.compress(p) for p in parts)
    return f"images:{write(folder, 'images.tar.gz', packed)}"


def entry(name, data, kind=b"0"):
    return tar_header(name, len(data), kind) + data + bytes(-len(data) % 512)


# ---- images ----

def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*extra):
    """2 x 2 grey pixels, with more chunks."""
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 0, 0, 0, 0))
            + b"".join(extra) + chunk(b"IDAT", zlib.compress(bytes([0, 1, 2, 0, 3, 4]))) + chunk(b"IEND", b""))


def jpeg(height, width, progressive):
    """The header of a JPEG of three channels, and nearly nothing behind it."""
    tables = b"\xff\xdb\0\x43\0" + b"\1" * 64
    for kind in (0x00, 0x10):
        tables += b"\xff\xc4\0\x14" + bytes([kind]) + b"\1" + bytes(15) + b"\0"
    frame = struct.pack(">BHHB", 8, height, width, 3) + b"\1\x11\0\2\x11\0\3\x11\0"
    scan = b"\3\1\0\2\0\3\0" + (b"\0\0\0" if progressive else b"\0\x3f\0")
    return (b"\xff\xd8" + tables + (b"\xff\xc2" if progressive else b"\xff\xc0") + struct.pack(">H", len(frame) + 2)
            + frame + b"\xff\xda" + struct.pack(">H", len(scan) + 2) + scan + bytes(1000) + b"\xff\xd9")


def picture(folder, data, name="1.png"):
    write(folder, f"a/{name}", data)
    return f"images:{folder}"


def labelled(spec):
    """The same archive as a webdataset."""
    return spec.replace("images:", "webdataset:", 1)


TEXT = chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"x" * (4 * MIB)))

# The case; the data; a part of the refusal, or None where it can be read.
CASES = [
    ("an idx file goes on behind the values of its header",
     lambda f: idx(f, (60000, 28, 28), ZEROS * 100), "holds more than the 47040016 bytes that its header promises"),
    ("the header of an idx file promises more than deflate can give",
     lambda f: idx(f, (1 << 31, 4096, 4096), ZEROS), "bytes of values where the header promises 36028797018963968"),
    ("an archive is nothing but zeros",
     lambda f: tar(f, 100), "more than 67108864 bytes follow the end marker"),
    ("zeros follow the end marker of an archive",
     lambda f: tar(f, entry("a/1.png", png()) + bytes(1024), 100), "more than 67108864 bytes follow the end marker"),
    ("a large file that is no image lies among images",
     lambda f: tar(f, tar_header("a/notes.txt", 1600 * MIB), 100, entry("a/1.png", png()) + bytes(1024)), None),
    ("a large file only has an image's name",
     lambda f: tar(f, tar_header("a/1.png", 1600 * MIB), 100, bytes(1024)), "'a/1.png': neither a JPEG, a PNG nor a WebP"),
    ("a large file only has an image's signature",
     lambda f: tar(f, tar_header("a/1.png", 1600 * MIB + 8) + b"\x89PNG\r\n\x1a\n", 100, bytes(1528)),
     "'a/1.png' has 1.56 GiB, more than an image's 256 MiB"),
    ("an archive's header promises more than the archive holds",
     lambda f: tar(f, tar_header("a/1.png", 1 << 40) + b"\x89PNG\r\n\x1a\n"), "the archive is cut short"),
    ("a class's number of a webdataset is a large file",
     lambda f: labelled(tar(f, entry("1.png", png()), tar_header("1.cls", 1600 * MIB), 100)), "'1.cls' has 1677721600 bytes, more than a class's 32"),
    ("headers follow headers in an archive",
     lambda f: tar(f, entry("x", b"10 path=a\n", b"x") * 100000), "more than 16 headers for one file"),
    ("a PNG has hundreds of compressed texts", lambda f: picture(f, png(*[TEXT] * 400)), None),
    ("a JPEG of 64 million pixels in a thousand bytes",
     lambda f: picture(f, jpeg(8000, 8000, False), "1.jpg"), "8000 x 8000 pixels cannot come out of"),
    ("a progressive JPEG of the same",
     lambda f: picture(f, jpeg(8000, 8000, True), "1.jpg"), "8000 x 8000 pixels cannot come out of"),
    ("a JPEG of 65500 x 65500 pixels",
     lambda f: picture(f, jpeg(65500, 65500, False), "1.jpg"), "an image of 65500 x 65500 pixels"),
    ("a table is a hole of a terabyte", lambda f: f"csv:{sparse(f, 'x.csv', 1 << 40)}", "line 1 has a zero byte"),
    ("a table is one long line",
     lambda f: f"csv:{write(f, 'x.csv', b'x' * 65 * MIB)}", "line 1: a row of more than 67108864 bytes"),
    ("a table has millions of columns",
     lambda f: f"csv:{write(f, 'x.csv', b',' * 20 * MIB)}", "line 1: a row of more than 1048576 fields"),
    ("a text is a hole of a terabyte", lambda f: f"text:{sparse(f, 'x.txt', 1 << 40)}", "the text takes 256 GiB of memory"),
]


def measure(arguments):
    """Exit status, standard error and the most memory that the program had, in MiB."""
    with tempfile.TemporaryFile() as err:
        child = subprocess.Popen([GTRAIN, *arguments], stdout=subprocess.DEVNULL, stderr=err)
        timer = subprocess.Popen(["sh", "-c", f"sleep {TIMEOUT_S}; kill -9 {child.pid}"],
                                 start_new_session=True, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        os.killpg(timer.pid, 9)
        timer.wait()
        err.seek(0)
        return child.returncode, err.read().decode(), usage.ru_maxrss / 1024


def judge(arguments, refusal):
    status, err, mib = measure(arguments)
    lines = [line for line in err.splitlines() if not line.startswith("hint: ")]
    if status != (1 if refusal else 0):
        return f"exit status {status}: {err}"
    if refusal and (len(lines) != 1 or refusal not in lines[0]):
        return f"said {err!r}, not {refusal!r}"
    return f"{mib:.0f} MiB of memory" if mib > BOUND_MIB else None


def check_data(make, refusal):
    with tempfile.TemporaryDirectory() as folder:
        data = make(os.path.join(folder, "data"))
        model = "gpt:layers=1,width=8,heads=1,block=8" if data.startswith("text") else "mlp:4,4,1"
        if data.startswith(("images", "webdataset")):
            data += ",size=2,channels=1"
        return judge(["train", "-q", "--model", model, "--data", data, "--steps", "1", "--batch", "1",
                      "--out", os.path.join(folder, "run")], refusal)


def check_vocab():
    with tempfile.TemporaryDirectory() as folder:
        text = write(folder, "x.txt", b"some text that is long enough")
        vocab = write(folder, "vocab.json", b"[0" + b",0" * (20 * MIB) + b"]")
        return judge(["eval", "--ckpt", text, "--model", "gpt:layers=1,width=8,heads=1,block=8",
                      "--data", f"text:{text}", "--vocab", vocab], "41943043 bytes, more than 33554432")


def check_tokenizer(text, refusal):
    with tempfile.TemporaryDirectory() as folder:
        data = write(folder, "x.txt", b"some text that is long enough")
        tokenizer = write(folder, "tokenizer.json", text)
        return judge(["train", "--model", "gpt:layers=1,width=8,heads=1,block=8", "--data", f"text:{data},tokenizer={tokenizer}", "--steps", "1",
                      "--out", os.path.join(folder, "run")], refusal)


def main():
    cases = [(name, lambda m=make, r=refusal: check_data(m, r)) for name, make, refusal in CASES]
    if "thread" in os.environ.get("SANITIZE", ""):  # that sanitizer has no room for such an address
        cases = [case for case in cases if "terabyte" not in case[0]]
    cases.append(("a vocabulary of millions of numbers", check_vocab))
    cases += [(f"a tokenizer of {what}", lambda t=text, r=refusal: check_tokenizer(t, r)) for what, text, refusal in TOKENIZERS]
    failed = 0
    print(f"1..{len(cases)}")
    for number, (name, check) in enumerate(cases, 1):
        wrong = check()
        failed += wrong is not None
        print(f"{'not ' if wrong else ''}ok {number} - {name}" + (f"\n# {wrong}" if wrong else ""), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
