#!/usr/bin/python3
# corpus.py - small seeds for the fuzz targets: corpus.py FOLDER writes them, corpus.py --replay runs them as tests.
import base64
import collections
import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib

try:
    import numpy
    import torch
except ImportError:
    torch = None

try:
    from PIL import Image
except ImportError:
    Image = None

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import attacks  # noqa: E402
from attack_files import gguf  # noqa: E402
import chat_templates  # noqa: E402
import onnx_made  # noqa: E402
import small_files  # noqa: E402
if torch:
    import dcp_folder  # noqa: E402
    import exported  # noqa: E402

ATTACK_BYTES = 4096

warnings.filterwarnings("ignore")


# ---- pickles ----

class Thing:
    """What is pickled as an object with a state; no reader may want its class."""

    def __init__(self, *args, **kwargs):
        self.state = [args, kwargs]


class WithArguments(Thing):
    def __getnewargs_ex__(self):
        return (1, "two"), {"three": 3}


def python_values():
    loop = []
    loop.append(loop)
    same = "twice"
    yield "scalars", [None, True, False, 0, 1, 255, 256, 65536, -1, 2**31, -2**63, 2**63, 2**200, 1.5, float("nan")]
    yield "text", ["", "a", "key\u00e9\u4e2d\U0001f600", "x" * 300, b"", b"bytes", b"\0\xff", bytearray(b"array")]
    yield "containers", {"a": [1, (2, (3, 4), (5, 6, 7), (1, 2, 3, 4, 5))], 7: {}, (1,): set([1]), "f": frozenset([2])}
    yield "ordered", collections.OrderedDict([("module.w", 1), ("module.b", 2)])
    yield "defaultdict", collections.defaultdict(list, a=[1])
    yield "loop", loop
    yield "shared", {same: same, "list": [same, same]}
    yield "object", Thing(1, key="value")
    yield "newobj_ex", WithArguments()
    yield "class", [Thing, len, collections.OrderedDict]
    yield "many", {"k%d" % i: i for i in range(60)}


HAND_MADE = {
    "global": b"cos\nsystem\n(X\4\0\0\0truetR.",
    "inst": b"(S'text'\nios\nsystem\n.",
    "obj": b"(cos\nsystem\nX\4\0\0\0trueo.",
    "stack_global": b"\x80\4\x8c\2os\x94\x8c\6system\x94\x93\x8c\4true\x85R.",
    "build": b"\x80\2ccollections\nOrderedDict\n)R}X\1\0\0\0aK\1sb.",
    "ext": b"\x82\1\x83\1\0\x84\1\0\0\0.",
    "persid": b"Pid\n.",
    "buffer": b"\x80\5\x97\x98.",
    "frame": b"\x80\4\x95\3\0\0\0\0\0\0\0]\x94.",
    "dup": b"]2a0N.",
    "pop_mark": b"(NN1N.",
    "long4": b"\x8b\3\0\0\0\1\2\3.",
    "unicode8": b"\x8d\1\0\0\0\0\0\0\0a.",
    "binbytes8": b"\x8e\1\0\0\0\0\0\0\0a.",
    "text": b"(I1\nI01\nL5L\nF1.5\nS'a'\nVb\ng0\nt.",
    "storage": b"\x80\2ctorch._utils\n_rebuild_tensor_v2\n((U\7storagectorch\nFloatStorage\nU\0010U\3cpuK\4tQK\0K\2K\2"
               b"\x86K\2K\1\x86\x89ccollections\nOrderedDict\n)RtR.",
}


def pickles():
    for name, value in python_values():
        for protocol in range(6):
            yield "%s-%d" % (name, protocol), pickle.dumps(value, protocol)
    yield from HAND_MADE.items()
    if torch:
        for name, value in torch_values():
            with zipfile.ZipFile(io.BytesIO(torch_file(value))) as z:
                yield "torch-" + name, next(z.read(n) for n in z.namelist() if n.endswith("/data.pkl"))


# ---- torch files ----

