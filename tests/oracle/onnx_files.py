"""onnx_files.py - models of ONNX that gtrain writes, computed by common/onnx_model.py: their outputs, weights, properties, and refusals.

tests/oracle/exported.py has imported networks; `make check-onnx` computes all models and the zoo by onnxruntime.
"""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from training import gtrain, GTRAIN, TESTS  # noqa: E402: skips a python without torch
import small_files  # noqa: E402
import random  # noqa: E402
import tap  # noqa: E402
import torch  # noqa: E402
from onnx_model import Model, apart_from_gtrain  # noqa: E402

GPT = "layers=2,heads=2,width=16,block=12,vocab=31"
MODELS = {  # name: the model, the dimensions of the input
    "mlp": ("mlp:6,5,3", ["batch", 6]),
    "lenet": ("lenet", ["batch", 1, 28, 28]),
    "resnet20": ("resnet20", ["batch", 3, 32, 32]),
    "resnet50": ("resnet50:image=32,classes=5", ["batch", 3, 32, 32]),
    "vit": ("vit:layers=2,width=16,heads=2,classes=5", ["batch", 3, 32, 32]),
    "gpt": (f"gpt:{GPT}", ["batch", "time"]),
    "gpt2": (f"gpt2:{GPT}", ["batch", "time"]),
    "llama": (f"llama:{GPT}", ["batch", "time"]),
    "llama, shared keys": (f"llama:{GPT.replace('heads=2', 'heads=4')},kv_heads=2", ["batch", "time"]),
    "images": ("seq:Conv2d(3,8,3,padding=1),BatchNorm2d(8),ELU,MaxPool2d(3,stride=2,ceil_mode=True),AvgPool2d(3,padding=1,ceil_mode=True),Mish,"
               "AdaptiveAvgPool2d(5),ConvTranspose2d(8,4,3,stride=2,output_padding=1),Flatten,Linear(576,10)", ["batch", 3, 32, 32]),
    "lengths": ("seq:Unflatten(1,(4,8)),Conv1d(4,8,3,padding=1),BatchNorm1d(8),Hardswish,ConvTranspose1d(8,4,2,stride=2),LeakyReLU,MaxPool1d(2),"
                "AvgPool1d(3),AdaptiveAvgPool1d(2),Dropout(0.1),Flatten,Linear(8,3)", ["batch", 32]),
    "functions": ("seq:Linear(20,16),LayerNorm(16),Softplus,RMSNorm(16),Hardtanh,Tanh,Sigmoid,SiLU,Hardsigmoid,ReLU6,GELU(approximate='tanh'),Linear(16,4)",
                  ["batch", 20]),
    "tokens": ("seq:Embedding(31,16),GELU,Linear(16,31)", ["batch", "time"]),
}


def trained(folder, model, data="random"):
    gtrain("train", "--model", model, "--data", data, "--steps", 2, "--batch", 2, "--out", f"{folder}/run", "-q")
    return f"{folder}/run"


def convert(source, path, *options):
    said = gtrain("ckpt", "convert", source, "-o", path, *options)
    return Model(path), said


@tap.cases(MODELS)
def outputs(folder, name):
    """The output is gtrain's for several batches and lengths of texts, and the weights are those of the checkpoint."""
    spec, dims = MODELS[name]
    run = trained(folder, spec)
    model, _ = convert(run, f"{folder}/net.onnx")
    assert (model.ir, model.opset, model.producer) == (10, {"": 20}, "gtrain")
    assert [v[0] for v in model.inputs + model.outputs] == ["input", "output"] and model.inputs[0][2] == dims, model.inputs
    assert model.outputs[0][2][:-1] == ["batch", "time"][:len(model.outputs[0][2]) - 1], model.outputs
    for batch, block in ((2, 0), (1, 5 if "time" in dims else 0)):
        distance = apart_from_gtrain(model, f"{folder}/forward.pth", run, batch, block)
        assert distance < 1e-5, distance
    state = torch.load(f"{run}/model.pth")
    weights = {k: v for k, v in model.initializers.items() if k in state}
    assert all(torch.equal(v, state[k]) for k, v in weights.items())
    unread = {k for k in state if k not in weights and not k.endswith("num_batches_tracked")}
    assert unread <= {"lm_head.weight"}, unread  # a second name of the embedding


