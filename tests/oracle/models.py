"""models.py - gtrain's loss curves and logits beside PyTorch's: same weights, same batches, same optimizer.

Each run trains for 50 steps in float32, those of large networks and of ResNets in `make check` for fewer. Both sides are deterministic. Networks of
rectified units are chaotic: a sum added up in another order differs in its last bit, and a unit that flips because of
it sends two runs apart, the faster the larger the steps. The learning rates here train and let 1e-5 mean something.
ResNet-20 needs small ones: with SGD at 1e-3 PyTorch's own float32 curve is 2e-3 off its float64 curve after 100 steps
(and 1e-3 off itself with the samples of each batch turned round), at 5e-5 3e-6. A GPU has another order of sums than
PyTorch on the CPU, so that ResNets may be 3e-5 off: an H200 was 1.0e-5 off. Adam divides by the size of gradients, so that those
which are zero but for rounding (the biases of keys) move at random: the bound on final weights is wide.
"""
import fnmatch
import functools
import os
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    print("1..1\nok 1 - models # SKIP torch: not installed for this python")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from adan_reference import Adan  # noqa: E402
from muon_reference import Muon  # noqa: E402
from program import use_isa  # noqa: E402
import tap  # noqa: E402

TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")
STEPS = 50
# How far logits may be apart. PyTorch's own float32 is 1.5e-5 off its float64 with resnet152, 7e-7 with resnet34.
LOGITS, LOGITS_LARGE = 1e-5, 3e-5


# ---- the reference networks ----

class Linear(nn.Linear):
    """As nn.Linear; initial values come from the file."""

    def reset_parameters(self):
        pass


def mlp(sizes):
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers += [nn.ReLU()] * (i > 0) + [Linear(a, b)]
    return nn.Sequential(*layers)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = Linear(400, 120)
        self.fc2 = Linear(120, 84)
        self.fc3 = Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.stride, self.more = stride, cout - cin

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.more:  # option A: every second pixel, zeros for the new channels
            half = self.more // 2
            x = F.pad(x[:, :, ::self.stride, ::self.stride], (0, 0, 0, 0, half, self.more - half))
        return F.relu(y + x)