def torch_values():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    adam = torch.optim.Adam(net.parameters())
    net(torch.ones(4, 2)).sum().backward()
    adam.step()
    base = torch.arange(12.0)
    yield "state", net.state_dict()
    yield "wrapped", {"state_dict": collections.OrderedDict(("module." + k, v) for k, v in net.state_dict().items())}
    yield "training", {"model": net.state_dict(), "optimizer": adam.state_dict(), "epoch": 3, "best": 0.5}
    yield "model", net
    yield "parallel", torch.nn.DataParallel(net)
    yield "parameter", torch.nn.Parameter(torch.ones(2))
    yield "views", [base, base[2:5], base.view(3, 4).t(), base[::5], torch.zeros(1).expand(7)]
    yield "empty", [torch.zeros(0), torch.zeros(3, 0), torch.tensor(5)]
    yield "dtypes", [torch.zeros(2).to(t) for t in (
        torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
        torch.bool, torch.complex64, torch.complex128)]
    yield "special", [torch.zeros(2, 2).to_sparse(), torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
                      torch.Size([1, 2]), torch.float32, torch.device("cuda:1")]


def torch_file(value, **options):
    f = io.BytesIO()
    torch.save(value, f, **options)
    return f.getvalue()


def script_file():
    f = io.BytesIO()
    torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), f)
    return f.getvalue()


def repacked(data, method, comment=b""):
    """As zip tools write it: no data descriptors, deflated or not."""
    f = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(f, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        new.comment = comment
    return f.getvalue()


def zips():
    with_pickle = io.BytesIO()
    with zipfile.ZipFile(with_pickle, "w") as z:
        z.writestr("archive/data.pkl", HAND_MADE["storage"])
        z.writestr("archive/data/0", struct.pack("<4f", 1, 2, 3, 4))
        z.writestr("archive/byteorder", "big")
    yield "plain", with_pickle.getvalue()
    yield "deflated", repacked(with_pickle.getvalue(), zipfile.ZIP_DEFLATED)
    yield "comment", repacked(with_pickle.getvalue(), zipfile.ZIP_STORED, b"a comment")
    if not torch:
        return
    for name, value in torch_values():
        yield name, torch_file(value)
    yield "script", script_file()
    yield "script-deflated", repacked(script_file(), zipfile.ZIP_DEFLATED)


LEGACY_HEADER = (b"\x80\2\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}(X\20\0\0\0protocol_versionM\xe9\3"
                 b"X\r\0\0\0little_endian\x88u.")


def legacy_files():
    yield "hand", LEGACY_HEADER + HAND_MADE["storage"] + b"\x80\2]U\0010a." + struct.pack("<q4f", 4, 1, 2, 3, 4)
    if torch:
        for name, value in torch_values():
            yield name, torch_file(value, _use_new_zipfile_serialization=False)


def dcp_metadata():
    """Metadata of distributed checkpoints: chunks that fit, and some that do not."""
    if not torch:
        return
    halves = [((0, 0), (2, 3)), ((2, 0), (2, 3))]
    for name, damage in {"sound": {}, "overlap": {"offsets": torch.Size((1, 0))}, "outside": {"sizes": torch.Size((9, 3))}}.items():
        hand = dcp_folder.Hand()
        hand.add("m.w", torch.zeros(4, 3), halves, ("m", "w"))
        hand.add("m.list.1", torch.zeros(()), path=("m", "list", 1))
        hand.add("n", 3)
        hand.chunk(1, "m.w").__dict__.update(damage)
        for protocol in (2, 4):
            yield "%s-%d" % (name, protocol), pickle.dumps(hand.metadata, protocol)
    yield "getattr", b"\x80\4cbuiltins\ngetattr\n(ctorch.distributed.checkpoint.metadata\n_MEM_FORMAT_ENCODING\nS'A'\ntR."


# ---- safetensors, npz ----

def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(text)) + text + data