@tap.cases(["images", "table", "text"])
def properties(folder, name):
    """The description of the data is in the file."""
    rng = random.Random(1)
    if name == "images":
        for label in ("cat", "dog"):
            os.makedirs(f"{folder}/data/{label}")
            for i in range(4):
                with open(f"{folder}/data/{label}/{i}.png", "wb") as f:
                    f.write(small_files.png(rng))
        model, _ = convert(trained(folder, "seq:Flatten,Linear(192,2)", f"images:{folder}/data,size=8"), f"{folder}/net.onnx")
        p = model.properties
        assert json.loads(p["class-names"]) == ["cat", "dog"] and json.loads(p["size"]) == [8, 8, 3], p
        assert len(json.loads(p["mean"])) == 3 and len(json.loads(p["std"])) == 3 and p["kind"] == "image", p
    elif name == "table":
        with open(f"{folder}/data.csv", "w") as f:
            f.write("age,colour,price\n" + "".join(f"{i},{('red', 'blue')[i % 2]},{3 * i}\n" for i in range(20)))
        model, _ = convert(trained(folder, "mlp", f"csv:{folder}/data.csv,task=regression"), f"{folder}/net.onnx")
        p = model.properties
        assert [c["name"] for c in json.loads(p["columns"])] == ["age", "colour"] and json.loads(p["target"])["name"] == "price", p
        assert model.inputs[0][2] == ["batch", 3] and model.outputs[0][2] == ["batch", 1]
    else:
        with open(f"{folder}/text.txt", "w") as f:
            f.write(small_files.TEXT)
        model, _ = convert(trained(folder, "gpt:layers=1,width=8,heads=1,block=8", f"text:{folder}/text.txt"), f"{folder}/net.onnx")
        assert "vocab" in model.properties and model.properties["model"].startswith("gpt:layers=1"), model.properties


@tap.cases([""])
def sources(folder, _):
    """A checkpoint of a run, its running mean, and weights of another type are converted, too."""
    gtrain("train", "--model", "mlp:6,5,3", "--data", "random", "--steps", 2, "--batch", 2, "--ema", 0.9, "--out", f"{folder}/run", "-q")
    gtrain("ckpt", "convert", f"{folder}/run/model.pth", "-o", f"{folder}/run/half.safetensors", "--dtype", "bf16")
    for file in ("model.pth", "model_ema.pth", "checkpoints/step-00000002.pth", "half.safetensors"):
        model, _ = convert(f"{folder}/run/{file}", f"{folder}/net.onnx")
        state = torch.load(f"{folder}/run/{'model_ema' if 'ema' in file else 'model'}.pth")
        expected = {k: v.bfloat16().float() if "half" in file else v for k, v in state.items()}
        assert all(torch.equal(model.initializers[k], v) for k, v in expected.items()), file
    said = gtrain("ckpt", "convert", f"{folder}/run", "-o", f"{folder}/net.bin", "--to", "onnx")
    assert "its ending is that of torch-zip" in said, said
    Model(f"{folder}/net.bin")
    out = subprocess.run([GTRAIN, "ckpt", "convert", f"{folder}/run", "-o", f"{folder}/net.onnx", "--json"], capture_output=True, text=True, check=True)
    report = json.loads(out.stdout)
    assert report["format"] == "onnx" and report["tensors"] == 4 and report["tensor_bytes"] == 4 * (6 * 5 + 5 + 5 * 3 + 3), report


def missing(state):
    del state["0.bias"]


def reshaped(state):
    state["0.bias"] = torch.ones(9)


def whole(state):
    state["0.bias"] = torch.ones(5, dtype=torch.int64)


