#!/usr/bin/python3
# gguf.py - GGUF files: blocks decoded to the last bit, and each command that reads checkpoints.
"""
GGUF_PYTHON names a python with the package `gguf` (`pip install gguf`): then its code decodes the same blocks, and the first
difference is named. LLAMA_CPP_PYTHON names one with the package `xllamacpp` (llama.cpp): then each family's greedy text is the same
there; without it, that part says that it is skipped.
"""
import hashlib
import json
import os
import struct
import subprocess
import sys
import zlib

import numpy

for folder in ("common", "fuzz"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
import tap  # noqa: E402
from attack_files import gguf  # noqa: E402

GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
PYTHON = os.environ.get("GGUF_PYTHON")
LLAMA_CPP = os.environ.get("LLAMA_CPP_PYTHON")

# name: (number in GGUF, elements and bytes of a block, places of its halves, CRC-32 of what the package `gguf` decodes as float32)
BLOCKS = {
    "q4_0": (2, 32, 18, [0], 0xb968a413), "q4_1": (3, 32, 20, [0, 2], 0x207aeeab), "q5_0": (6, 32, 22, [0], 0x780de438), "q5_1": (7, 32, 24, [0, 2], 0xd189088e),
    "q8_0": (8, 32, 34, [0], 0x96c155b5), "q2_K": (10, 256, 84, [80, 82], 0x9f494cea), "q3_K": (11, 256, 110, [108], 0xb7dc5e79),
    "q4_K": (12, 256, 144, [0, 2], 0x21cf7445), "q5_K": (13, 256, 176, [0, 2], 0xc10ed576), "q6_K": (14, 256, 210, [208], 0x313c32c3),
}
ROWS = 6


def run(*words):
    return subprocess.run([GTRAIN, "ckpt", *words], capture_output=True, text=True, check=False)


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)
    return path


def quantized(name):
    """Blocks of any bits, but for their halves, which are small numbers; two blocks in a row."""
    _, _, size, halves, _ = BLOCKS[name]
    data = bytearray(hashlib.shake_256(name.encode()).digest(2 * ROWS * size))
    for block in range(2 * ROWS):
        for i, at in enumerate(halves):
            struct.pack_into("<e", data, block * size + at, (block - 3.25) * (0.0137 if i else 0.071))
    return bytes(data)


BY_PACKAGE = """
import sys, numpy, gguf
kind, size = gguf.GGMLQuantizationType(int(sys.argv[1])), int(sys.argv[2])
data = numpy.frombuffer(sys.stdin.buffer.read(), numpy.uint8).reshape(-1, size)
sys.stdout.buffer.write(gguf.quants.dequantize(data, kind).astype("<f4").tobytes())
"""


def difference(name, got):
    """The decoded tensor beside the package's, or its checksum."""
    number, _, size, _, crc = BLOCKS[name]
    if PYTHON:
        right = subprocess.run([PYTHON, "-c", BY_PACKAGE, str(number), str(size)], input=quantized(name), capture_output=True, check=True).stdout
        right = numpy.frombuffer(right, "<f4").reshape(got.shape)
        wrong = numpy.argwhere(got.view("<u4") != right.view("<u4"))
        if len(wrong):
            at = tuple(wrong[0])
            return "%d elements differ: %s is %r, not %r" % (len(wrong), at, got[at], right[at])
        return "" if zlib.crc32(right.tobytes()) == crc else "the CRC-32 is %#x" % zlib.crc32(right.tobytes())
    return "" if zlib.crc32(got.tobytes()) == crc else "other elements than those of the package"


def blocks(folder):
    tensors = [(name, (2 * elements, ROWS), number, quantized(name)) for name, (number, elements, *_) in BLOCKS.items()]
    path, out = write(os.path.join(folder, "q.gguf"), gguf(tensors)), os.path.join(folder, "q.npz")
    done = run("convert", path, "-o", out)
    if done.returncode:
        yield "convert", done.stderr
        return
    with numpy.load(out) as arrays:
        for name, (_, elements, *_) in BLOCKS.items():
            got = arrays[name]
            yield name, difference(name, got) if got.shape == (ROWS, 2 * elements) and got.dtype == "<f4" else str(got.shape)
    done = run("ls", "--json", path)
    stored = {t["key"]: t.get("stored_as") for t in json.loads(done.stdout)["tensors"]}
    yield "ls names the types", "" if stored == {name: name for name in BLOCKS} else str(stored)