def safetensors_files():
    yield "one", safetensors('{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}', bytes(range(16)))
    yield "metadata", safetensors('{"__metadata__":{"format":"pt"},"a.b":{"dtype":"BF16","shape":[3],'
                                  '"data_offsets":[0,6]},"c":{"dtype":"I64","shape":[],"data_offsets":[6,14]}}   ', bytes(14))
    yield "empty", safetensors('{"e":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}')
    yield "none", safetensors("{}")
    yield "escapes", safetensors('{"\\u00e9\\n\\"":{"shape":[1],"data_offsets":[0,1],"dtype":"BOOL"}}', b"\1")
    for dtype, size in (("F64", 8), ("F16", 2), ("F8_E4M3", 1), ("F8_E5M2", 1), ("I32", 4), ("I16", 2), ("I8", 1)):
        yield dtype, safetensors('{"t":{"dtype":"%s","shape":[2],"data_offsets":[0,%d]}}' % (dtype, 2 * size), bytes(2 * size))


def gguf_files():
    text = [("general.architecture", 8, "llama"), ("general.alignment", 4, 64), ("a.b", 6, 0.5), ("c", 7, True), ("d", 11, -3)]
    lists = [("tokens", 9, (8, ["a", "bc", ""])), ("scores", 9, (6, [0.5] * 20)), ("types", 9, (5, [1, 2, 3]))]
    yield "plain", gguf([("w", (2, 3), 0, bytes(range(24))), ("h", (4,), 1, bytes(8)), ("s", (), 30, bytes(2))])
    yield "metadata", gguf([("w", (4,), 0, bytes(16)), ("b", (1, 2), 24, bytes(2))], text + lists, align=64)
    yield "none", gguf([])
    yield "version-2", gguf([("w", (4,), 0, bytes(16))], version=2)
    for kind, elements, size in ((2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (10, 256, 84), (11, 256, 110),
                                 (12, 256, 144), (13, 256, 176), (14, 256, 210)):
        yield "blocks-%d" % kind, gguf([("w", (elements, 2), kind, bytes(range(1, 1 + size)) * 2)])


def npz(method, **arrays):
    f = io.BytesIO()
    (numpy.savez_compressed if method else numpy.savez)(f, **arrays)
    return f.getvalue()


def npy(array, version=None):
    f = io.BytesIO()
    numpy.lib.format.write_array(f, array, version)
    return f.getvalue()


def npz_files():
    if not torch:
        return
    small = {"w": numpy.arange(6, dtype="f4").reshape(2, 3), "b": numpy.arange(3), "f": numpy.asfortranarray(numpy.ones((2, 3)))}
    yield "stored", npz(0, **small)
    yield "deflated", npz(1, **small)
    yield "dtypes", npz(0, **{"d%d" % i: numpy.zeros(2, t) for i, t in enumerate("? i1 u1 <i2 >i4 <f2 >f8 <c8 <c16".split())})
    yield "scalar", npz(0, s=numpy.float64(3), e=numpy.zeros((0, 4)))
    yield "npy", npy(numpy.arange(4.0))
    yield "npy-2", npy(numpy.arange(4.0), (2, 0))
    yield "npy-3", npy(numpy.arange(4.0), (3, 0))
    yield "npy-big", npy(numpy.arange(4, dtype=">f4"))


def write_attacks(folder):
    """The small ones of the collection of attacks; most are zip archives."""
    targets = {"legacy": "legacy", "safetensors": "safetensors", "npy": "npz", "gguf": "gguf"}
    for group, cases in attacks.GROUPS.items():
        for i, (_, data, _) in enumerate(cases() if group != "bomb" else ()):
            if len(data) <= ATTACK_BYTES:
                write(folder, targets.get(group, "zip"), "attack-%s-%d" % (group, i), data)


RACE_WORKS = 4  # of fuzz_race.c


def races():
    """Files of all formats that change behind a read: the place is a byte of the header or of the end, as chance has it."""
    chance = random.Random(1)
    for kind in (zips, legacy_files, safetensors_files, npz_files, gguf_files):
        for name, data in kind():
            if len(data) > 1 << 16:
                continue
            for work in range(RACE_WORKS):
                places = [chance.choice((chance.randrange(min(64, len(data))), chance.randrange(len(data)),
                                         len(data) - 1 - chance.randrange(min(100, len(data))))) for _ in range(4)]
                flips = b"".join(struct.pack("<BHB", chance.randrange(1, 12), at, 1 << chance.randrange(8)) for at in places)
                yield "%s-%s-%d" % (kind.__name__, name, work), bytes((work, len(places))) + flips + data


def tokenizers():
    """A file of each style, with a text behind it; and patterns."""
    text = "the quick thing\n  <s> 12 \u4e2d\u0301 don't \U0001f600 ab\u2581ab"
    letters = {chr(c): i for i, c in enumerate(range(0x21, 0x7f))}
    vocab = {**letters, "th": 94, "the": 95, "\u0120": 96, "\u0120th": 97, "\u2581": 98, "\u2581th": 99, "<s>": 100, "<0xE4>": 101, "ab": 102, "h\u2581": 103}
    model = {"type": "BPE", "vocab": vocab, "merges": ["t h", ["th", "e"], "\u0120 th", "\u2581 th", "a b", "h \u2581"]}
    added = [{"id": 100, "content": "<s>", "special": True, "lstrip": True, "rstrip": True}, {"id": 104, "content": "<x>"}]
    byte_level = {"type": "ByteLevel", "add_prefix_space": True}
    styles = {
        "gpt2": {"pre_tokenizer": byte_level, "decoder": {"type": "ByteLevel"}},
        "metaspace": {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
                      "decoder": {"type": "Metaspace", "replacement": "\u2581"}},
        "llama2": {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                                     {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
                   "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                                                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}},
        "none": {},
    }
    for name, fields in styles.items():
        for more in ({}, {"unk_token": "<s>", "fuse_unk": True}, {"unk_token": "<s>", "byte_fallback": True}, {"ignore_merges": True}):
            added[1]["normalized"] = name != "llama2"
            file = {"version": "1.0", "added_tokens": added, **fields, "model": {**model, **more}}
            yield "%s-%d" % (name, len(json.dumps(more))), json.dumps(file, ensure_ascii=False).encode() + b"\0" + text.encode() + b"\xff\xe2\x82 end"
    for i, pattern in enumerate((r"\s+(?!\S)|\s+|\S", r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}", r"(?<=t)h|(?<!\p{Han})e", r"(?>a+|[\x{61}-\u007a])b", r"(a+)+c",
                                 r"[^\s\d]+?", "[a-z", "a*", r"\w")):
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated" if i % 2 else "Removed", "invert": i % 3 == 0}
        file = {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {"type": "Digits", "individual_digits": True}, byte_level]}, "model": model}
        yield "pattern-%d" % i, json.dumps(file).encode() + b"\0" + text.encode() + b"a" * 40
    bert = {"normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece", "prefix": "##"},
            "model": {"type": "WordPiece", "vocab": {"[UNK]": 0, "the": 1, "##t": 2, "a": 3, "\u4e2d": 4, "\0": 5}, "unk_token": "[UNK]",
                      "continuing_subword_prefix": "##", "max_input_chars_per_word": 9}}
    unigram = {"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "Strip"}]},
               "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581"}, "decoder": {"type": "Metaspace", "replacement": "\u2581"},
               "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": [["<unk>", 0], ["\u2581the", -2.5], ["t", -3], ["<0xE4>", -9], ["a", -4]]}}
    token, first, second = {"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    template = {"type": "TemplateProcessing", "single": [token, first], "pair": [token, first, token, second],
                "special_tokens": {"a": {"id": "a", "ids": [3], "tokens": ["a"]}}}
    unnamed = {**template, "single": [{"Sequence": {"id": "", "type_id": 0}}]}
    fixed = {"type": "RobertaProcessing", "sep": ["a", 3], "cls": ["the", 1], "trim_offsets": True, "add_prefix_space": True}
    processed = [(f"bert-{i}", {**bert, "post_processor": p}) for i, p in enumerate((template, unnamed, {**fixed, "type": "BertProcessing"}, fixed))]
    for name, file in (("bert", bert), ("unigram", unigram), *processed):
        yield name, json.dumps(file).encode() + b"\0" + text.encode()
    for i, behavior in enumerate(("MergedWithPrevious", "MergedWithNext", "Contiguous")):
        split = {"type": "Split", "pattern": {"String": "t"}, "behavior": behavior, "invert": i == 1}
        kinds = [split, {"type": "Punctuation"}, {"type": "Whitespace"}, byte_level, {"type": "Metaspace", "replacement": "\u0120"}]
        yield "behavior-%d" % i, json.dumps({"pre_tokenizer": {"type": "Sequence", "pretokenizers": kinds}, "model": model}).encode() + b"\0" + text.encode()
    for kind in (1, 2):
        yield "sentencepiece-%d" % kind, sentencepiece(kind)


