"""onnx_zoo.py - files of `gtrain ckpt convert -o net.onnx` in onnxruntime beside gtrain: each model, and networks of networks.py (make check-onnx).

Each network is trained for two steps and converted; one that gtrain does not import is skipped. onnx checks the file; its weights are compared with those of the checkpoint, and its
output with that of gtrain's evaluation (forward_dump.c), for several sizes of the batch, and of the text where that is open.
"""
import argparse
import os
import subprocess
import sys
import tempfile

THREADS = os.environ.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
try:
    import numpy as np
    import onnx
    import onnx.numpy_helper
    import onnxruntime
    import torch
except ImportError as e:
    sys.exit(f"check-onnx: {sys.executable} has no {e.name}; ZOO_PYTHON must name a python with torch, onnx and onnxruntime")

DISTANCE = 1e-5  # largest distance of an output, relative to its largest element
REQUIRED = 10    # networks of networks.py that must pass, unless --only names some

GPT, LLAMA = "layers=2,heads=2,width=32,block=24,vocab=97", "layers=2,heads=4,kv_heads=2,width=32,hidden=64,block=24,vocab=97"
# Settings by which large models are small, by the start of the name. The last row that fits counts.
SETTINGS = [("", ""), ("resnet1", "image=64,classes=10"), ("resnet3", "image=64,classes=10"), ("resnet5", "image=64,classes=10"),
            ("resnet32", ""), ("resnet56", ""), ("resnet110", ""), ("gpt", GPT), ("llama", LLAMA), ("tinyllama", LLAMA), ("vit", "layers=2,classes=10"),
            ("vit-", "layers=2,image=64,classes=10"), *((family, LLAMA) for family in ("mistral", "qwen", "gemma", "phi3", "olmo2", "smollm3"))]
STACKS = [  # together they have every layer
    "seq:Conv2d(3,8,3,padding=1),BatchNorm2d(8),ELU,MaxPool2d(3,stride=2,ceil_mode=True),AvgPool2d(3,padding=1,ceil_mode=True),Mish,AdaptiveAvgPool2d(5),"
    "ConvTranspose2d(8,4,3,stride=2,output_padding=1),Flatten,Linear(576,10)",
    "seq:Unflatten(1,(4,8)),Conv1d(4,8,3,padding=1),BatchNorm1d(8),Hardswish,ConvTranspose1d(8,4,2,stride=2),LeakyReLU,MaxPool1d(2),AvgPool1d(3),"
    "AdaptiveAvgPool1d(2),Dropout(0.1),Flatten,Linear(8,3)",
    "seq:Linear(20,16),LayerNorm(16),Softplus,RMSNorm(16),Hardtanh,Tanh,Sigmoid,SiLU,Hardsigmoid,ReLU6,GELU(approximate='tanh'),Identity,ReLU,Linear(16,4)",
    "seq:Embedding(61,16),Linear(16,32),GELU,LayerNorm(32),Linear(32,61)",
]


class Untrained(Exception):
    """gtrain does not import the network: make check-zoo tells of it."""


