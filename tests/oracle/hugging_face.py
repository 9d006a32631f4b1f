#!/usr/bin/python3
"""
hugging_face.py - folders of Hugging Face's transformers, read and written, against that package (TAP).

transformers makes small random models and saves them; gtrain measures the same loss and probabilities from the folder, trains on,
and writes a folder that transformers opens without a missing or unexpected key, to the same results. HF_PYTHON names a python that
has the packages transformers, tokenizers and safetensors, where this one has not.
"""
import json
import os
import struct
import subprocess
import sys
import zlib

# In place of this folder, whose safetensors.py is not the package.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common")
import tap
from philox import philox

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", HF_HUB_DISABLE_PROGRESS_BARS="1")
try:
    import tokenizers
    import torch
    import transformers
except ImportError:
    other = os.environ.pop("HF_PYTHON", None)
    if other:
        os.execv(other, [other, *sys.argv])
    print("1..1\nok 1 - folders are transformers' # SKIP transformers: no such package; HF_PYTHON names a python that has it")
    sys.exit(0)

import numpy as np
import safetensors.torch
import transformers.utils.logging
from transformers import (ConvNextConfig, ConvNextForImageClassification, ConvNextV2Config, ConvNextV2ForImageClassification, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel,
                          GPTNeoXConfig, GPTNeoXForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          MixtralConfig, MixtralForCausalLM, MobileNetV2Config, MobileNetV2ForImageClassification, Olmo2Config, Olmo2ForCausalLM, OlmoeConfig, OlmoeForCausalLM, Phi3Config,
                          Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM, ResNetConfig, ResNetForImageClassification, SmolLM3Config, SmolLM3ForCausalLM,
                          ViTConfig, ViTForImageClassification)

transformers.utils.logging.disable_progress_bar()
GTRAIN = os.environ.get("GTRAIN", "build/gtrain")
VOCAB, SIDE, CLASSES = 97, 32, 5
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
GPT2 = {"n_layer": 2, "n_head": 2, "n_embd": 32, "n_positions": 24, "vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": None}
LLAMA = {**SMALL, "max_position_embeddings": 24, "vocab_size": VOCAB, "bos_token_id": None, "eos_token_id": None}
VIT = {**SMALL, "image_size": SIDE, "patch_size": 8, "num_labels": CLASSES}
CONVNEXT = {"num_labels": CLASSES, "depths": [1, 2, 1, 1], "hidden_sizes": [8, 12, 16, 24]}
MOBILENET = {"num_labels": CLASSES, "depth_multiplier": 0.35, "classifier_dropout_prob": 0.0, "image_size": SIDE}
RESNET = {"num_labels": CLASSES, "layer_type": "basic", "depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512]}

TEXT = [
    ("gpt2", GPT2LMHeadModel, GPT2Config(**GPT2)),
    ("gpt2, other settings", GPT2LMHeadModel, GPT2Config(**{**GPT2, "n_inner": 56}, activation_function="gelu", layer_norm_epsilon=0.1)),
    ("llama", LlamaForCausalLM, LlamaConfig(**LLAMA)),
    ("llama, other settings", LlamaForCausalLM, LlamaConfig(**LLAMA, num_key_value_heads=2, tie_word_embeddings=True, rms_norm_eps=0.1,
                                                             rope_parameters={"rope_type": "default", "rope_theta": 300.0})),
]
# Decoders of other families: windows and original lengths are shorter than the text, so that they count.
BLOCK = 24
DECODER = {**LLAMA, "max_position_embeddings": BLOCK, "num_key_value_heads": 2, "pad_token_id": None, "attn_implementation": "eager"}
NEOX = {k: v for k, v in DECODER.items() if k != "num_key_value_heads"}


def rope(kind, **numbers):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 100.0, **numbers}}