def field(number, content):
    """A field of protocol buffers that is bytes or a message of less than 128 bytes, or of less than 16384."""
    n = len(content)
    return bytes((number << 3 | 2,)) + (bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7))) + content


def sentencepiece(kind):
    """A model of SentencePiece with a table that replaces A by a; the text that is read is the model itself."""
    pieces = ("<unk>", 2), ("</s>", 3), ("\u2581a", 1), ("ab", 1), ("a", 1), ("b", 1), ("\u2581", 1), ("<0x0A>", 6), ("<u>", 4)
    model = b"".join(field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", -i) + bytes((0x18, what))) for i, (text, what) in enumerate(pieces))
    units = [0] * 512
    units[0], units[256 ^ 65], units[(256 ^ 65) ^ 1] = 256 << 10, 1 << 10 | 1 << 8 | 65, 1 << 31
    table = struct.pack("<I512I", 2048, *units) + b"a\0"
    return model + field(2, bytes((0x18, kind))) + field(3, field(2, table) + b"\x20\x01")


def tables():
    """Tables with each separator: quotes, line ends, blanks, and faults."""
    rows = ["a,b,class\r\n1,2,x\r\n", "\xef\xbb\xbf\"a, \"\"b\"\"\", t\n\n \"1.5e1\" , \"x\ny\"\n\n-2,x\n", ",,\n,\"\",\n", "1,\"never closed\n", "1,\"a\"b\n",
            "1,\0,2\n", " \t\n1 , 2\t,3", "a\rb,c\r", "\"\"\"\""]
    for i, separator in enumerate(",\t;|"):
        for k, row in enumerate(rows):
            yield "%d-%d" % (i, k), bytes([i]) + row.replace(",", separator).encode("latin-1")


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pngs():
    """Each colour and depth, interlaced and not, with a palette and transparency, made without a library."""
    chance = random.Random(2)
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
    for color, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items():
        for depth in depths:
            for interlaced in (0, 1):
                passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]
                width, height = 11, 7
                sizes = [(len(range(x, width, dx)), len(range(y, height, dy))) for x, y, dx, dy in passes]
                rows = b"".join((bytes([chance.randrange(5)]) + chance.randbytes((w * depth * channels[color] + 7) // 8)) * h for w, h in sizes if w and h)
                parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced))]
                if color == 3:
                    parts += [chunk(b"PLTE", chance.randbytes(3 << depth)), chunk(b"tRNS", bytes([0, 128]))]
                elif color in (0, 2):
                    parts.append(chunk(b"tRNS", bytes(2 * channels[color])))
                yield "png-%d-%d-%d" % (color, depth, interlaced), b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def jpegs():
    """With Pillow: colours, sampling, progressive scans, restarts, each orientation."""
    picture = Image.frombytes("RGB", (21, 18), random.Random(3).randbytes(21 * 18 * 3))
    forms = {"420": {}, "444": {"subsampling": 0}, "422": {"subsampling": 1}, "progressive": {"progressive": True}, "fine": {"quality": 98},
             "coarse": {"quality": 5}, "optimized": {"optimize": True}}
    for mode in ("RGB", "L", "CMYK"):
        for name, options in forms.items():
            f = io.BytesIO()
            picture.convert(mode).save(f, "JPEG", **options)
            yield "%s-%s" % (mode, name), f.getvalue()
    for turn in range(2, 9):
        f = io.BytesIO()
        exif = b"Exif\0\0II*\0" + struct.pack("<IHHHIHHI", 8, 1, 0x112, 3, 1, turn, 0, 0)
        picture.save(f, "JPEG", exif=exif)
        yield "turned-%d" % turn, f.getvalue()