class ResNet(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        widths = [16, 16, 32, 64]
        for stage in (1, 2, 3):
            layers = [Block(widths[stage - 1], widths[stage], 1 if stage == 1 else 2)]
            layers += [Block(widths[stage], widths[stage], 1) for _ in range(blocks - 1)]
            setattr(self, f"layer{stage}", nn.Sequential(*layers))
        self.linear = Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


class ImageBlock(nn.Module):
    """Of the ResNets for ImageNet, with torchvision's names: two 3x3 convolutions, or 1x1, 3x3 (with the stride), 1x1."""

    def __init__(self, cin, width, stride, bottleneck):
        super().__init__()
        sizes = [(1, 1), (3, stride), (1, 1)] if bottleneck else [(3, stride), (3, 1)]
        self.count = len(sizes)
        channels = [cin] + [width] * (self.count - 1) + [4 * width if bottleneck else width]
        for i, (kernel, step) in enumerate(sizes):
            setattr(self, f"conv{i + 1}", nn.Conv2d(channels[i], channels[i + 1], kernel, step, kernel // 2, bias=False))
            setattr(self, f"bn{i + 1}", nn.BatchNorm2d(channels[i + 1]))
        self.downsample = None
        if stride > 1 or cin != channels[-1]:
            self.downsample = nn.Sequential(nn.Conv2d(cin, channels[-1], 1, stride, bias=False), nn.BatchNorm2d(channels[-1]))

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y) if i < self.count else y
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ImageResNet(nn.Module):
    def __init__(self, blocks, bottleneck, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(ImageBlock(channels, 64 << stage, 2 if stage and not i else 1, bottleneck))
                channels = (256 if bottleneck else 64) << stage
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = Linear(channels, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.layer4(self.layer3(self.layer2(self.layer1(x)))).mean((2, 3)))


IMAGE_RESNETS = {18: ([2, 2, 2, 2], False), 34: ([3, 4, 6, 3], False), 50: ([3, 4, 6, 3], True),
                 101: ([3, 4, 23, 3], True), 152: ([3, 8, 36, 3], True)}


def image_resnet(depth):
    """torchvision's own where it is installed."""
    try:
        import torchvision
    except ImportError:
        return ImageResNet(*IMAGE_RESNETS[depth])
    return getattr(torchvision.models, f"resnet{depth}")(num_classes=10)


class Conv1D(nn.Module):
    """Hugging Face's: weight [in, out]."""

    def __init__(self, cin, cout, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(cin, cout))
        self.bias = nn.Parameter(torch.empty(cout)) if bias else None

    def forward(self, x):
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


class LayerNorm(nn.Module):
    def __init__(self, width, bias, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.bias = nn.Parameter(torch.empty(width)) if bias else None
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.c_attn = Conv1D(width, 3 * width, bias)
        self.c_proj = Conv1D(width, width, bias)
        self.heads = heads

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.c_attn(x).split(c, 2))
        score = q @ k.transpose(2, 3) / (c // self.heads) ** 0.5
        score = score.masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        y = score.softmax(3) @ v
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))


class Layer(nn.Module):
    def __init__(self, width, heads, bias, gelu, hidden, eps):
        super().__init__()
        self.ln_1 = LayerNorm(width, bias, eps)
        self.attn = Attention(width, heads, bias)
        self.ln_2 = LayerNorm(width, bias, eps)
        self.mlp = nn.ModuleDict({"c_fc": Conv1D(width, hidden, bias), "c_proj": Conv1D(hidden, width, bias)})
        self.gelu = gelu

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        y = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate=self.gelu)
        return x + self.mlp["c_proj"](y)


class GPT(nn.Module):
    def __init__(self, layers, heads, width, block, vocab, bias=True, gelu="tanh", hidden=None, eps=1e-5):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocab, width), "wpe": nn.Embedding(block, width),
            "h": nn.ModuleList([Layer(width, heads, bias, gelu, hidden or 4 * width, eps) for _ in range(layers)]),
            "ln_f": LayerNorm(width, bias, eps)})

    def forward(self, ids):
        t = self.transformer
        x = t["wte"](ids) + t["wpe"](torch.arange(ids.shape[1]))
        for layer in t["h"]:
            x = layer(x)
        return t["ln_f"](x) @ t["wte"].weight.t()


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * (x.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt())


def bare(cin, cout):
    return Linear(cin, cout, bias=False)


class LlamaLayer(nn.Module):
    """With the names of Hugging Face's LlamaDecoderLayer."""

    def __init__(self, heads, kv_heads, width, hidden, theta, eps):
        super().__init__()
        self.size = width // heads
        shared = self.size * kv_heads
        self.input_layernorm = RMSNorm(width, eps)
        self.self_attn = nn.ModuleDict({"q_proj": bare(width, width), "k_proj": bare(width, shared),
                                        "v_proj": bare(width, shared), "o_proj": bare(width, width)})
        self.post_attention_layernorm = RMSNorm(width, eps)
        self.mlp = nn.ModuleDict({"gate_proj": bare(width, hidden), "up_proj": bare(width, hidden), "down_proj": bare(hidden, width)})
        self.group, self.theta = heads // kv_heads, theta

    def turned(self, x):
        """x [B, heads, T, size]: columns j and j + size / 2 are a pair."""
        frequency = 1 / self.theta ** (torch.arange(0, self.size, 2).float() / self.size)
        angle = torch.outer(torch.arange(x.shape[2]).float(), frequency).repeat(1, 2)
        a, b = x.chunk(2, -1)
        return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (self.self_attn[f"{n}_proj"](x).view(b, t, -1, self.size).transpose(1, 2) for n in "qkv")
        q, k, v = self.turned(q), self.turned(k).repeat_interleave(self.group, 1), v.repeat_interleave(self.group, 1)
        score = (q @ k.transpose(2, 3) / self.size ** 0.5).masked_fill(torch.ones(t, t).triu(1).bool(), float("-inf"))
        return self.self_attn["o_proj"]((score.softmax(3) @ v).transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.input_layernorm(x))
        y = self.post_attention_layernorm(x)
        return x + self.mlp["down_proj"](F.silu(self.mlp["gate_proj"](y)) * self.mlp["up_proj"](y))