DECODERS = [
    ("llama, llama3", LlamaForCausalLM, LlamaConfig(**DECODER, **rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                                      original_max_position_embeddings=12))),
    ("llama, yarn", LlamaForCausalLM, LlamaConfig(**DECODER, **rope("yarn", factor=4.0, original_max_position_embeddings=12))),
    ("llama, yarn with all numbers", LlamaForCausalLM, LlamaConfig(**DECODER, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=12, beta_fast=8.0, beta_slow=2.0, mscale=0.7, mscale_all_dim=0.9))),
    ("llama, linear and biases", LlamaForCausalLM, LlamaConfig(**DECODER, attention_bias=True, mlp_bias=True, head_dim=12,
                                                               **rope("linear", factor=2.0))),
    ("llama, dynamic", LlamaForCausalLM, LlamaConfig(**DECODER, **rope("dynamic", factor=2.0))),
    ("mistral", MistralForCausalLM, MistralConfig(**DECODER, head_dim=10, sliding_window=7)),
    ("mistral without a window", MistralForCausalLM, MistralConfig(**DECODER, sliding_window=None)),
    ("qwen2", Qwen2ForCausalLM, Qwen2Config(**DECODER)),
    ("qwen2 with a window", Qwen2ForCausalLM, Qwen2Config(**DECODER, use_sliding_window=True, sliding_window=5, max_window_layers=1)),
    ("qwen3", Qwen3ForCausalLM, Qwen3Config(**DECODER, head_dim=12)),
    ("gemma2", Gemma2ForCausalLM, Gemma2Config(**DECODER, head_dim=12, query_pre_attn_scalar=20, sliding_window=6,
                                               attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    ("gemma2 without caps", Gemma2ForCausalLM, Gemma2Config(**DECODER, head_dim=8, sliding_window=6, attn_logit_softcapping=None,
                                                            final_logit_softcapping=None)),
    ("gemma3", Gemma3ForCausalLM, Gemma3TextConfig(**{**DECODER, "num_hidden_layers": 3}, head_dim=12, query_pre_attn_scalar=20,
                                                   sliding_window=6, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                                   rope_parameters={"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                                                                    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})),
    ("phi3", Phi3ForCausalLM, Phi3Config(**DECODER, sliding_window=9)),
    ("phi3, a part rotated", Phi3ForCausalLM, Phi3Config(**DECODER, rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                                                                     "partial_rotary_factor": 0.5})),
    ("olmo2", Olmo2ForCausalLM, Olmo2Config(**DECODER)),
    ("gpt_neox", GPTNeoXForCausalLM, GPTNeoXConfig(**NEOX)),
    ("gpt_neox, one after the other", GPTNeoXForCausalLM, GPTNeoXConfig(**NEOX, use_parallel_residual=False, attention_bias=False,
                                                                        rope_parameters={"rope_type": "default", "rope_theta": 100.0,
                                                                                         "partial_rotary_factor": 0.5})),
    ("mixtral", MixtralForCausalLM, MixtralConfig(**DECODER, head_dim=12, num_local_experts=4, num_experts_per_tok=2)),
    ("mixtral with a window and one expert of each token", MixtralForCausalLM, MixtralConfig(**DECODER, sliding_window=7, num_local_experts=3, num_experts_per_tok=1)),
    ("qwen3_moe", Qwen3MoeForCausalLM, Qwen3MoeConfig(**DECODER, head_dim=12, moe_intermediate_size=20, num_experts=6, num_experts_per_tok=3, norm_topk_prob=True)),
    ("qwen3_moe, as the weights are", Qwen3MoeForCausalLM, Qwen3MoeConfig(**DECODER, moe_intermediate_size=20, num_experts=4, num_experts_per_tok=2)),
    ("olmoe", OlmoeForCausalLM, OlmoeConfig(**DECODER, num_experts=5, num_experts_per_tok=2)),
    ("olmoe, other settings", OlmoeForCausalLM, OlmoeConfig(**DECODER, num_experts=5, num_experts_per_tok=5, norm_topk_prob=True, attention_bias=True)),
    ("smollm3", SmolLM3ForCausalLM, SmolLM3Config(**DECODER, no_rope_layers=[1, 0])),
    ("smollm3 with windows", SmolLM3ForCausalLM, SmolLM3Config(**DECODER, no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=5)),
]
IMAGES = [
    ("vit", ViTForImageClassification, ViTConfig(**VIT)),
    ("vit, other settings", ViTForImageClassification, ViTConfig(**{**VIT, "patch_size": 4}, layer_norm_eps=0.1)),
    ("resnet18", ResNetForImageClassification, ResNetConfig(**RESNET)),
    ("resnet50", ResNetForImageClassification, ResNetConfig(num_labels=CLASSES)),
    ("convnext", ConvNextForImageClassification, ConvNextConfig(**CONVNEXT, layer_norm_eps=0.1)),
    ("mobilenet_v2", MobileNetV2ForImageClassification, MobileNetV2Config(**MOBILENET)),
    ("mobilenet_v2, other settings", MobileNetV2ForImageClassification, MobileNetV2Config(**{**MOBILENET, "depth_multiplier": 1.4}, tf_padding=False,
                                                                                          finegrained_output=False, layer_norm_eps=0.01)),
    ("convnextv2", ConvNextV2ForImageClassification, ConvNextV2Config(**CONVNEXT)),
]


def gtrain(*args):
    done = subprocess.run([GTRAIN, *args], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("gtrain %s: %s" % (" ".join(args), done.stderr))
    return done.stdout


def make(cls, config, seed=0):
    """A model whose every value is drawn, norms and running statistics included."""
    torch.manual_seed(seed)
    net = cls(config).eval()
    for name, p in net.named_parameters():
        p.data.add_(torch.randn_like(p) * 0.05)
    for name, b in net.named_buffers():
        if name.endswith("running_mean"):
            b.normal_(0, 0.1)
        elif name.endswith("running_var"):
            b.uniform_(0.5, 2)
    return net


def same(found, wanted, what, bound=1e-5):
    worst = max(abs(f - w) / max(1, abs(w)) for f, w in zip(found, wanted))
    return "" if worst <= bound and len(found) == len(wanted) else "%s: %r, not %r" % (what, found, wanted)


def reopened(cls, folder):
    net, info = cls.from_pretrained(folder, output_loading_info=True, local_files_only=True)
    wrong = {k: v for k, v in info.items() if v}
    return net.eval(), "" if not wrong else "loading %s: %r" % (folder, wrong)


# ---- text ----

def write_tokens(path, block, windows, seed=1):
    ids = np.random.RandomState(seed).randint(0, VOCAB, block * windows + 1).astype(np.uint16)
    ids.tofile(path)
    return torch.tensor(ids.astype(np.int64))


def losses_of(net, ids, block):
    """Of each window."""
    with torch.no_grad():
        return [torch.nn.functional.cross_entropy(net(ids[i:i + block][None]).logits[0], ids[i + 1:i + block + 1]).item()
                for i in range(0, len(ids) - 1, block)]


def mean_loss(*args):
    return [json.loads(gtrain("eval", *args, "--json", "-q"))["loss"]]


def text_models(folder):
    data = os.path.join(folder, "t.bin")
    for i, (name, cls, config) in enumerate(TEXT):
        hf, run, back, single = (os.path.join(folder, "%s%d" % (kind, i)) for kind in ("hf", "run", "back", "pickle"))
        net = make(cls, config)
        block = 24
        net.save_pretrained(hf, max_shard_size="20KB" if i % 2 else "5GB")
        ids = write_tokens(data, block, 3)
        yield "%s: the loss is transformers'" % name, same(mean_loss("--ckpt", hf, "--data", "tokens:" + data),
                                                           [np.mean(losses_of(net, ids, block))], "loss")
        gtrain("train", "--model", hf, "--init-from", hf, "--data", "tokens:" + data, "--steps", "3", "--batch", "2", "--out", run, "-q")
        with open(os.path.join(run, "config.json")) as f:
            model = json.load(f)["model"]
        yield "%s: a run keeps the settings" % name, "" if "=" in model and "/" not in model else model
        gtrain("ckpt", "convert", run, "--to", "hf", "-o", back, "-q", *(["--shard-size", "20K"] if i % 2 else []))
        after, wrong = reopened(cls, back)
        wrong = wrong or same(mean_loss("--ckpt", run, "--data", "tokens:" + data), [np.mean(losses_of(after, ids, block))], "loss")
        yield "%s: transformers opens what was trained, to the same loss" % name, wrong
        yield "%s: and so does gtrain" % name, same(mean_loss("--ckpt", back, "--data", "tokens:" + data),
                                                    mean_loss("--ckpt", run, "--data", "tokens:" + data), "loss", 0)
        os.makedirs(single)
        torch.save(net.state_dict(), os.path.join(single, "pytorch_model.bin"))
        config.save_pretrained(single)
        yield "%s: pytorch_model.bin" % name, same(mean_loss("--ckpt", single, "--data", "tokens:" + data),
                                                   [np.mean(losses_of(net, ids, block))], "loss")


# ---- decoders ----

WINDOW = 0x40000004  # GT_RNG_WINDOW of lib/base/philox.h
MODES = [("ddp", 2, ["--parallel", "ddp"]), ("zero3", 2, ["--parallel", "zero3"]), ("tensor", 4, ["--tensor-parallel", "2"]),
         ("a pipeline", 4, ["--pipeline-parallel", "2", "--chunks", "2"])]


def shifted(pairs, step):
    """The pairs of the only window, a ring, from the place on where gtrain begins in this epoch."""
    words = philox(0, np.array([[0, 0, WINDOW, step]], dtype=np.uint64))[0]
    return pairs.roll(-(((int(words[1]) << 32 | int(words[0])) * BLOCK) >> 64))


def torch_curve(net, ids, steps, lr):
    """The losses of SGD on one window, which is an epoch."""
    losses = []
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    net.train()
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(shifted(ids[:-1], step)[None]).logits[0], shifted(ids[1:], step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    return losses


def curve(hf, data, run, steps, lr, batch, *more):
    gtrain("train", "--model", hf, "--data", "tokens:" + data, "--steps", str(steps), "--batch", str(batch), "--warmup", "0", "--optimizer", "sgd", "--lr", str(lr),
           "--momentum", "0", "--weight-decay", "0", "--lr-schedule", "constant", "--clip", "0", "--log-every", "1", "--out", run, "-q", *more)
    with open(os.path.join(run, "metrics.jsonl")) as f:
        rows = [json.loads(line) for line in f]
    return [row["loss"] for row in rows if "loss" in row][:steps]


def apart_from(net, ckpt, ids, folder):
    """How far the log-probabilities of all tokens after a text are from the network's, in their order."""
    path = os.path.join(folder, "prompt.txt")
    with open(path, "w") as f:
        f.write("the lazy dog\n")
    rows = json.loads(gtrain("predict", "--ckpt", ckpt, "--json", "--top", "1000", path))["predictions"][0]["classes"]
    with torch.no_grad():
        wanted = net(torch.tensor([ids])).logits[0, -1].log_softmax(-1).sort(descending=True).values
    found = torch.tensor([row["probability"] for row in rows]).log()
    return "" if len(found) == len(wanted) and (found - wanted).abs().max() <= 1e-5 else "%r, not %r" % (found, wanted)


def decoders(folder):
    """Losses, logits, greedy text through the cache, the curve on one rank and on two, and the folder that is written back."""
    data, one = os.path.join(folder, "t.bin"), os.path.join(folder, "one.bin")
    for i, (name, cls, config) in enumerate(DECODERS):
        hf, run, back = (os.path.join(folder, "%s%d" % (kind, i)) for kind in ("hf", "run", "back"))
        os.makedirs(hf)
        t = bpe(os.path.join(hf, "tokenizer.json"), False)
        config.vocab_size = t.get_vocab_size()
        net = make(cls, config, i)
        net.save_pretrained(hf)
        ids = write_tokens(data, BLOCK, 4)
        yield "%s: the loss is transformers'" % name, same(mean_loss("--ckpt", hf, "--data", "tokens:" + data),
                                                           [np.mean(losses_of(net, ids, BLOCK))], "loss")
        yield "%s: so are the logits after a text" % name, apart_from(net, hf, t.encode("the lazy dog").ids, folder)
        before = t.encode("the lazy", add_special_tokens=False).ids
        wanted = "the lazy" + t.decode(greedy(net, before, BLOCK - len(before), []), skip_special_tokens=False)
        found = json.loads(gtrain("generate", "--ckpt", hf, "--prompt", "the lazy", "--tokens", str(BLOCK - len(before)), "--temperature", "0",
                                  "--json", "-q"))["text"]
        yield "%s: greedy text through the cache" % name, "" if found == wanted else "%r, not %r" % (found, wanted)
        window = write_tokens(one, BLOCK, 1)
        yield "%s: the curve of SGD is PyTorch's" % name, same(curve(hf, one, run, 20, 0.1, 1), torch_curve(net, window, 20, 0.1),
                                                               "losses", 1e-4)
        gtrain("ckpt", "convert", run, "--to", "hf", "-o", back, "-q")
        after, wrong = reopened(cls, back)
        wrong = wrong or same(mean_loss("--ckpt", run, "--data", "tokens:" + data), [np.mean(losses_of(after, ids, BLOCK))], "loss")
        yield "%s: transformers opens what was trained, to the same loss" % name, wrong
        yield "%s: and so does gtrain" % name, same(mean_loss("--ckpt", back, "--data", "tokens:" + data),
                                                    mean_loss("--ckpt", run, "--data", "tokens:" + data), "loss", 0)
        whole = curve(hf, data, run + "-whole", 4, 0.1, 4)
        for mode, batch, options in MODES:
            found = curve(hf, data, "%s-%s" % (run, mode), 4, 0.1, batch, "--nproc", "2", *options)
            yield "%s: %s on two ranks" % (name, mode), same(found, whole, "losses", 1e-5)


def headless(folder):
    """GPT2Model's names lack "transformer."."""
    data, hf = os.path.join(folder, "t.bin"), os.path.join(folder, "hf")
    net = make(GPT2LMHeadModel, GPT2Config(**GPT2))
    net.transformer.save_pretrained(hf)
    ids = write_tokens(data, 24, 3)
    wanted = [np.mean(losses_of(net, ids, 24))]
    yield "GPT2Model's weights are a GPT2LMHeadModel's", same(mean_loss("--ckpt", hf, "--data", "tokens:" + data), wanted, "loss")
    os.remove(os.path.join(hf, "model.safetensors"))
    masks = {"h.%d.attn.%s" % (i, leaf): torch.ones(1, 1, 24, 24).tril() for i in range(2) for leaf in ("bias", "masked_bias")}
    torch.save({**net.transformer.state_dict(), **masks}, os.path.join(hf, "pytorch_model.bin"))
    yield "and so are those of older files, with masks", same(mean_loss("--ckpt", hf, "--data", "tokens:" + data), wanted, "loss")


# ---- texts with a tokenizer ----

def bpe(path, begins):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>", "<s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    t.train_from_iterator(["the quick brown fox jumps over the lazy dog " * 3], trainer)
    if begins:
        t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", t.token_to_id("<s>"))])
    t.save(path)
    return t


def greedy(net, ids, count, ends):
    """The ids that follow, by argmax, up to one of `ends`."""
    out = []
    with torch.no_grad():
        while len(out) < count:
            out.append(int(net(torch.tensor([ids + out])[:, -net.config.max_position_embeddings:]).logits[0, -1].argmax()))
            if out[-1] in ends:
                return out[:-1]
    return out


def generation(folder):
    """The token before texts, and the one behind them: by the tokenizer, by tokenizer_config.json, and in a run."""
    for name, begins, adds in (("no token begins texts", False, None), ("the post_processor begins texts", True, None),
                               ("add_bos_token does", False, True), ("add_bos_token says that none does", True, False)):
        hf, run, back = (os.path.join(folder, name + kind) for kind in ("", " run", " back"))
        os.makedirs(hf)
        t = bpe(os.path.join(hf, "tokenizer.json"), begins)
        config = LlamaConfig(**{**LLAMA, "vocab_size": t.get_vocab_size(), "max_position_embeddings": 64, "bos_token_id": t.token_to_id("<s>")})
        net = make(LlamaForCausalLM, config, 3)
        before = ([t.token_to_id("<s>")] if (begins if adds is None else adds) else []) + t.encode("the lazy", add_special_tokens=False).ids
        whole = greedy(net, before, 12, [])
        end = whole[7]
        config.eos_token_id = [end, 1]
        net.generation_config = transformers.GenerationConfig(eos_token_id=[end], bos_token_id=config.bos_token_id)
        net.save_pretrained(hf)
        if adds is not None:
            with open(os.path.join(hf, "tokenizer_config.json"), "w") as f:
                json.dump({"add_bos_token": adds}, f)
        wanted = "the lazy" + t.decode(greedy(net, before, 12, [end]), skip_special_tokens=False)
        args = ["--prompt", "the lazy", "--tokens", "12", "--temperature", "0", "--json", "-q"]
        found = json.loads(gtrain("generate", "--ckpt", hf, *args))["text"]
        yield "%s: generate writes transformers' text up to its end" % name, "" if found == wanted else "%r, not %r" % (found, wanted)
        text = os.path.join(folder, "t.txt")
        with open(text, "w") as f:
            f.write("the quick brown fox jumps over the lazy dog. " * 20)
        gtrain("train", "--model", hf, "--init-from", hf, "--data", "text:" + text, "--steps", "1", "--lr", "1e-9", "--batch", "1", "--out", run, "-q")
        found = json.loads(gtrain("generate", "--ckpt", run, *args))["text"]
        yield "%s: a run knows both" % name, "" if found == wanted else "%r, not %r" % (found, wanted)
        gtrain("ckpt", "convert", run, "--to", "hf", "-o", back, "-q")
        found = json.loads(gtrain("generate", "--ckpt", back, *args))["text"]
        theirs = transformers.AutoTokenizer.from_pretrained(back, local_files_only=True)
        ids = theirs("the lazy", add_special_tokens=False).input_ids
        yield "%s: its folder does" % name, ("" if found == wanted else "%r, not %r" % (found, wanted)) or \
            ("" if ids == t.encode("the lazy", add_special_tokens=False).ids else "transformers reads %r" % ids)
        ids = theirs("the lazy").input_ids
        yield "%s: transformers puts the same token before a text" % name, "" if ids == before else "%r, not %r" % (ids, before)


# ---- images ----

def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def write_images(folder, seed=2, count=CLASSES, side=SIDE):
    """PNG files in a folder for each class; uint8 [N, 3, side, side], in their order, and the classes."""
    rng, pixels, classes = np.random.RandomState(seed), [], []
    for i in range(count):
        c = i % CLASSES
        os.makedirs(os.path.join(folder, "class %d" % c), exist_ok=True)
        image = rng.randint(0, 256, (side, side, 3)).astype(np.uint8)
        rows = b"".join(b"\0" + row.tobytes() for row in image)
        with open(os.path.join(folder, "class %d" % c, "%d.png" % (i // CLASSES)), "wb") as f:
            f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                    chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
        pixels.append(image.transpose(2, 0, 1))
        classes.append(c)
    return torch.tensor(np.stack(pixels)), torch.tensor(classes)


MEAN, STD = [0.5, 0.4, 0.3], [0.5, 0.25, 0.2]


def image_results(net, pixels, classes):
    x = (pixels.float() / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    with torch.no_grad():
        logits = net(x).logits
    return [torch.nn.functional.cross_entropy(logits, classes).item()], logits.softmax(1).flatten().tolist()


def probabilities(ckpt, images):
    """Of all classes of each image, in the order of the classes."""
    files = [os.path.join(images, "class %d" % c, "0.png") for c in range(CLASSES)]
    out = []
    for sample in json.loads(gtrain("predict", "--ckpt", ckpt, "--top", str(CLASSES), "--json", "-q", *files))["predictions"]:
        known = {c["class"]: c["probability"] for c in sample["classes"]}
        out += [known["class %d" % c] for c in range(CLASSES)]
    return out


def image_models(folder):
    images = os.path.join(folder, "images")
    pixels, classes = write_images(images)
    for i, (name, cls, config) in enumerate(IMAGES):
        hf, run, back = (os.path.join(folder, "%s%d" % (kind, i)) for kind in ("hf", "run", "back"))
        config.id2label = {c: "class %d" % c for c in range(CLASSES)}
        config.label2id = {v: k for k, v in config.id2label.items()}
        net = make(cls, config)
        net.save_pretrained(hf)
        with open(os.path.join(hf, "preprocessor_config.json"), "w") as f:
            json.dump({"do_resize": True, "size": {"height": SIDE, "width": SIDE}, "do_rescale": True, "rescale_factor": 1 / 255,
                       "do_normalize": True, "image_mean": MEAN, "image_std": STD}, f)
        loss, each = image_results(net, pixels, classes)
        yield "%s: the loss is transformers'" % name, same(mean_loss("--ckpt", hf, "--data", "images:" + images), loss, "loss")
        yield "%s: so are the probabilities" % name, same(probabilities(hf, images), each, "probabilities")
        gtrain("train", "--model", hf, "--init-from", hf, "--data", "images:" + images, "--steps", "1", "--batch", "5", "--lr", "1e-3",
               "--out", run, "-q")
        gtrain("ckpt", "convert", run, "--to", "hf", "-o", back, "-q")
        after, wrong = reopened(cls, back)
        loss, each = image_results(after, pixels, classes)
        yield "%s: transformers opens what was trained, to the same loss" % name, \
            wrong or same(mean_loss("--ckpt", run, "--data", "images:" + images), loss, "loss")
        yield "%s: and so does gtrain, with classes and normalization" % name, same(probabilities(back, images), each, "probabilities")
        yield "%s: names of classes" % name, "" if after.config.id2label == config.id2label else repr(after.config.id2label)


# Batch norms have the statistics of a whole batch, so ranks share them, and chunks of a pipeline are not compared; convolutions are not shared.
NORMED_MODES = [("recomputed", 1, ["--recompute", "all"]), ("ddp", 2, ["--parallel", "ddp", "--sync-bn"]), ("zero3", 2, ["--parallel", "zero3", "--sync-bn"])]
IMAGE_MODES = [("recomputed", 1, ["--recompute", "all"]), ("ddp", 2, ["--parallel", "ddp"]), ("zero3", 2, ["--parallel", "zero3"]),
               ("tensor", 2, ["--tensor-parallel", "2"]), ("a pipeline", 2, ["--pipeline-parallel", "2", "--chunks", "2"])]


def image_curves(folder):
    """20 steps of SGD with all images have PyTorch's losses, on one rank and on two; names of timm."""
    images = os.path.join(folder, "images")
    pixels, classes = write_images(images, count=CLASSES + 1)
    x = (pixels.float() / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    data = "images:%s,size=%d,mean=%s,std=%s" % (images, SIDE, "/".join(map(str, MEAN)), "/".join(map(str, STD)))
    for name, cls, config in [row for row in IMAGES if row[0].startswith("convnext")]:
        hf, wanted = os.path.join(folder, name), []
        net = make(cls, config, 5)
        net.save_pretrained(hf)
        before = {k: v.clone() for k, v in net.state_dict().items()}
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        net.train()
        for _ in range(20):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x).logits, classes)
            loss.backward()
            optimizer.step()
            wanted.append(loss.item())

        def losses(run, ranks, *more):
            batch = len(classes) // (ranks if more[0] == "--parallel" else 1)
            gtrain("train", "--model", hf, "--data", data, "--steps", "20", "--batch", str(batch), "--warmup", "0", "--optimizer", "sgd", "--lr",
                   "0.05", "--momentum", "0", "--weight-decay", "0", "--lr-schedule", "constant", "--clip", "0", "--log-every", "1",
                   "--out", run, "-q", "--nproc", str(ranks), *more)
            with open(os.path.join(run, "metrics.jsonl")) as f:
                return [row["loss"] for row in map(json.loads, f) if row["split"] == "train"]
        for mode, ranks, options in [("one rank", 1, ["--recompute", "none"]), *IMAGE_MODES]:
            yield "%s, %s: the curve is PyTorch's" % (name, mode), same(losses("%s-%s" % (hf, mode), ranks, *options), wanted, "losses", 1e-4)
        if name == "convnext":
            file = os.path.join(folder, "timm.pth")
            torch.save({timm_convnext_name(k): v for k, v in before.items()}, file)
            spec = "convnext:depths=%s,widths=%s,eps=%g" % ("-".join(map(str, config.depths)), "-".join(map(str, config.hidden_sizes)), config.layer_norm_eps)
            yield "--names timm of a ConvNeXt", same(mean_loss("--ckpt", file, "--model", spec, "--data", data, "--names", "timm"),
                                                     mean_loss("--ckpt", hf, "--data", data), "loss", 0)


def image_steps(folder):
    """A step of a MobileNet is as near to that in float64 as PyTorch's in float32: its curve depends on each rounding, by way of 52 batch norms."""
    images = os.path.join(folder, "images")
    pixels, classes = write_images(images, count=24, side=96)
    data = "images:%s,size=96,mean=%s,std=%s" % (images, "/".join(map(str, MEAN)), "/".join(map(str, STD)))
    for name, cls, config in [row for row in IMAGES if row[0].startswith("mobilenet")]:
        hf, gradients = os.path.join(folder, name), []
        net = make(cls, config, 5)
        net.save_pretrained(hf)
        before = {k: p.detach().double() for k, p in net.named_parameters()}
        for dtype in (torch.float32, torch.float64):
            net = net.to(dtype).train()
            x = (pixels.to(dtype) / 255 - torch.tensor(MEAN, dtype=dtype)[:, None, None]) / torch.tensor(STD, dtype=dtype)[:, None, None]
            net.zero_grad()
            torch.nn.functional.cross_entropy(net(x).logits, classes).backward()
            gradients.append({k: p.grad.double().clone() for k, p in net.named_parameters()})
        theirs, exact = gradients
        largest = max(v.norm().item() for v in exact.values())

        def apart(found):
            return max((found[k] - v).norm().item() / max(v.norm().item(), 1e-3 * largest) for k, v in exact.items())
        for mode, ranks, options in [("one rank", 1, []), *NORMED_MODES]:
            run = "%s-%s" % (hf, mode)
            gtrain("train", "--model", hf, "--data", data, "--steps", "1", "--batch", str(24 // ranks), "--warmup", "0", "--optimizer", "sgd", "--lr", "0.25",
                   "--momentum", "0", "--weight-decay", "0", "--lr-schedule", "constant", "--clip", "0", "--out", run, "-q", "--nproc", str(ranks), *options)
            after = torch.load(os.path.join(run, "model.pth"))
            far = apart({k: (v - after[k].double()) / 0.25 for k, v in before.items()})
            yield "%s, %s: a step" % (name, mode), "" if far <= max(1e-4, 2 * apart(theirs)) else "%.1e, and PyTorch's %.1e" % (far, apart(theirs))


def timm_convnext_name(name):
    """timm's ConvNeXt, by its source; written apart from gtrain's tables."""
    for theirs, its in (("stem.0", "convnext.embeddings.patch_embeddings"), ("stem.1", "convnext.embeddings.layernorm"), ("head.norm", "convnext.layernorm"),
                        ("head.fc", "classifier")):
        if name.startswith(its):
            return theirs + name[len(its):]
    name = name[len("convnext.encoder."):].replace("downsampling_layer", "downsample").replace(".layers.", ".blocks.")
    for theirs, its in (("conv_dw", "dwconv"), ("norm", "layernorm"), ("mlp.fc1", "pwconv1"), ("mlp.fc2", "pwconv2"), ("gamma", "layer_scale_parameter")):
        name = name.replace(its, theirs)
    return name


# ---- names in single files ----

def timm_names(state, layers):
    """timm's VisionTransformer, by its source; written apart from gtrain's tables."""
    own = {"cls_token": state["vit.embeddings.cls_token"], "pos_embed": state["vit.embeddings.position_embeddings"]}
    pairs = {"patch_embed.proj": "vit.embeddings.patch_embeddings.projection", "norm": "vit.layernorm", "head": "classifier"}
    for i in range(layers):
        there = "vit.encoder.layer.%d." % i
        for leaf in ("weight", "bias"):
            own["blocks.%d.attn.qkv.%s" % (i, leaf)] = torch.cat([state["%sattention.attention.%s.%s" % (there, part, leaf)]
                                                                  for part in ("query", "key", "value")])
        for mine, its in (("attn.proj", "attention.output.dense"), ("norm1", "layernorm_before"), ("norm2", "layernorm_after"),
                          ("mlp.fc1", "intermediate.dense"), ("mlp.fc2", "output.dense")):
            pairs["blocks.%d.%s" % (i, mine)] = there + its
    for mine, its in pairs.items():
        for leaf in ("weight", "bias"):
            own["%s.%s" % (mine, leaf)] = state["%s.%s" % (its, leaf)]
    return own


def names(folder):
    """--names with a file, whose model and normalization the command line gives."""
    images, file = os.path.join(folder, "images"), os.path.join(folder, "w.pth")
    pixels, classes = write_images(images)
    net = make(ViTForImageClassification, ViTConfig(**VIT, layer_norm_eps=1e-6))
    loss, _ = image_results(net, pixels, classes)
    spec = "vit:layers=2,heads=4,width=32,hidden=48,patch=8,image=32"
    data = "images:%s,mean=%s,std=%s" % (images, "/".join(map(str, MEAN)), "/".join(map(str, STD)))
    net.save_pretrained(folder)
    saved = safetensors.torch.load_file(os.path.join(folder, "model.safetensors"))
    torch.save(net.state_dict(), file)
    yield "--names huggingface of a state_dict", same(mean_loss("--ckpt", file, "--model", spec, "--data", data, "--names", "huggingface"), loss, "loss")
    for program, state in (("huggingface", saved), ("timm", timm_names(saved, 2))):
        torch.save({k: v.clone() for k, v in state.items()}, file)
        yield "--names %s" % program, same(mean_loss("--ckpt", file, "--model", spec, "--data", data, "--names", program), loss, "loss")
        failed = subprocess.run([GTRAIN, "eval", "--ckpt", file, "--model", spec, "--data", data], capture_output=True, text=True)
        yield "without it the keys of %s are missing" % program, "" if failed.returncode and "keys are missing" in failed.stderr else failed.stderr
        del state["blocks.1.attn.qkv.bias" if program == "timm" else "vit.encoder.layer.1.attention.attention.key.bias"]
        torch.save(state, file)
        failed = subprocess.run([GTRAIN, "eval", "--ckpt", file, "--model", spec, "--data", data, "--names", program], capture_output=True, text=True)
        yield "a part that %s's file lacks is missing" % program, \
            "" if "1 keys are missing, the first is 'encoder.layers.encoder_layer_1.self_attention.in_proj_bias'" in failed.stderr else failed.stderr


if __name__ == "__main__":
    sys.exit(tap.run([text_models, decoders, headless, generation, image_models, image_curves, image_steps, names], GTRAIN, sys.argv[1:]))