def webps():
    """With Pillow: lossy and lossless, with alpha, metadata, and an animation."""
    picture = Image.frombytes("RGB", (21, 18), random.Random(3).randbytes(21 * 18 * 3))
    alpha = picture.convert("RGBA")
    alpha.putalpha(Image.frombytes("L", (21, 18), random.Random(4).randbytes(21 * 18)))
    forms = {"lossy": (picture, {}), "coarse": (picture, {"quality": 1}), "lossless": (picture, {"lossless": True}), "alpha": (alpha, {}),
             "lossless-alpha": (alpha, {"lossless": True}), "palette": (picture.quantize(4).convert("RGB"), {"lossless": True}),
             "exif": (picture, {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0"}),
             "animation": (picture, {"save_all": True, "append_images": [picture.transpose(Image.ROTATE_180)]})}
    for name, (image, options) in forms.items():
        f = io.BytesIO()
        image.save(f, "WEBP", **options)
        yield "webp-" + name, f.getvalue()


def images():
    """Behind the choices of fuzz_image.c."""
    chance = random.Random(4)
    for makers in (pngs, jpegs, webps) if Image else (pngs,):
        for name, data in makers():
            for choice in range(4):
                yield "%s-%d" % (name, choice), bytes([choice]) + chance.randbytes(3) + data


def networks():
    """Small networks as torch.export.save() writes them."""
    if not torch:
        return
    nn = torch.nn

    class Positions(nn.Module):
        """Constants of many kinds, attention with a mask, and indices."""

        def __init__(self):
            super().__init__()
            self.embed, self.head, self.bias = nn.Embedding(5, 4), nn.Linear(4, 5), nn.Parameter(torch.zeros(5, 3))
            self.register_buffer("index", torch.tensor([[0, 1, 2], [3, 4, 0], [1, 2, 3]]))

        def forward(self, ids):
            x = self.embed(ids)
            at = torch.cumsum(ids.new_ones([3]), 0) - 1
            seen = torch.ge(torch.unsqueeze(at, 1), torch.unsqueeze(at, 0))
            row = x.new_zeros([3, 3])
            torch.select(row, 0, 1).fill_(0.5)
            mask = torch.where(seen, torch.sum(self.bias[self.index], [2], False) + row, torch.tril(row))
            x = exported.attention(x, x, x, torch.masked_fill(mask, torch.lt(mask, -1), 0.25)) + exported.attention(x, x, x, seen)
            x = torch.cat([exported.rest(x, 2, 2), exported.rest(x, 2, 4), torch.chunk(x, 2, 2)[0]], 2)
            return self.head(torch.softmax(torch.matmul(x, torch.transpose(x, 1, 2)), 2) @ x + torch.cumsum(x, 2))

    small = {"positions": (Positions(), torch.zeros(2, 3, dtype=torch.long)),
             "image": (nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                     nn.Linear(2, 2)), torch.zeros(2, 1, 8, 8)),
             "table": (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.GELU(), nn.LayerNorm(4), nn.Dropout(0.1), nn.Linear(4, 2)), torch.zeros(2, 3)),
             "tokens": (nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5)), torch.zeros(2, 3, dtype=torch.long))}
    for name, (module, example) in small.items():
        for batch in ("dynamic", "fixed"):
            data = io.BytesIO()
            exported.save(module, example, data, batch, drop=["sample_inputs/model.pt"])
            yield "%s-%s" % (name, batch), data.getvalue()