def run(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise RuntimeError(lines[0] if lines else f"{args[0]} ended with status {done.returncode}")
    return done.stderr


def model_names(gtrain):
    """The names in the first table of `gtrain help models`."""
    text = subprocess.run([gtrain, "help", "models"], capture_output=True, text=True, check=True).stdout
    return [line.split()[0] for line in text.split("Models:", 1)[1].split("\n\n", 1)[0].splitlines()[1:]]


def spec_of(name):
    settings = [s for start, s in SETTINGS if name.startswith(start)][-1]
    return f"{name}:{settings}" if settings else name


def check_weights(model, path):
    """Initializers with a name of the state_dict are its tensors, bit by bit."""
    state, found = torch.load(path), 0
    for t in model.graph.initializer:
        if t.name in state:
            expected = state[t.name].numpy()
            array = onnx.numpy_helper.to_array(t)
            assert array.shape == expected.shape and array.tobytes() == expected.tobytes(), f"'{t.name}' differs"
            found += 1
    assert found, "no weight has a name of the state_dict"


def compare_output(session, dump, folder, batch, block):
    run(dump, f"{folder}/forward.pth", f"{folder}/run", batch, block)
    d = torch.load(f"{folder}/forward.pth")
    x, y = d["input"].numpy(), d["output"].numpy()
    z, = session.run(None, {"input": x.astype(np.int64) if x.dtype == np.int32 else x})
    assert z.shape == y.shape, (z.shape, y.shape)
    return float(np.abs(z - y).max() / max(np.abs(y).max(), 1e-6))


def check(spec, gtrain, dump, folder):
    try:
        run(gtrain, "train", "--model", spec, "--data", "random", "--steps", 2, "--batch", 2, "--out", f"{folder}/run", "-q")
    except RuntimeError as e:
        if spec.endswith(".pt2"):
            raise Untrained(e) from None
        raise
    said = run(gtrain, "ckpt", "convert", f"{folder}/run", "-o", f"{folder}/net.onnx")
    model = onnx.load(f"{folder}/net.onnx")
    onnx.checker.check_model(model, full_check=True)
    check_weights(model, f"{folder}/run/model.pth")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    session = onnxruntime.InferenceSession(f"{folder}/net.onnx", options, providers=["CPUExecutionProvider"])
    shape = session.get_inputs()[0].shape
    time = len(shape) > 1 and shape[1] == "time"
    assert shape[0] == "batch", shape
    assert time == (len(shape) == 2 and session.get_inputs()[0].type == "tensor(int64)" and "tokens alone" not in said), said
    distance = max(compare_output(session, dump, folder, batch, block) for batch, block in ((2, 0), (1, 5 if time else 0), (4, 7 if time else 0)))
    return distance, len(model.graph.node), "batch and time" if time else "batch"


def export_network(network, path):
    """An archive of a network of networks.py, for texts of any length where the network allows it."""
    from zoo import export
    torch.manual_seed(0)
    module, free = network.make().train(), torch.export.Dim.DYNAMIC
    x = torch.randn(2, *network.sample) if network.sample else torch.randint(0, 128, (2, 16))
    try:
        assert network.sample is None
        exported = torch.export.export(module, (x,), strict=False, dynamic_shapes=({0: free, 1: free},))
    except Exception:
        exported, _ = export(module, x)
    torch.export.save(exported, path)


def specs(options, folder):
    """Names and specs; archives are made as they are needed."""
    for name in model_names(options.gtrain) + STACKS:
        yield name, lambda name=name: spec_of(name)
    import networks
    for network in networks.NETWORKS:
        trains = network.targets == ("tokens" if network.sample is None else "classes")
        if trains:
            def archive(network=network):
                export_network(network, f"{folder}/network.pt2")
                return f"{folder}/network.pt2"
            yield network.name, archive


def main():
    parser = argparse.ArgumentParser()
    for name in ("gtrain", "dump"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    passed, failed = [], []
    with tempfile.TemporaryDirectory() as archives:
        for name, make in specs(options, archives):
            if options.only not in name:
                continue
            with tempfile.TemporaryDirectory() as folder:
                try:
                    distance, nodes, free = check(make(), options.gtrain, options.dump, folder)
                    good, text = distance <= DISTANCE, f"{distance:.1e}, {nodes} nodes, any {free}"
                except Untrained as e:
                    print(f"skip  {name[:40]:40}  {str(e)[:300]}", flush=True)
                    continue
                except Exception as e:
                    good, text = False, f"{type(e).__name__}: {str(e)[:300]}"
            (passed if good else failed).append(name)
            print(f"{'ok' if good else 'FAIL':4}  {name[:40]:40}  {text}", flush=True)
    zoo = sum("." in name and not name.startswith("seq:") for name in passed)
    print(f"{len(passed)} passed, {len(failed)} failed")
    return 1 if failed or not passed or (not options.only and zoo < REQUIRED) else 0


if __name__ == "__main__":
    sys.exit(main())