PLAIN = {"f32": (0, "<f4"), "f16": (1, "<f2"), "i8": (24, "i1"), "i16": (25, "<i2"), "i32": (26, "<i4"), "i64": (27, "<i8"), "f64": (28, "<f8")}
METADATA = [("general.architecture", 8, "llama"), ("general.name", 8, "\u00e9t\u00e9"), ("general.alignment", 4, 64), ("a.u8", 0, 255), ("a.i8", 1, -1),
            ("a.u16", 2, 65535), ("a.i16", 3, -2), ("a.i32", 5, -3), ("a.eps", 6, 1e-6), ("a.third", 6, 1 / 3), ("a.yes", 7, True),
            ("a.u64", 10, 2**64 - 1), ("a.i64", 11, -2**63), ("a.f64", 12, 0.1), ("a.short", 9, (5, [1, -2])),
            ("a.long", 9, (4, list(range(100)))), ("tokenizer.ggml.tokens", 9, (8, ["a", "\u00e9", ""]))]
TEXTS = {"general.architecture": "llama", "general.name": "\u00e9t\u00e9", "general.alignment": "64", "a.u8": "255", "a.i8": "-1", "a.u16": "65535", "a.i16": "-2",
         "a.i32": "-3", "a.eps": "1e-06", "a.third": "0.333333343", "a.yes": "true", "a.u64": str(2**64 - 1), "a.i64": str(-2**63), "a.f64": "0.1",
         "a.short": "[1, -2]", "a.long": "100 numbers", "tokenizer.ggml.tokens": "3 strings"}


def commands(folder):
    """A file of both versions with every plain type, through each command."""
    arrays = {name: numpy.arange(12).reshape(4, 3).astype(kind) for name, (_, kind) in PLAIN.items()}
    tensors = [(name, (3, 4), number, arrays[name].tobytes()) for name, (number, _) in PLAIN.items()]
    tensors += [("bf16", (2,), 30, struct.pack("<2H", 0x3f80, 0xc000)), ("scalar", (), 0, struct.pack("<f", 2.5)), ("none", (0, 4), 0, b"")]
    path, out = os.path.join(folder, "p.gguf"), os.path.join(folder, "p.npz")
    for version in 2, 3:
        write(path, gguf(tensors, METADATA, version, align=64))
        listed = json.loads(run("ls", "--json", path).stdout)
        yield "metadata of version %d" % version, "" if listed["metadata"] == TEXTS else str(listed["metadata"])
        done = run("convert", path, "--dtype", "fp32", "-o", out)
        with numpy.load(out) as got:
            wrong = [name for name in arrays if not numpy.array_equal(got[name], arrays[name])]
            wrong += [] if got["bf16"].tolist() == [1, -2] and got["scalar"] == 2.5 and got["none"].shape == (4, 0) else ["bf16, scalar or none"]
        yield "convert of version %d" % version, done.stderr if done.returncode else " ".join(wrong)
    for words in (["verify", path], ["diff", path, path], ["select", path, "--keys", "f*", "-o", os.path.join(folder, "s.safetensors")],
                  ["merge", path, path, "--average", "-o", os.path.join(folder, "m.pth")], ["ls", "--stats", path]):
        done = run(*words)
        yield words[0], done.stdout + done.stderr if done.returncode else ""
    done = run("rename", path, "--map", "f=g", "-o", os.path.join(folder, "r.gguf"))
    yield "rename is refused", "" if done.returncode == 1 and "gguf" in done.stderr else done.stderr



# ---- writing ----