def stacks():
    """Specs of stacks of layers, without "seq:", good and wrong."""
    for i, text in enumerate([
            "Linear(6,16),BatchNorm1d(16),ReLU,Dropout(0.1),Linear(16,16,bias=False),LayerNorm((4,4)),GELU('tanh'),Linear(16,3)",
            "Conv2d(3,8,(3,5),padding='same',groups=1),MaxPool2d(2,ceil_mode=True),ConvTranspose2d(8,4,3,output_padding=0),AdaptiveAvgPool2d((2,1)),Flatten(1,-1)",
            "nn.Unflatten(1, (2, -1)), Conv1d(2,6,5), AvgPool1d(2), Flatten(), Softplus(2, threshold=5.)", "Embedding(11,8),RMSNorm(8),Linear(8,11)",
            "Linear(3", "Relu", "Linear(1,2,3,4)", "Conv2d(1,2,[3,3],padding_mode=\"circular\")", "Flatten(9),", "Hardtanh(-1e400)", "Linear(16777216,16777216)"]):
        yield "stack-%d" % i, text.encode()


def onnx_models():
    """Models of a few operators each: shapes that are computed, images, texts, tensors in each form."""
    m = onnx_made
    ints = lambda name, *numbers: m.tensor(name, (len(numbers),), numbers, m.INT64)  # noqa: E731
    yield "linear", m.linear()
    yield "opset-13", m.linear(opset=13)
    yield "float-data", m.model([m.GEMM], [m.tensor("fc.weight", (3, 4), [], raw=b"", more=m.field(4, struct.pack("<12f", *range(12)))), m.LINEAR[1]])
    shape = [m.node("Shape", ["x"], ["s"], end=1), m.node("Concat", ["s", "rest"], ["to"], axis=0), m.node("Reshape", ["x", "to"], ["r"]),
             m.node("Transpose", ["r"], ["t"], perm=[0, 2, 1]), m.node("Slice", ["t", "zero", "two", "one"], ["c"]), m.node("Flatten", ["c"], ["f"]),
             m.node("Where", ["mask", "f", "f"], ["w"]), m.node("Unsqueeze", ["w", "one"], ["u"]), m.node("Squeeze", ["u", "one"], ["q"]),
             m.node("Split", ["q"], ["a", "b"], axis=1), m.node("Expand", ["b", "wide"], ["e"]), m.node("Pad", ["e", "pads"], ["p"]),
             m.node("Softmax", ["p"], ["y"])]
    yield "shapes", m.model(shape, [ints("rest", 2, 2), ints("zero", 0), ints("one", 1), ints("two", 2), ints("wide", 1, 2), ints("pads", 0, 1, 0, 0),
                                    m.tensor("mask", (4,), [0, 1, 0, 1])])
    image = [m.node("Conv", ["x", "c.weight"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]), m.node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]),
             m.node("Relu", ["n"], ["r"]), m.node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], auto_pad="SAME_UPPER"), m.node("GlobalAveragePool", ["p"], ["a"]),
             m.node("Flatten", ["a"], ["y"])]
    vectors = [m.tensor(name, (3,), [1, 1, 1]) for name in "gbmv"]
    yield "image", m.model(image, [m.tensor("c.weight", (3, 1, 3, 3), [0.1] * 27), *vectors], [("x", ["batch", 1, 8, 8], m.FLOAT)])
    text = [m.node("Gather", ["e.weight", "x"], ["e"]), m.node("SplitToSequence", ["e", "half"], ["s"], axis=2), m.node("SequenceAt", ["s", "first"], ["a"]),
            m.node("LayerNormalization", ["a", "g", "b"], ["n"]), m.node("MatMul", ["n", "w"], ["m"]), m.node("Gelu", ["m"], ["u"]),
            m.node("Constant", [], ["k"], value_float=0.5), m.node("Mul", ["u", "k"], ["y"])]
    yield "text", m.model(text, [m.tensor("e.weight", (5, 6), range(30)), m.tensor("half", (), [3], m.INT64), m.tensor("first", (), [1], m.INT64),
                                 *vectors[:2], m.tensor("w", (3, 5), range(15))], [("x", ["batch", 4], m.INT64)], [("y", ["batch", 4, 5], m.FLOAT)])
    yield "outside", m.model([m.GEMM], [m.external("fc.weight", (3, 4), "net.onnx.data"), m.LINEAR[1]])
    yield "unknown", m.model([m.node("TopK", ["x", "k"], ["y", "i"], domain="com.example", axis=1)], [ints("k", 3)])