REFUSALS = {  # name: how the weights are changed, options, words of the message
    "missing weight": (missing, [], ["'0.bias' is missing"]),
    "other shape": (reshaped, [], ["'0.bias' has another shape"]),
    "integers": (whole, [], ["'0.bias' is of int64, but the model's is of float32"]),
    "type": (None, ["--dtype", "fp16"], ["--dtype cannot be combined with --to onnx"]),
    "weights only": (None, ["--weights-only"], ["--weights-only cannot be combined with --to onnx"]),
    "shards": (None, ["--shard-size", "1K"], ["--shard-size cannot be combined with --to onnx"]),
}


@tap.cases(REFUSALS)
def refused(folder, name):
    change, options, words = REFUSALS[name]
    run = trained(folder, "mlp:6,5,3")
    state = torch.load(f"{run}/model.pth")
    if change:
        change(state)
    torch.save(state, f"{run}/changed.pth")
    said = gtrain("ckpt", "convert", f"{run}/changed.pth", "-o", f"{folder}/net.onnx", "-q", *options, status=1 if change else 2)
    assert all(w in said for w in words), said
    assert os.listdir(folder) == ["run"], os.listdir(folder)


@tap.cases(["onnx", "hf"])
def others_are_named(folder, to):
    """A line names the tensors that are no weights of the model."""
    run = trained(folder, f"gpt2:{GPT}")
    state = torch.load(f"{run}/model.pth")
    torch.save({**state, "more": torch.ones(2), "again": torch.ones(2)}, f"{run}/more.pth")
    said = [gtrain("ckpt", "convert", f"{run}/{name}.pth", "--to", to, "-o", f"{folder}/{name}.{to}") for name in ("model", "more")]
    assert "left out" not in said[0] and "more.pth', as the model has no such weight: 'more' and others\n" in said[1], said


@tap.cases([""])
def nothing_to_convert(folder, _):
    """Without a model there is one line, with a hint; a checkpoint is not written over."""
    run = trained(folder, "mlp:6,5,3")
    torch.save({"fc.weight": torch.ones(2, 2)}, f"{folder}/lone.pth")
    said = gtrain("ckpt", "convert", f"{folder}/lone.pth", "-o", f"{folder}/net.onnx", "-q", status=2)
    assert "'{folder}/lone.pth' does not say its model".format(folder=folder) in said and "hint: " in said and len(said.splitlines()) == 2, said
    said = gtrain("ckpt", "convert", run, "-o", f"{run}/checkpoints/step-00000002.pth", "--to", "onnx", "-q", status=2)
    assert "is the input" in said or "written over" in said, said
    os.truncate(f"{run}/model.pth", 900)
    said = gtrain("ckpt", "convert", f"{run}/model.pth", "-o", f"{folder}/net.onnx", "-q", status=1)
    assert said.count("model.pth") == 1, said
    gtrain("train", "--model", f"gpt2:{GPT}", "--data", "random", "--steps", 1, "--batch", 2, "--out", f"{folder}/gpt", "-q")
    gtrain("ckpt", "convert", f"{folder}/gpt", "--to", "hf", "-o", f"{folder}/hf", "-q")
    said = gtrain("ckpt", "convert", f"{folder}/hf", "-o", f"{folder}/net.onnx", "-q", status=1)
    assert "a folder of Hugging Face's" in said and len(said.splitlines()) == 2, said
    small = subprocess.run(["sh", "-c", 'ulimit -f 1; exec "$@"', "sh", GTRAIN, "ckpt", "convert", f"{folder}/gpt", "-o", f"{folder}/net.onnx", "-q"],
                           capture_output=True, text=True)
    assert small.returncode == 1 and f"'{folder}/net.onnx': cannot write" in small.stderr, small
    assert not os.path.exists(f"{folder}/net.onnx")


sys.exit(tap.run(tap.parts, os.path.join(TESTS, "forward_dump"), sys.argv[1:]))