def read_gguf(path):
    """(metadata, tensors) of a file with f32, f16, q8_0 and q4_0; an array of the metadata is a list."""
    with open(path, "rb") as f:
        data = f.read()
    at = 24

    def take(form):
        nonlocal at
        got = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return got[0] if len(got) == 1 else got

    def text():
        nonlocal at
        size = take("Q")
        at += size
        return data[at - size:at].decode()

    def value(kind):
        if kind == 9:
            of, count = take("IQ")
            return [value(of) for _ in range(count)]
        return text() if kind == 8 else take("BbHhIif?  Qqd"[kind])

    magic, version, count, entries = struct.unpack_from("<4sIQQ", data)
    assert (magic, version) == (b"GGUF", 3)
    metadata = {text(): value(take("I")) for _ in range(entries)}
    infos = [(text(), [take("Q") for _ in range(take("I"))], *take("IQ")) for _ in range(count)]
    at += -at % 32
    tensors = {}
    for name, sizes, kind, offset in infos:
        n = int(numpy.prod(sizes))
        if kind == 8:
            rows = numpy.frombuffer(data, numpy.dtype([("d", "<f2"), ("q", "i1", 32)]), n // 32, at + offset)
            array = rows["d"].astype("<f4")[:, None] * rows["q"]
        elif kind == 2:
            rows = numpy.frombuffer(data, numpy.dtype([("d", "<f2"), ("q", "u1", 16)]), n // 32, at + offset)
            array = rows["d"].astype("<f4")[:, None] * (numpy.hstack([rows["q"] & 15, rows["q"] >> 4]).astype("i4") - 8).astype("<f4")
        else:
            array = numpy.frombuffer(data, {0: "<f4", 1: "<f2"}[kind], n, at + offset)
        tensors[name] = array.reshape(sizes[::-1])
    return metadata, tensors


def letters():
    """The characters that stand for bytes in a vocabulary of bytes."""
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b if b in own else next(others)) for b in range(256)]