def templates():
    """Chat templates of each family's form, and the parts of Jinja that they leave out; with variables of their own."""
    for name, template in chat_templates.TEMPLATES.items():
        yield name, template.encode()
    yield "strings", (b"{{ (s[1:-1] ~ 'b' * n).split('a', 1)|join('-') }}{{ s.strip(' a')|upper|replace('A', 'xy') }}{{ s[::-1]|tojson(indent=2, sort_keys=true) }}"
                      b"{{ s.find('b') }}{{ s is in ['b', s] }}{{ s.startswith(('x', 'a')) }}{{ '%c' in s }}{{ 7 // -2 }}{{ -7 % 3.5 }}\0{\"s\": \" ab \", \"n\": 3}")
    yield "blocks", (b"{%- set ns = namespace(x=[1], y={}) -%}{% for k, v in d.items() if v is not none %}{% set ns.x = ns.x + [v] %}{% if loop.index > 2 %}{% break %}"
                     b"{% elif loop.last %}{% continue %}{% endif %}{% else %}none{% endfor %}{% set t %}{{ ns.x|map('string')|list }}{% endset %}{% generation %}"
                     b"{{ t|trim }}{{ d|dictsort if false else (d|tojson) }}{% endgeneration %}{{ strftime_now('%d %B %Y') }}\0{\"d\": {\"a\": 1, \"b\": null, \"c\": [2]}}")