class Llama(nn.Module):
    def __init__(self, layers, heads, kv_heads, width, hidden, vocab, theta=10000.0, eps=1e-5, tied=False):
        super().__init__()
        self.model = nn.ModuleDict({
            "embed_tokens": nn.Embedding(vocab, width),
            "layers": nn.ModuleList([LlamaLayer(heads, kv_heads, width, hidden, theta, eps) for _ in range(layers)]),
            "norm": RMSNorm(width, eps)})
        self.lm_head = None if tied else bare(width, vocab)

    def forward(self, ids):
        x = self.model["embed_tokens"](ids)
        for layer in self.model["layers"]:
            x = layer(x)
        x = self.model["norm"](x)
        return x @ self.model["embed_tokens"].weight.t() if self.lm_head is None else self.lm_head(x)


class EncoderBlock(nn.Module):
    """Of a ViT, with torchvision's names."""

    def __init__(self, heads, width, hidden, eps):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=eps)
        self.self_attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(width, eps=eps)
        self.mlp = nn.Sequential(Linear(width, hidden), nn.GELU(), nn.Identity(), Linear(hidden, width))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class ViT(nn.Module):
    def __init__(self, image, patch, layers, heads, width, classes, hidden, eps, channels=3):
        super().__init__()
        self.conv_proj = nn.Conv2d(channels, width, patch, patch)
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(torch.empty(1, 1 + (image // patch) ** 2, width))
        self.encoder.layers = nn.ModuleDict({f"encoder_layer_{i}": EncoderBlock(heads, width, hidden or 4 * width, eps) for i in range(layers)})
        self.encoder.ln = nn.LayerNorm(width, eps=eps)
        self.heads = nn.ModuleDict({"head": Linear(width, classes)})

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.encoder.pos_embedding
        for layer in self.encoder.layers.values():
            x = layer(x)
        return self.heads["head"](self.encoder.ln(x)[:, 0])


def vit(image, patch, layers, heads, width, classes, hidden=None, eps=1e-6):
    """torchvision's own where it is installed."""
    try:
        import torchvision
    except ImportError:
        return ViT(image, patch, layers, heads, width, classes, hidden, eps)
    return torchvision.models.VisionTransformer(image, patch, layers, heads, width, hidden or 4 * width, num_classes=classes,
                                                norm_layer=functools.partial(nn.LayerNorm, eps=eps))


# ---- one run beside the other ----

def prepared(x, run):
    if x.dtype == torch.uint8:
        mean, std = torch.tensor(run["mean"]), torch.tensor(run["std"])
        return ((x.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
    return x.long() if x.dtype == torch.int32 else x


def optimizer(kind, net, run, lr, adam_lr, decay, tuned=None):
    named = dict(net.named_parameters())
    if kind == "muon":
        return Muon(net, lr, adam_lr, decay, run["decay"])
    frozen, scaled, factor = tuned or ("", "", 1)
    for name, p in named.items():
        p.requires_grad = not fnmatch.fnmatchcase(name, frozen)
    groups = [{"params": [p for n, p in named.items() if p.requires_grad and (n in run["decay"]) == decays
                          and fnmatch.fnmatchcase(n, scaled) == scales],
               "weight_decay": decay * decays, "lr": lr * (factor if scales else 1)}
              for decays in (True, False) for scales in (True, False)]
    groups = [g for g in groups if g["params"]]
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=0.9)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adan": Adan}[kind](groups, lr=lr)


def train(net, run, kind, lr, adam_lr, decay, clip, tuned=None):
    net.load_state_dict(run.pop("state"), strict=True)  # of a large model, memory
    net.train()
    opt = optimizer(kind, net, run, lr, adam_lr, decay, tuned)
    losses, norms = [], []
    for step in range(len(run["losses"])):
        at = step % len(run["inputs"])
        logits = net(prepared(run["inputs"][at], run))
        loss = F.cross_entropy(logits.flatten(0, -2), run["targets"][at].long().flatten())
        opt.zero_grad()
        loss.backward()
        norms.append(float(nn.utils.clip_grad_norm_(net.parameters(), clip or float("inf"))))
        opt.step()
        losses.append(float(loss.detach()))
    return losses, norms


def logits(net, run):
    """How far gtrain's are from those of the same weights, of the largest."""
    net.load_state_dict(run["final"])
    net.eval()
    with torch.no_grad():
        theirs = net(prepared(run["inputs"][0], run))
    return float((run["logits"] - theirs).abs().max() / theirs.abs().max())


def worst(ours, theirs):
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def moved(key, x):
    """Without the biases of keys, whose gradients are zero but for rounding: here they begin at zero, and are nothing else."""
    q, k, v = x.chunk(3) if key.endswith("in_proj_bias") else (x, None, None)
    return x if k is None else torch.cat([q, v])


def farthest(ours, theirs):
    """The largest difference of a tensor, of its largest element; exact for integers."""
    far, name = 0.0, ""
    for key, a in ours.items():
        a, b = moved(key, a), moved(key, theirs[key])
        d = float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp(min=1e-2))
        if d > far:
            far, name = d, key
    return far, name


TINY = dict(layers=2, heads=2, width=32, block=16)
TINY_SPEC = "layers=2,heads=2,width=32,block=16"
def images(depth, batch, lr, steps, bound=1e-4, settings="", adam_lr=None):
    """The last stage normalises over 4 * batch values: PyTorch's own float32 is 1e-5 to 2e-4 off its float64 after two steps
    of resnet50, in batches of 16 and 4, and more with more layers. Where blocks begin as their shortcuts (zero_init_residual),
    rounding grows so little that many steps can be compared."""
    return (f"resnet{depth}:image=64,classes=10{settings}", lambda: image_resnet(depth), batch, lr, adam_lr or lr, steps, bound)


#       model, network, batch, learning rates of sgd and adam[, steps, least bound]
MODELS = [
    ("mlp:20,32,32,10", lambda: mlp([20, 32, 32, 10]), 16, 0.01, 1e-3),
    ("lenet", LeNet, 8, 0.005, 1e-3, 100, 0),  # the rate shows later that it learns
    ("resnet20", ResNet, 8, 2e-5, 2e-5, 30, 0),
    (f"gpt:{TINY_SPEC}", lambda: GPT(vocab=61, **TINY), 4, 0.02, 1e-3),
    (f"gpt:{TINY_SPEC},gelu=erf", lambda: GPT(vocab=61, gelu="none", **TINY), 4, 0.02, 1e-3),
    (f"gpt:{TINY_SPEC},bias=no", lambda: GPT(vocab=61, bias=False, **TINY), 4, 0.02, 1e-3),
    (f"gpt:{TINY_SPEC},hidden=40,eps=0.01", lambda: GPT(vocab=61, hidden=40, eps=0.01, **TINY), 4, 0.02, 1e-3),
    (f"gpt2:{TINY_SPEC},vocab=97", lambda: GPT(vocab=97, **TINY), 4, 0.02, 1e-3),
    ("llama:layers=2,heads=4,kv_heads=2,width=32,hidden=48,block=16", lambda: Llama(2, 4, 2, 32, 48, 61), 4, 0.02, 1e-3),
    ("llama:layers=1,heads=3,kv_heads=3,width=48,hidden=40,block=16,vocab=97,theta=500,eps=1e-6,tied=yes",
     lambda: Llama(1, 3, 3, 48, 40, 97, 500.0, 1e-6, True), 4, 0.01, 1e-3),
    ("vit:image=16,patch=4,layers=2,heads=2,width=32,classes=10", lambda: vit(16, 4, 2, 2, 32, 10), 8, 0.004, 1e-3),
    ("vit:image=12,patch=3,layers=1,heads=3,width=24,hidden=40,eps=0.01,classes=10", lambda: vit(12, 3, 1, 3, 24, 10, 40, 0.01), 8, 0.004, 1e-3),
    images(18, 4, 1e-5, 4),
    images(50, 8, 1e-6, 2),
]
TUNED_STEPS = 25  # enough to show that names are frozen, and rates scaled
# model, network, batch, learning rates of sgd and adam, (frozen names, scaled names, factor of their rate)
TUNED = [
    ("lenet", LeNet, 8, 0.005, 1e-3, ("conv*", "fc2.*", 0.25)),
    ("resnet20", ResNet, 8, 2e-5, 2e-5, ("layer1*", "linear.weight", 8)),
    (f"gpt:{TINY_SPEC}", lambda: GPT(vocab=61, **TINY), 4, 0.02, 1e-3, ("transformer.wpe*", "*.mlp.*", 0.5)),
]
# The other depths and the real GPT-2: minutes, for `make check-models`.
# Deeper networks are more chaotic: the rate goes with the inverse square of the depth, and beyond.
def slow(depth):
    return 2e-5 * (20 / depth) ** 2


LARGE = [(f"resnet{6 * n + 2}", lambda n=n: ResNet(n), 16, slow(6 * n + 2), slow(6 * n + 2)) for n in (3, 5, 7, 9)] + [
    ("resnet110", lambda: ResNet(18), 16, slow(110) / 3, slow(110)),
    images(18, 16, 1e-7, STEPS), images(50, 8, 1e-5, STEPS, settings=",zero_init_residual=yes", adam_lr=1e-6),
    images(34, 8, 1e-6, 10), images(101, 16, 1e-6, 2, 1e-3), images(152, 16, 1e-6, 2, 1e-2),
    ("vit-tiny:image=64,classes=10", lambda: vit(64, 16, 12, 3, 192, 10), 8, 1e-3, 1e-5, 20),
    ("gpt2:block=64", lambda: GPT(layers=12, heads=12, width=768, block=64, vocab=50257), 1, 1e-3, 2e-6),
    ("gpt2-medium:block=16", lambda: GPT(layers=24, heads=16, width=1024, block=16, vocab=50257), 1, 5e-6, 3e-7),
    # Their widths and heads; of their 36 and 48 layers four, for time and memory: all of gpt2-xl takes 25 GB with Adam's state.
    ("gpt2-large:block=16,layers=4", lambda: GPT(layers=4, heads=20, width=1280, block=16, vocab=50257), 1, 5e-5, 5e-7),
    ("gpt2-xl:block=16,layers=4", lambda: GPT(layers=4, heads=25, width=1600, block=16, vocab=50257), 1, 5e-5, 5e-7),
]
# Models that learn with Muon and Adan. Both depend on the shapes of parameters at most: variants and larger networks add nothing.
MUON = [m for m in MODELS if m[0] in ("mlp:20,32,32,10", "lenet", f"gpt:{TINY_SPEC}")]
#             kind, weight decay, clip, bound
OPTIMIZERS = [("sgd", 5e-4, 0, 1e-5), ("adam", 1e-2, 0, 1e-4), ("adamw", 0.1, 1.0, 1e-4), ("muon", 0.1, 1.0, 1e-4),
              ("adan", 0.02, 1.0, 1e-4)]


def has_case(model, kind, large):
    """ResNets take most of the time. What optimizers do, smaller models and rows of TUNED show."""
    if kind in ("muon", "adan"):
        return model in MUON
    return large or kind == "sgd" or not model[0].startswith("resnet")


def check(number, folder, model, network, batch, steps, kind, lr, adam_lr, decay, clip, bound, large, tuned=None):
    path = os.path.join(folder, f"{number}.pth")
    rules = {"MODEL_FREEZE": tuned[0], "MODEL_LR_SCALE": f"{tuned[1]}={tuned[2]}"} if tuned else {}
    subprocess.run([os.path.join(TESTS, "model_dump"), path, model, kind, str(lr), str(decay), str(clip),
                    str(batch), str(steps), str(adam_lr)], check=True, env={**os.environ, **rules})
    run = torch.load(path)
    net = network()
    first = {n: run["state"][n] for n, _ in net.named_parameters() if tuned and fnmatch.fnmatchcase(n, tuned[0])}
    losses, norms = train(net, run, kind, lr, adam_lr, decay, clip, tuned)
    kept = all(torch.equal(run["final"][n], w) for n, w in first.items()) and bool(first) == bool(tuned)
    far = worst(run["losses"], losses)
    norm = worst(run["norms"], norms)
    weight, name = farthest(run["final"], net.state_dict())
    counters = all(torch.equal(v, net.state_dict()[k]) for k, v in run["final"].items() if not v.is_floating_point())
    learned = steps < STEPS or sum(losses[-5:]) < (1 if large else 0.9) * sum(losses[:5])  # five batches are used in turn
    answer = logits(net, run)
    # Gradients' norms and final weights take up what losses do, magnified by the curvature.
    good = far <= bound and norm <= 100 * bound and weight <= 100 * bound and counters and kept and learned and answer <= (LOGITS_LARGE if large else LOGITS)
    print(f"{'ok' if good else 'not ok'} {number} - {model} {kind}{', some frozen, some scaled' if tuned else ''}")
    print(f"# loss {losses[0]:.4f} -> {losses[-1]:.4f}; apart by {far:.1e} (bound {bound:.0e}), "
          f"norms {norm:.1e}, weights {weight:.1e} ({name}), logits {answer:.1e}")
    sys.stdout.flush()
    return good


def main():
    large = "--large" in sys.argv
    only = ([a for a in sys.argv[1:] if a != "--large"] or [""])[0]  # models.py "resnet20 sgd": these alone
    if not large:
        torch.set_num_threads(1)
        os.environ["OMP_NUM_THREADS"] = "1"
    cases = [(m, o) for m in (LARGE if large else MODELS) for o in OPTIMIZERS
             if only in f"{m[0]} {o[0]}" and has_case(m, o[0], large)]
    cases = cases if large or only else tap.one_in(2, cases)
    tuned = [(m, o) for m in ([] if large else TUNED) for o in (OPTIMIZERS[0], OPTIMIZERS[2]) if only in f"{m[0]} {o[0]} tuned"]
    print(f"1..{len(cases) + len(tuned)}")
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for number, ((model, network, batch, sgd, adam, *more), (kind, decay, clip, bound)) in enumerate(cases, 1):
            steps, least = more or (STEPS, 0)
            lr = {"sgd": sgd, "muon": 2 * adam}.get(kind, adam)
            if model.startswith("resnet") and os.environ.get("MODEL_DEVICE", "cpu") != "cpu":
                least = max(least, 3e-5)
            good &= check(number, folder, model, network, batch, steps, kind, lr, adam, decay, clip, max(bound, least), large)
        for number, ((model, network, batch, sgd, adam, rules), (kind, decay, clip, bound)) in enumerate(tuned, len(cases) + 1):
            good &= check(number, folder, model, network, batch, TUNED_STEPS, kind, sgd if kind == "sgd" else adam, adam, decay, clip,
                          bound, large, rules)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    use_isa()
    main()
