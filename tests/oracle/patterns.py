"""patterns.py - networks that write norms, activations and attention out: both ways beside PyTorch.

With the faster ops and without them, the loss curve and the weights are PyTorch's in float64, and the plan names what was recognized.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from training import GTRAIN, TESTS  # noqa: E402: skips a python without torch
from beside import differences, dump  # noqa: E402
import exported  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import tap  # noqa: E402

STEPS, TOKENS, WORDS, WIDTH, HEADS, SHARED = 12, 8, 13, 16, 4, 2
SIZE = WIDTH // HEADS


def mean(x):
    return torch.mean(x, [-1], True)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(mean(x ** 2) + 1e-5))


class LayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(width) + 0.5), nn.Parameter(torch.randn(width) / 4)

    def forward(self, x):
        variance = mean((x - mean(x)) ** 2)
        return (x - mean(x)) / (variance + 1e-5) ** 0.5 * self.weight + self.bias


def split_heads(x, count):
    return torch.transpose(torch.reshape(x, [-1, TOKENS, count, SIZE]), 1, 2)


def join_heads(x):
    return torch.reshape(torch.transpose(x, 1, 2), [-1, TOKENS, WIDTH])


def turn(x):
    halves = torch.chunk(x, 2, -1)
    return torch.cat([-halves[1], halves[0]], -1)


def causal(ids):
    at = torch.cumsum(ids.new_ones([TOKENS]), 0)
    return torch.ge(torch.unsqueeze(at, 1), torch.unsqueeze(at, 0))


class Llama(nn.Module):
    """Two blocks; keys and values have fewer heads; cos and sin are tables."""

    def __init__(self):
        super().__init__()
        self.embed, self.head, self.norm = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False), RMSNorm(WIDTH)
        self.norms = nn.ModuleList(RMSNorm(WIDTH) for _ in range(4))
        self.q, self.o = [nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2)) for _ in range(2)]
        self.k, self.v = [nn.ModuleList(nn.Linear(WIDTH, SHARED * SIZE, bias=False) for _ in range(2)) for _ in range(2)]
        self.gate, self.up = [nn.ModuleList(nn.Linear(WIDTH, 24, bias=False) for _ in range(2)) for _ in range(2)]
        self.down = nn.ModuleList(nn.Linear(24, WIDTH, bias=False) for _ in range(2))
        self.register_buffer("rates", 100 ** -(torch.arange(0.0, SIZE, 2) / SIZE), persistent=False)

    @staticmethod
    def repeat(x, q):
        groups = torch.reshape(q, [-1, SHARED, HEADS // SHARED, TOKENS, SIZE])
        return torch.reshape(exported.spread(torch.unsqueeze(x, 2), groups), [-1, HEADS, TOKENS, SIZE])

    def forward(self, ids):
        x = self.embed(ids)
        angles = torch.unsqueeze(torch.cumsum(ids.new_ones([TOKENS]), 0) - 1, 1) * self.rates
        angles = torch.cat([angles, angles], -1)
        cos, sin = torch.cos(angles), torch.sin(angles)
        seen = causal(ids)
        for i in range(2):
            y = self.norms[2 * i](x)
            q, k, v = split_heads(self.q[i](y), HEADS), split_heads(self.k[i](y), SHARED), split_heads(self.v[i](y), SHARED)
            q, k = q * cos + turn(q) * sin, k * cos + turn(k) * sin
            x = x + self.o[i](join_heads(exported.attention(q, self.repeat(k, q), self.repeat(v, q), seen)))
            y = self.norms[2 * i + 1](x)
            x = x + self.down[i](F.silu(self.gate[i](y)) * self.up[i](y))
        return self.head(self.norm(x))


class GPT(nn.Module):
    """A block whose attention, norms and activation are written out. The mask is a buffer, and positions have no batch."""

    def __init__(self):
        super().__init__()
        self.embed, self.places, self.first, self.second = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH), LayerNorm(WIDTH), LayerNorm(WIDTH)
        self.qkv, self.proj, self.fc, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)
        self.weight, self.bias = nn.Parameter(torch.randn(WORDS, WIDTH) / 4), nn.Parameter(torch.randn(WORDS) / 4)
        self.register_buffer("mask", torch.triu(torch.full([1, 1, TOKENS, TOKENS], float("-inf")), 1))

    def forward(self, ids):
        x = self.embed(ids) + self.places(torch.cumsum(ids.new_ones([TOKENS]), 0) - 1)
        parts = torch.chunk(self.qkv(self.first(x)), 3, 2)
        q, k, v = [split_heads(parts[i], HEADS) for i in range(3)]
        score = torch.matmul(q, torch.transpose(k, 2, 3)) / SIZE ** 0.5 + self.mask
        x = x + self.proj(join_heads(torch.matmul(torch.softmax(score, -1), v)))
        y = self.fc(self.second(x))
        y = y * 0.5 * (torch.tanh((y + y ** 3.0 * 0.044715) * 0.7978845608028654) + 1)
        x = x + self.out(y)
        return torch.matmul(x, torch.transpose(self.weight, 0, 1)) + self.bias


class ViT(nn.Module):
    """Tokens of images come before samples around attention, as in torch.nn.MultiheadAttention."""

    def __init__(self):
        super().__init__()
        self.conv, self.token, self.at = nn.Conv2d(3, WIDTH, 4, stride=4), nn.Parameter(torch.randn(1, 1, WIDTH)), nn.Parameter(torch.randn(1, 5, WIDTH))
        self.norm, self.qkv, self.proj, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 5)

    def heads(self, x):
        return torch.permute(torch.reshape(x, [5, -1, HEADS, SIZE]), [1, 2, 0, 3])

    def forward(self, x):
        x = torch.permute(torch.reshape(self.conv(x), [-1, WIDTH, 4]), [0, 2, 1])
        first = torch.reshape(torch.select(x, 1, 0), [-1, 1, WIDTH])
        x = torch.cat([exported.spread(self.token, first), x], 1) + self.at
        parts = torch.chunk(self.qkv(torch.transpose(self.norm(x), 0, 1)), 3, 2)
        q, k, v = [self.heads(parts[i]) for i in range(3)]
        y = torch.reshape(torch.permute(exported.attention(q, k, v), [2, 0, 1, 3]), [5, -1, WIDTH])
        x = x + torch.transpose(self.proj(y), 0, 1)
        return self.head(torch.select(x, 1, 0))


class Nearly(nn.Module):
    """Computations that look like patterns, and are none."""

    def __init__(self):
        super().__init__()
        self.embed, self.qkv, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.embed(ids)
        x = x / ((torch.mean(x ** 2, [1], True) + 1e-5) ** 0.5)  # over tokens
        root = torch.rsqrt(mean(x ** 2) + 1e-5)
        x = x * root + root  # the root is read again
        x = x * 0.5 * (torch.tanh((x + x ** 3.0 * 0.05) * 0.7978845608028654) + 1)  # another number
        parts = torch.chunk(self.qkv(x), 3, 2)
        q, k, v = [split_heads(parts[i], HEADS) for i in range(3)]
        score = torch.matmul(q, torch.transpose(k, 2, 3))
        at = torch.cumsum(ids.new_ones([TOKENS]), 0)
        far = torch.ge(torch.unsqueeze(at, 0), torch.unsqueeze(at, 1) + 3)  # some of the later tokens
        score = torch.masked_fill(score, far, -1e30)
        return self.head(join_heads(torch.matmul(torch.softmax(score, -1), v)))


TEXT, IMAGE = (2, TOKENS), (2, 3, 8, 8)
NETWORKS = {  # module, shape of the example, what is recognized
    "llama": (Llama, TEXT, {"rms norm": 5, "swiglu": 2, "shared heads": 2, "rope": 2}),
    "gpt": (GPT, TEXT, {"layer norm": 2, "gelu": 1, "linear": 2, "attention": 1, "positions": 1}),
    "vit": (ViT, IMAGE, {"permuted rows": 2, "class token": 1}),
    "nearly": (Nearly, TEXT, {}),
}


def train_both_ways(folder):
    """The results of the network as it is, and with the faster ops."""
    kept = os.environ | {"MODEL_KEEP_PATTERNS": "1"}
    return [dump(folder, f"{folder}/net.pt2", ("sgd", 0.01, 0, 0, 4, STEPS, 1), env=env) for env in (kept, None)]


@tap.cases(NETWORKS)
def both_ways(folder, name):
    torch.manual_seed(1)
    module, shape, _ = NETWORKS[name]
    network = module().train()
    exported.save(network, torch.randint(0, WORDS, shape) if shape is TEXT else torch.randn(shape), f"{folder}/net.pt2")
    for d in train_both_ways(folder):
        again = module().double()
        again.load_state_dict(network.state_dict())
        losses, weights = differences(again, d, lr=0.01)
        assert losses < 1e-5 and weights < 1e-4, (losses, weights)


def plan(*args):
    return subprocess.run([GTRAIN, *map(str, args)], capture_output=True, text=True, timeout=120, check=True).stdout


@tap.cases(NETWORKS)
def plan_names_patterns(folder, name):
    torch.manual_seed(1)
    module, shape, found = NETWORKS[name]
    exported.save(module().train(), torch.randint(0, WORDS, shape) if shape is TEXT else torch.randn(shape), f"{folder}/net.pt2")
    with open(f"{folder}/text.txt", "w", encoding="utf-8") as f:
        f.write("abcdefghijklm" * 20)
    data = f"text:{folder}/text.txt" if shape is TEXT else "random:,samples=20"
    args = ("train", "--model", f"{folder}/net.pt2", "--data", data, "--batch", 2, "--dry-run")
    assert json.loads(plan(*args, "--json"))["recognized"] == found
    said = [line.split(maxsplit=1)[1] for line in plan(*args, "--verbose").splitlines() if line.startswith("recognized")]
    assert said == ([", ".join(f"{count} x {kind}" for kind, count in found.items())] if found else []), said


sys.exit(tap.run(tap.parts, os.path.join(TESTS, "model_dump"), sys.argv[1:]))