def keys():
    """Key files in each form, statements, and a bundle."""
    yield "private", small_files.KEY.encode()
    yield "public", small_files.PUBLIC_KEY.encode()
    statement = {"_type": "https://in-toto.io/Statement/v1", "subject": [{"name": "m", "digest": {"sha256": "0" * 64}}],
                 "predicateType": "https://model_signing/signature/v1.0", "predicate": {
                     "resources": [{"digest": "0" * 64, "name": "a:0:5", "algorithm": "sha256-sharded-5"}],
                     "serialization": {"hash_type": "sha256", "method": "shards", "shard_size": 5, "allow_symlinks": False, "ignore_paths": ["./x//y/", ".git"]}}}
    text = json.dumps(statement)
    yield "statement", text.encode()
    yield "bundle", json.dumps({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": {"publicKey": {"hint": ""}, "tlogEntries": []},
        "dsseEnvelope": {"payload": base64.b64encode(text.encode()).decode(), "payloadType": "application/vnd.in-toto+json",
                         "signatures": [{"sig": "MEQCIFHFHPygn18lO4Nvd5fMfG9WZ/Bwgvqr4d+sKxzGBlNMAiB6TwRgb5uIE5VqygF+2jtF+bI6CsChsNBJijg+C+Pxzg==", "keyid": ""}]}}).encode()


TARGETS = {"pickle": pickles, "zip": zips, "legacy": legacy_files, "safetensors": safetensors_files, "npz": npz_files, "race": races,
           "tokenizer": tokenizers, "csv": tables, "image": images, "exported": networks, "sequence": stacks, "dcp": dcp_metadata,
           "gguf": gguf_files, "onnx": onnx_models, "jinja": templates, "keys": keys}


def write(folder, target, name, data):
    os.makedirs(os.path.join(folder, target), exist_ok=True)
    with open(os.path.join(folder, target, name), "wb") as f:
        f.write(data)


def write_all(folder):
    for target, seeds in TARGETS.items():
        for name, data in seeds():
            write(folder, target, name, data)
    write_attacks(folder)


def replay():
    program = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "fuzz_replay")
    with tempfile.TemporaryDirectory() as folder:
        write_all(folder)
        return subprocess.run([program, folder, "tests/fuzz/regressions"]).returncode


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: corpus.py FOLDER | --replay")
    if torch:
        torch.manual_seed(1)
    return replay() if sys.argv[1] == "--replay" else write_all(sys.argv[1])


if __name__ == "__main__":
    sys.exit(main())
