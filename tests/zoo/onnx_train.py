"""onnx_train.py - networks exported to ONNX, trained in gtrain beside PyTorch (make check-onnx-train).

torch.onnx.export writes each network with its default options, with optimize=False, with dynamic sizes and with the older exporter; gtrain
trains the file (network_run.c) on the same batches as PyTorch trains the module. A curve of 20 steps of SGD may differ by 1e-5, or by twice the
distance between PyTorch's own curves in float32 and in float64, if that is more, as in zoo.py. Where the exporter folds the batch norms or
drops a dropout, the module is trained in the state that the file has, and gtrain's program has to say how many norms were folded.
"""
import argparse
import copy
import os
import subprocess
import sys
import tempfile
import warnings

THREADS = os.environ.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
try:
    import onnx
    import onnxscript  # noqa: F401: the exporter's
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    import torchvision
except ImportError as e:
    sys.exit(f"check-onnx-train: {sys.executable} has no {e.name}; ZOO_PYTHON must name a python with torch, torchvision, onnx and onnxscript")

STEPS, BATCHES, CURVE = 20, 5, 1e-5


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln_1, self.attn, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.ln_2, self.fc, self.out, self.drop = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.0)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (a.view(b, t, 4, c // 4).transpose(1, 2) for a in self.attn(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.drop(self.proj(y))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary=64, tokens=16, width=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.h, self.ln_f = nn.ModuleList(Block(width) for _ in range(2)), nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, x):
        x = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
                         nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 10))


def mlp():
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10))


def vit():
    return torchvision.models.VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64, num_classes=10)


NETWORKS = {  # name: the module, the shape of a sample (None: tokens), batch, learning rate
    "mlp": (mlp, (20,), 4, 0.01),
    "lenet": (lenet, (1, 28, 28), 4, 0.01),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=10), (3, 64, 64), 8, 1e-4),
    "mobilenet_v3": (lambda: torchvision.models.mobilenet_v3_small(num_classes=10), (3, 64, 64), 8, 1e-4),
    "densenet": (lambda: torchvision.models.DenseNet(8, (2, 2), 16, num_classes=10), (3, 64, 64), 8, 1e-4),
    "gpt": (GPT, None, 4, 0.01),
    "vit": (vit, (3, 32, 32), 4, 0.01),
}
WAYS = {  # of the export; "optimize" folds batch norms
    "plain": {"dynamo": True, "optimize": False},
    "optimize": {"dynamo": True, "optimize": True},
    "dynamic": {"dynamo": True, "optimize": False, "dynamic": True},
    "old": {"dynamo": False, "training": torch.onnx.TrainingMode.TRAINING, "do_constant_folding": False},
}


def without_dropout(module):
    for m in module.modules():
        if isinstance(m, nn.Dropout):
            m.p = 0.0
    return module


def loss_of(y, target):
    return F.cross_entropy(y.flatten(0, -2), target.flatten().long())


def train(module, inputs, targets, lr):
    optimizer, losses = torch.optim.SGD(module.parameters(), lr), []
    for i in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(module(inputs[i % BATCHES]), targets[i % BATCHES])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def apart(a, b):
    return max(abs(x - y) / abs(y) for x, y in zip(a, b))


def fold_norms(module):
    """The module with the batch norms behind convolutions in them; the number of these."""
    traced = torch.fx.symbolic_trace(module.eval())
    modules, count = dict(traced.named_modules()), 0
    for node in list(traced.graph.nodes):
        norm = modules.get(node.target) if node.op == "call_module" else None
        before = node.args[0] if isinstance(norm, nn.BatchNorm2d) else None
        conv = modules.get(before.target) if before is not None and before.op == "call_module" else None
        if isinstance(conv, nn.Conv2d) and len(before.users) == 1:
            setattr(traced.get_submodule(before.target.rpartition(".")[0]), before.target.rpartition(".")[2],
                    torch.nn.utils.fusion.fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(before)
            traced.graph.erase_node(node)
            count += 1
    traced.recompile()
    return traced.train(), count


def export(module, x, path, dynamic=False, **options):
    if dynamic:
        options["dynamic_shapes"] = ({0: "batch", 1: "time"} if x.dtype == torch.long else {0: "batch"},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (x,), path, verbose=False, **options)


def check(name, way, options, folder):
    make, sample, batch, lr = NETWORKS[name]
    torch.manual_seed(1)
    module = without_dropout(make()).train()
    if sample is None:
        inputs = [torch.randint(0, 64, (batch, 16)) for _ in range(BATCHES)]
        targets = [torch.randint(0, 64, (batch, 16)) for _ in range(BATCHES)]
    else:
        inputs = [torch.randn(batch, *sample) for _ in range(BATCHES)]
        targets = [torch.randint(0, 10, (batch,)) for _ in range(BATCHES)]
    path = f"{folder}/net.onnx"
    export(copy.deepcopy(module), inputs[0], path, **WAYS[way])
    folded = 0
    if way == "optimize":
        module, folded = fold_norms(module) if any(isinstance(m, nn.BatchNorm2d) for m in module.modules()) else (module, 0)
    torch.save({"inputs": [x.int() if sample is None else x for x in inputs], "targets": [t.int() for t in targets]}, f"{folder}/data.pth")
    exact = train(copy.deepcopy(module).double(), [x if sample is None else x.double() for x in inputs], targets, lr)
    reference = train(module, inputs, targets, lr)
    bound = max(CURVE, 2 * apart(reference, exact))
    done = subprocess.run([options.run, path, f"{folder}/data.pth", f"{folder}/result.pth", str(STEPS), str(lr)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    assert not done.returncode, done.stderr.strip()
    result = torch.load(f"{folder}/result.pth")
    distance = apart([float(x) for x in result["losses"]], reference)
    if way == "plain":  # the weights go back into the module
        state = result["final"]
        kept = {v.data_ptr() for k, v in module.state_dict().items() if k in state}  # of tied weights the file has one name
        missing = [k for k, v in module.state_dict().items() if k not in state and v.data_ptr() not in kept]
        assert not missing, missing
        for k, v in module.state_dict().items():
            if k in state and v.is_floating_point():
                assert torch.allclose(state[k].view_as(v), v, rtol=1e-3, atol=1e-4), k
    if folded:
        said = subprocess.run([options.gtrain, "train", "--model", path, "--data", "random", "--steps", "1", "--batch", "2", "--out", f"{folder}/run"],
                              capture_output=True, text=True).stderr
        assert f"folded {folded} batch norm" in said, said
    return distance, bound, len(onnx.load(path, load_external_data=False).graph.node)


def main():
    parser = argparse.ArgumentParser()
    for name in ("gtrain", "run"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    passed = failed = 0
    for name in NETWORKS:
        for way in WAYS:
            if options.only not in f"{name}.{way}":
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    distance, bound, nodes = check(name, way, options, folder)
                    good, text = distance <= bound, f"{distance:.1e} of {bound:.1e}, {nodes} nodes"
                except Exception as e:
                    good, text = False, f"{type(e).__name__}: {str(e)[:300]}"
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'FAIL':4}  {name + '.' + way:24}  {text}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