def tokenizer(kind):
    """A small tokenizer.json, of bytes or of characters."""
    added = [{"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, t in enumerate(["<unk>", "<s>", "</s>"])]
    names = [t["content"] for t in added]
    if kind == "bytes":
        names += letters() + ["th", "the", "\u0120the"]
        model = {"type": "BPE", "vocab": {t: i for i, t in enumerate(names)}, "merges": ["t h", "th e", "\u0120 the"]}
        more = {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                "decoder": {"type": "ByteLevel"}, "normalizer": None}
    else:
        names += ["<0x%02X>" % b for b in range(256)] + ["\u2581", "t", "h", "e", "th", "the", "\u2581the"]
        model = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": {t: i for i, t in enumerate(names)},
                 "merges": ["t h", "th e", "\u2581 the"]}
        steps = [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]
        more = {"pre_tokenizer": None, "normalizer": {"type": "Sequence", "normalizers": steps},
                "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                             {"type": "ByteFallback"}, {"type": "Fuse"}]}}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "post_processor": None, "model": model, **more}


SIZES = "layers=4,width=64,heads=4,block=32,vocab=272"  # more tokens than either tokenizer has
FAMILIES = {
    "llama": ("characters", "llama:%s,kv_heads=2,head_dim=32,attention_bias=yes,mlp_bias=yes,rope=llama3:8:1:4:16" % SIZES),
    "gemma2": ("characters", "gemma2:%s,kv_heads=2,window=8" % SIZES), "gpt-neox": ("bytes", "gpt-neox:%s,gelu=tanh" % SIZES),
    "gpt2": ("bytes", "gpt:%s,gelu=tanh" % SIZES), "phi3": ("characters", "phi3:%s,kv_heads=2,rotated=0.5" % SIZES),
    # with llama.cpp alone
    "mistral": ("characters", "mistral:%s,kv_heads=2,rope=linear:2" % SIZES), "qwen2": ("bytes", "qwen2:%s,rope=yarn:4:16:32:1:1.1386294361:1" % SIZES),
    "qwen3": ("bytes", "qwen3:%s,head_dim=32" % SIZES), "gemma3": ("characters", "gemma3:%s,window=8" % SIZES.replace("layers=4", "layers=6")),
    "olmo2": ("bytes", "olmo2:%s,tied=yes" % SIZES), "smollm3": ("bytes", "smollm3:%s" % SIZES),
}
PLAIN_FAMILIES = list(FAMILIES)[:5]


def train(folder, family):
    """A run of one large step, so that every weight counts, and its weights as arrays."""
    kind, spec = FAMILIES[family]
    run_dir, tok, text, npz = (os.path.join(folder, name) for name in ("run", "tokenizer.json", "text.txt", "weights.npz"))
    with open(tok, "w") as f:
        json.dump(tokenizer(kind), f)
    with open(text, "w") as f:
        f.write("the cat and the other thing, then 12 of them; " * 40)
    for words in (["train", "--model", spec, "--data", "text:%s,level=bpe,tokenizer=%s" % (text, tok), "--steps", "1", "--lr", "0.3", "--batch", "2",
                   "--threads", "1", "--out", run_dir, "-q"], ["ckpt", "convert", run_dir, "-o", npz, "-q"]):
        done = subprocess.run([GTRAIN, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with numpy.load(npz) as arrays:
        return run_dir, dict(arrays)


def neighbours(w, heads):
    """Rows of rotations by halves as those of rotations by neighbours."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def parts_first(w, heads):
    return w.reshape(heads, 3, -1, *w.shape[1:]).swapaxes(0, 1).reshape(w.shape)


# One tensor of each kind of arrangement: (in the file, in the model, what becomes of it).
PLACES = {
    "llama": [("blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight", lambda w: neighbours(w, 4)),
              ("blk.3.attn_k.bias", "model.layers.3.self_attn.k_proj.bias", lambda w: neighbours(w, 2)),
              ("blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight", None), ("output.weight", "lm_head.weight", None)],
    "gemma2": [("blk.2.post_ffw_norm.weight", "model.layers.2.post_feedforward_layernorm.weight", lambda w: w + 1),
               ("output_norm.weight", "model.norm.weight", lambda w: w + 1), ("token_embd.weight", "model.embed_tokens.weight", None)],
    "gpt-neox": [("blk.1.attn_qkv.weight", "gpt_neox.layers.1.attention.query_key_value.weight", lambda w: parts_first(w, 4)),
                 ("blk.1.attn_qkv.bias", "gpt_neox.layers.1.attention.query_key_value.bias", lambda w: parts_first(w, 4)),
                 ("output.weight", "embed_out.weight", None)],
    "gpt2": [("blk.0.attn_qkv.weight", "transformer.h.0.attn.c_attn.weight", lambda w: w.T), ("blk.3.ffn_down.bias", "transformer.h.3.mlp.c_proj.bias", None),
             ("position_embd.weight", "transformer.wpe.weight", None)],
    "phi3": [("blk.2.ffn_up.weight", "model.layers.2.mlp.gate_up_proj.weight", None)],
}
SETTINGS = {
    "llama": {"general.architecture": "llama", "llama.attention.head_count_kv": 2, "llama.attention.key_length": 32, "tokenizer.ggml.add_space_prefix": True},
    "gemma2": {"gemma2.attention.sliding_window": 8, "gemma2.attn_logit_softcapping": 50.0, "gemma2.final_logit_softcapping": 30.0},
    "gpt-neox": {"gptneox.rope.dimension_count": 4, "gptneox.use_parallel_residual": True, "gptneox.context_length": 32},
    "gpt2": {"gpt2.feed_forward_length": 256, "general.file_type": 0, "tokenizer.ggml.pre": "gpt-2"}, "phi3": {"phi3.rope.dimension_count": 8},
}


def vocabulary(kind, metadata):
    """What is wrong with the tokens in the file."""
    tok = tokenizer(kind)
    names = sorted(tok["model"]["vocab"], key=tok["model"]["vocab"].get)
    if metadata["tokenizer.ggml.tokens"][:len(names)] != names or len(metadata["tokenizer.ggml.tokens"]) != 272:
        return "the tokens"
    types = [3, 3, 3] + [1] * (len(names) - 3)
    if kind == "characters":
        types[0], types[3:259] = 2, [6] * 256
        scores = dict(zip(names, metadata["tokenizer.ggml.scores"]))
        if [scores[t] for t in ("th", "the", "\u2581the", "e")] != [-1, -2, -3, 0]:
            return "the scores"
    elif metadata["tokenizer.ggml.merges"] != tok["model"]["merges"]:
        return "the merges"
    return "" if metadata["tokenizer.ggml.token_type"] == types + [5] * (272 - len(names)) else "the types of tokens"


def writing(folder):
    """A run of each family as f32, f16, q4_0 and q8_0."""
    for family in PLAIN_FAMILIES:
        place, out = os.path.join(folder, family), os.path.join(folder, "out.gguf")
        os.mkdir(place)
        trained, weights = train(place, family)
        done = run("convert", trained, "-o", out)
        metadata, tensors = read_gguf(out) if not done.returncode else ({}, {})
        wrong = [name for name, own, change in PLACES[family] if not numpy.array_equal(tensors.get(name), change(weights[own]) if change else weights[own])]
        wrong += [key for key, value in SETTINGS[family].items() if metadata.get(key) != value]
        yield family, done.stderr if done.returncode else ", ".join(wrong) or vocabulary(FAMILIES[family][0], metadata)
    for kind, most in ("f16", 0.001), ("q4_0", 0.15), ("q8_0", 0.01):
        done = run("convert", trained, "--to", "gguf", "--type", kind, "-o", out)
        _, small = read_gguf(out)
        apart = max(float(abs(small[name] - tensors[name]).max()) for name in tensors)
        yield kind, done.stderr if done.returncode else "" if 0 < apart < most else "apart by %g" % apart
    hf, again = os.path.join(folder, "hf"), os.path.join(folder, "again.gguf")
    run("convert", trained, "--to", "hf", "-o", hf)
    done = run("convert", hf, "--type", "q8_0", "-o", again)
    with open(out, "rb") as a, open(again, "rb") as b:
        yield "a folder of Hugging Face's is the same file", done.stderr if done.returncode else "" if a.read() == b.read() else "other bytes"
    done = run("convert", again, "-o", os.path.join(folder, "back.npz"))
    with numpy.load(os.path.join(folder, "back.npz")) as back:
        wrong = [name for name in small if not numpy.array_equal(back[name], small[name])]
    yield "and gtrain reads it", done.stderr if done.returncode else " ".join(wrong)


# ---- adapters ----

def adapt(place, family):
    """A run with an adapter of another run, both of one large step."""
    trained, _ = train(place, family)
    adapted, text, tok = os.path.join(place, "adapted"), os.path.join(place, "text.txt"), os.path.join(place, "tokenizer.json")
    done = subprocess.run([GTRAIN, "train", "--model", FAMILIES[family][1], "--data", "text:%s,level=bpe,tokenizer=%s" % (text, tok), "--init-from", trained, "--lora",
                           "r=3,alpha=6", "--steps", "4", "--lr", "0.3", "--batch", "2", "--threads", "1", "--out", adapted, "-q"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return trained, os.path.join(adapted, "adapter")


ADAPTED = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": 6.0, "general.file_type": 0}


READ_ADAPTER = """
import json, sys, gguf
file, keys = gguf.GGUFReader(sys.argv[1]), (gguf.Keys.General.TYPE, gguf.Keys.Adapter.TYPE, gguf.Keys.Adapter.LORA_ALPHA)
print(json.dumps([*(file.get_field(key).contents() for key in keys), {t.name: list(t.data.shape) for t in file.tensors}]))
"""


def adapters(folder):
    """The file of the model and that of the adapter have the weights of the merged model."""
    for family, arch, name in ("llama", "llama", "blk.1.attn_q.weight"), ("gpt-neox", "gptneox", "blk.3.attn_qkv.weight"), ("gpt2", "gpt2", "blk.0.attn_qkv.weight"):
        place = os.path.join(folder, family)
        os.mkdir(place)
        trained, adapter = adapt(place, family)
        paths = {key: os.path.join(place, key) for key in ("hf", "merged", "merged.gguf", "base.gguf", "adapter.gguf")}
        done = [run(*words) for words in (["convert", trained, "--to", "hf", "-o", paths["hf"]], ["merge-lora", paths["hf"], "--lora", adapter, "-o", paths["merged"]],
                                          ["convert", paths["merged"], "-o", paths["merged.gguf"]], ["convert", paths["hf"], "-o", paths["base.gguf"]],
                                          ["convert", adapter, "--base", paths["hf"], "-o", paths["adapter.gguf"]])]
        if any(d.returncode for d in done):
            yield family, "".join(d.stderr for d in done)
            continue
        (_, merged), (_, base), (metadata, halves) = (read_gguf(paths[key]) for key in ("merged.gguf", "base.gguf", "adapter.gguf"))
        wrong = [key for key, value in {**ADAPTED, "general.architecture": arch}.items() if metadata.get(key) != value]
        layers = {key[:-len(".lora_a")] for key in halves if key.endswith(".lora_a")}
        wrong += [] if name in layers and set(halves) == {f"{key}.lora_{half}" for key in layers for half in "ab"} else [str(sorted(halves))]
        for key in base:
            sum_of = base[key] + 2 * halves[f"{key}.lora_b"] @ halves[f"{key}.lora_a"] if key in layers else base[key]
            wrong += [] if numpy.allclose(sum_of, merged[key], rtol=0, atol=1e-6) and (key not in layers or abs(merged[key] - base[key]).max() > 1e-3) else [key]
        if PYTHON:
            seen = subprocess.run([PYTHON, "-c", READ_ADAPTER, paths["adapter.gguf"]], capture_output=True, text=True, check=True).stdout
            wrong += [] if json.loads(seen) == ["adapter", "lora", 6.0, {key: list(half.shape) for key, half in halves.items()}] else [seen]
        yield f"an adapter of {family}", ", ".join(wrong)
    out = os.path.join(folder, "out.gguf")
    config = os.path.join(adapter, "adapter_config.json")
    with open(config) as f:
        settings = json.load(f)
    with open(config, "w") as f:
        json.dump({**settings, "base_model_name_or_path": paths["hf"]}, f)
    done = run("convert", adapter, "-o", out, "--type", "f16")
    small = {} if done.returncode else read_gguf(out)[1]
    yield "its settings name the model", "" if small and all(numpy.array_equal(small[key], halves[key].astype("<f2")) for key in halves) else done.stderr
    for change, words, said in (({"base_model_name_or_path": "some/model"}, [], "--base names another place"), ({"base_model_name_or_path": None}, [], "name the model with --base"),
                                ({"use_rslora": True}, ["--base", trained], ""), ({}, ["--base", os.path.join(folder, "llama", "hf")], "the model has no layer 'transformer.h.0."),
                                ({}, ["--base", trained, "--to", "npz"], "alone")):
        with open(config, "w") as f:
            json.dump({**settings, **change}, f)
        os.path.exists(out) and os.unlink(out)
        done = run("convert", adapter, "-o", out, *words)
        if said:
            yield "refused: " + said, "" if done.returncode and said in done.stderr and not os.path.exists(out) else done.stderr or "accepted"
        else:
            alpha = read_gguf(out)[0]["adapter.lora.alpha"]
            yield "alpha of rsLoRA is divided by the root of r", "" if abs(alpha / 3 - 6 / 3 ** 0.5) < 1e-6 else str(alpha)


REFUSED = {"qwen2:window=8": "window=8", "gemma2:windowed=y": "windowed=y", "gemma3:score_dim=8": "score_dim=8", "gpt:bias=no": "bias=no",
           "gemma2:score_cap=0": "score_cap=0", "phi3:rope=linear:2": "rope=linear:2", "qwen3:attention_bias=yes": "attention_bias=yes",
           "smollm3:positions=n": "positions=n", "qwen3:rope=llama3:8:1:4:32": "rope=llama3"}


def refused(folder):
    """Options, settings and tokenizers that llama.cpp does not have."""
    trained, _ = train(folder, "phi3")
    out = os.path.join(folder, "out.gguf")
    yield "--dtype", "" if run("convert", trained, "-o", out, "--dtype", "fp16").returncode == 2 else "accepted"
    yield "--type without gguf", "" if run("convert", trained, "-o", out + ".npz", "--type", "f16").returncode == 2 else "accepted"
    hf = os.path.join(folder, "hf")
    run("convert", trained, "--to", "hf", "-o", hf)
    weights, name = os.path.join(hf, "model.safetensors"), "model.layers.1.self_attn.o_proj.weight"
    with open(weights, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(size)), bytearray(f.read())
    del header["__metadata__"]  # with the checksums
    text = json.dumps(header).encode()
    for number, kind, said in ((float("nan"), "q8_0", "NaN or Inf, which blocks of q8_0 do not have"), (-8321040.0, "q8_0", "numbers that are beyond the range of q8_0"),
                               (524160.0, "q4_0", "numbers that are beyond the range of q4_0")):
        struct.pack_into("<f", data, header[name]["data_offsets"][0], number)
        write(weights, struct.pack("<Q", len(text)) + text + data)
        done = run("convert", hf, "-o", out, "--type", kind)
        said = f"tensor 'blk.1.attn_output.weight': it holds {said}"
        yield f"{number} in blocks of {kind}", "" if done.returncode == 1 and said in done.stderr and not os.path.exists(out) else done.stderr
    for field, value in (("normalizer", {"type": "Lowercase"}), ("pre_tokenizer", {"type": "Whitespace"})):
        tok = tokenizer("characters")
        tok[field] = value
        with open(os.path.join(hf, "tokenizer.json"), "w") as f:
            json.dump(tok, f)
        done = run("convert", hf, "-o", out)
        said = "'%s' of type '%s'" % (field, value["type"])
        yield field, "" if done.returncode == 1 and said in done.stderr and not os.path.exists(out) else done.stderr
    for i, (spec, said) in enumerate(tap.one_in(3, REFUSED.items())):
        name, _, more = spec.partition(":")
        made = os.path.join(folder, "run%d" % i)
        done = subprocess.run([GTRAIN, "train", "--model", "%s:layers=2,width=32,heads=2,block=16,vocab=64,%s" % (name, more), "--data", "random", "--steps", "1",
                               "--batch", "1", "--threads", "1", "--out", made, "-q"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        done = run("convert", made, "-o", out)
        yield spec, "" if done.returncode == 1 and "does not compute" in done.stderr and said in done.stderr and not os.path.exists(out) else done.stderr


GREEDY = """
import json, sys, xllamacpp as x
p = x.CommonParams()
p.model.path, p.n_ctx, p.n_parallel, p.warmup, p.verbosity, p.cpuparams.n_threads, p.fit_params = sys.argv[1], 64, 1, False, -1, 1, False
p.cache_type_k = p.cache_type_v = x.ggml_type.GGML_TYPE_F32
if sys.argv[2:]:
    p.lora_adapters = [x.CommonAdapterLoraInfo(sys.argv[2], 1.0)]
p.flash_attn_type = x.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
done = x.Server(p).handle_completions({"prompt": "the cat", "n_predict": 16, "temperature": 0, "top_k": 1, "cache_prompt": False})
print(json.dumps((done if isinstance(done, dict) else json.loads(done))))
"""


def greedy(folder):
    """llama.cpp writes the same text, also with an adapter."""
    same = []
    for family in FAMILIES if LLAMA_CPP else ():
        place, out, small = os.path.join(folder, family), os.path.join(folder, "out.gguf"), os.path.join(folder, "adapter.gguf")
        os.mkdir(place)
        trained, adapter = adapt(place, family)
        texts = []
        for more, files in (([], [out]), (["--lora", adapter], [out, small])):
            done = run("convert", *([adapter, "--base", trained] if more else [trained]), "-o", files[-1])
            words = [GTRAIN, "generate", "--ckpt", trained, "--prompt", "the cat", "--tokens", "16", "--temperature", "0", "-q", "--threads", "1", *more]
            own = subprocess.run(words, capture_output=True, check=False).stdout.decode(errors="replace")
            got = subprocess.run([LLAMA_CPP, "-c", GREEDY, *files], capture_output=True, text=True, check=False)
            reply = json.loads(got.stdout) if got.returncode == 0 else {}
            text = "the cat" + (reply.get("content") or reply.get("choices", [{}])[0].get("text", ""))
            texts.append(text)
            yield family + (" with an adapter" if more else ""), \
                "" if own.rstrip("\n") == text.rstrip("\n") else "%r, not %r: %s%s" % (own, text, done.stderr, got.stderr[-500:])
        same += [family] if texts[0] == texts[1] else []
    yield "most adapters change the text", "" if len(same) < 3 else str(same)
    if not LLAMA_CPP:
        yield "llama.cpp", tap.Skip("LLAMA_CPP_PYTHON names no python with the package xllamacpp")


if __name__ == "__main__":
    sys.exit(tap.run([blocks, commands, writing, adapters, refused, greedy], GTRAIN, sys.argv[1:]))
