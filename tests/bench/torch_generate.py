"""torch_generate.py - time per token of GPT-2 in PyTorch with a key-value cache, timed on request.

torch_generate.py MODEL PROMPT TOKENS [--threads N] [--weights io|oi] [--vectors]

MODEL is gtrain's own spec of a GPT. The network is Hugging Face's GPT2LMHeadModel, written by hand for one text: keys and
values lie in tensors made once, a token is appended in place, and only the last position gets logits. --weights tells how linear
layers are stored: io, [in, out] as GPT-2's Conv1D, or oi, [out, in] as nn.Linear; with --vectors a single token is a vector, so that
layers are products of a matrix and a vector (gemv) in place of a matrix of one row (gemm). Each line of standard input is answered by a
line of JSON, {"prompt_s": .., "tokens_per_s": ..}, for a prompt of PROMPT tokens and TOKENS greedy ones behind it.
"""
import argparse
import json
import sys
import time

import torch
from torch.nn import functional as F

DEFAULTS = {"gpt2": {"layers": 12, "heads": 12, "width": 768, "block": 1024, "vocab": 50257},
            "gpt": {"layers": 4, "heads": 4, "width": 128, "block": 64, "vocab": 65}}
# scaled_dot_product_attention of PyTorch 2; 1.13 has it under another name, without the fast kernels.
ATTENTION = getattr(F, "scaled_dot_product_attention", None)


def attend(q, k, v, causal):
    """[heads, T, D] each."""
    if ATTENTION:
        return ATTENTION(q[None], k[None], v[None], is_causal=causal)[0]
    score = torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5
    if causal:
        score += torch.full(score.shape[1:], float("-inf")).triu(1)
    return torch.bmm(score.softmax(-1), v)


class GPT:
    def __init__(self, layers, heads, width, block, vocab, weights, vectors):
        self.heads, self.width, self.weights, self.vectors = heads, width, weights, vectors
        self.wte, self.wpe = self.matrix(vocab, width), self.matrix(block, width)
        self.norm = self.norm_of(width)
        self.layers = [{"ln_1": self.norm_of(width), "c_attn": self.linear(width, 3 * width),
                        "c_proj": self.linear(width, width), "ln_2": self.norm_of(width),
                        "fc": self.linear(width, 4 * width), "proj": self.linear(4 * width, width),
                        "keys": torch.zeros(heads, block, width // heads),
                        "values": torch.zeros(heads, block, width // heads)} for _ in range(layers)]

    @staticmethod
    def matrix(a, b):
        return torch.randn(a, b) * 0.02

    @staticmethod
    def norm_of(width):
        return torch.ones(width), torch.zeros(width)

    def linear(self, a, b):
        return (self.matrix(a, b) if self.weights == "io" else self.matrix(b, a)), torch.zeros(b)

    def project(self, x, layer):
        weight, bias = layer
        if self.vectors and len(x) == 1:
            return torch.addmv(bias, weight.t() if self.weights == "io" else weight, x[0])[None]
        return torch.addmm(bias, x, weight) if self.weights == "io" else F.linear(x, weight, bias)

    def normalize(self, x, norm):
        return F.layer_norm(x, (self.width,), *norm)

    def attention(self, x, layer, past):
        t = x.shape[0]
        q, k, v = (y.view(t, self.heads, -1).transpose(0, 1) for y in self.project(x, layer["c_attn"]).chunk(3, 1))
        layer["keys"][:, past:past + t], layer["values"][:, past:past + t] = k, v
        y = attend(q, layer["keys"][:, :past + t], layer["values"][:, :past + t], t > 1)
        return self.project(y.transpose(0, 1).reshape(t, self.width), layer["c_proj"])

    def next(self, ids, past):
        """The likeliest token behind ids, of which `past` others come before."""
        x = self.wte[ids] + self.wpe[past:past + len(ids)]
        for layer in self.layers:
            x = x + self.attention(self.normalize(x, layer["ln_1"]), layer, past)
            y = self.project(self.normalize(x, layer["ln_2"]), layer["fc"])
            x = x + self.project(F.gelu(y, approximate="tanh"), layer["proj"])
        x = self.normalize(x[-1:], self.norm)
        return (torch.mv(self.wte, x[0]) if self.vectors else F.linear(x, self.wte)).argmax()


def network(spec, weights, vectors):
    name, _, rest = spec.partition(":")
    if name not in DEFAULTS:
        sys.exit(f"torch_generate.py: no network '{spec}'")
    keys = {key: int(value) for key, value in (item.split("=") for item in rest.split(",") if item)}
    return GPT(**{**DEFAULTS[name], **keys}, weights=weights, vectors=vectors)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("prompt", type=int)
    parser.add_argument("tokens", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--weights", choices=["io", "oi"], default="oi")
    parser.add_argument("--vectors", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    with torch.inference_mode():
        net = network(args.model, args.weights, args.vectors)
        for _ in sys.stdin:
            began = time.perf_counter()
            token, past = net.next(torch.arange(args.prompt), 0), args.prompt
            first = time.perf_counter()
            for _ in range(args.tokens - 1):
                token = net.next(token[None], past)
                past += 1
            seconds = time.perf_counter() - first
            print(json.dumps({"prompt_s": first - began, "tokens_per_s": (args.tokens - 1) / seconds}), flush=True)


if __name__ == "__main__":
    main()
