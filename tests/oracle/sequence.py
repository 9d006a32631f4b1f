"""sequence.py - `--model seq:...` beside torch.nn.Sequential of the same text: names, initial values, training, runs.

The text of a model is Python code, so that torch.nn evaluates it.
"""
import inspect
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from training import gtrain, curve, apart, TESTS  # noqa: E402: skips a python without torch
import subprocess  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import tap  # noqa: E402

STEPS = 12
SPECS = {
    "table": "Linear(6,16),BatchNorm1d(16),ReLU,Linear(16,16,bias=False),LayerNorm(16),GELU(),Linear(16,3)",
    "activations": "Linear(6,24),LeakyReLU(0.2),ELU(alpha=0.7,inplace=True),SiLU,Mish,Linear(24,24),Tanh(),Sigmoid,Softplus(2,threshold=5.),"
                   "Linear(24,24),Hardswish,Hardsigmoid(),Linear(24,24),Hardtanh(-0.5,max_val=2),ReLU6,GELU('tanh'),Identity,Linear(24,3)",
    "images": "Conv2d(3,8,3,padding=1),BatchNorm2d(8,eps=1e-3,momentum=0.2),ReLU(True),MaxPool2d(2),Conv2d(8,8,(3,5),padding='same',bias=False),"
              "AvgPool2d(3,2,1,count_include_pad=False),Flatten,Linear(512,4)",
    "windows": "Conv2d(3,8,4,padding='same'),MaxPool2d(3,stride=2,padding=1,ceil_mode=True),Conv2d(8,16,3,2,(1,0),1,groups=4),SiLU,"
               "ConvTranspose2d(16,6,3,stride=2,output_padding=1,groups=2),Conv2d(6,4,3,dilation=2),AdaptiveAvgPool2d((2,1)),Flatten(1,-1),Linear(8,5)",
    "length": "Unflatten(1,(2,20)),Conv1d(2,6,5,padding=2),BatchNorm1d(6),ReLU,MaxPool1d(2),Conv1d(6,8,4,padding='same',dilation=1),AvgPool1d(2,2),"
              "ConvTranspose1d(8,4,3,2),LayerNorm((4,11)),AdaptiveAvgPool1d(3),Flatten(),Linear(12,3)",
    "text": "Embedding(11,8),LayerNorm(8),Linear(8,16),GELU,Linear(16,11)",
}
if hasattr(nn, "RMSNorm"):  # since PyTorch 2.4
    SPECS["squares"] = "Linear(6,16),RMSNorm(16),Unflatten(-1,(4,4)),RMSNorm((4,4),1e-3),Flatten,LayerNorm(16,bias=False),Linear(16,3)"


def sequential(text):
    """The layers, of which those without arguments may be classes."""
    layers = eval(f"[{text}]", dict(vars(nn)))
    return nn.Sequential(*(m() if isinstance(m, type) else m for m in layers))


def dump(folder, text, options=("sgd", 0.002, 0, 0, 4, STEPS, 1)):
    done = subprocess.run([os.path.join(TESTS, "model_dump"), f"{folder}/dump.pth", "seq:" + text, *map(str, options)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return torch.load(f"{folder}/dump.pth")


@tap.cases(SPECS)
def beside_pytorch(folder, name):
    """The names of the weights, the loss curve, the final weights and the logits are PyTorch's."""
    d = dump(folder, SPECS[name])
    module = sequential(SPECS[name]).train()
    assert list(module.state_dict()) == list(d["state"]), list(d["state"])
    module.load_state_dict(d["state"])
    optimizer = torch.optim.SGD(module.parameters(), lr=0.002, momentum=0.9)
    mean, std = torch.tensor(d["mean"]).view(-1, 1, 1), torch.tensor(d["std"]).view(-1, 1, 1)

    def ready(x):
        if x.dtype == torch.uint8:
            return (x.permute(0, 3, 1, 2).float() / 255 - mean) / std
        return x.long() if x.dtype == torch.int32 else x

    worst = 0
    for i, loss in enumerate(d["losses"]):
        mine = F.cross_entropy(module(ready(d["inputs"][i % 5])).flatten(0, -2), d["targets"][i % 5].long().flatten())
        optimizer.zero_grad()
        mine.backward()
        optimizer.step()
        worst = max(worst, abs(float(mine) - loss) / abs(float(mine)))
    assert worst < 1e-5, worst
    state = module.state_dict()
    for key, value in d["final"].items():
        assert float((state[key].double() - value.double()).abs().max()) <= 1e-4 * float(state[key].double().abs().max()) + 1e-9, key
    module.load_state_dict(d["final"])
    with torch.no_grad():
        logits = module.eval()(ready(d["inputs"][0]))
    assert float((logits - d["logits"].view_as(logits)).abs().max()) < 1e-5 * float(logits.abs().max()) + 1e-6


@tap.cases([""])
def initial_values(folder, _):
    """Weights and biases begin in the intervals of PyTorch, or with its deviation."""
    text = ("Conv2d(3,32,(5,3),groups=1),Conv2d(32,64,3,groups=4),ConvTranspose2d(64,48,3,groups=2),BatchNorm2d(48),AdaptiveAvgPool2d(8),Flatten,"
            "Linear(3072,64),LayerNorm(64),Linear(64,1000)")
    state, module = dump(folder, text, ("sgd", 0, 0, 0, 2, 1, 1))["state"], sequential(text)
    embedding = dump(folder, "Embedding(500,40),Linear(40,500)", ("sgd", 0, 0, 0, 2, 1, 1))["state"]
    assert abs(float(embedding["0.weight"].std()) - 1) < 0.03 and abs(float(embedding["0.weight"].mean())) < 0.03
    for key, theirs in module.state_dict().items():
        mine = state[key].float()
        theirs = theirs.float()
        if theirs.numel() < 2 or float(theirs.std()) == 0:
            assert torch.equal(mine, theirs), key
            continue
        index, leaf = key.split(".")
        weight = module[int(index)].weight
        bound = (weight.shape[1] * weight[0][0].numel()) ** -0.5
        assert float(mine.abs().max()) <= bound and float(theirs.abs().max()) <= bound, key
        spread = float(mine.std()) / (bound / 3 ** 0.5)
        assert abs(spread - 1) < 6 / mine.numel() ** 0.5, (key, spread)


@tap.cases([""])
def dropout_changes_training_alone(folder, _):
    text = "Linear(6,64),ReLU,Dropout(0.5),Linear(64,3)"
    d, without = dump(folder, text), dump(folder, text.replace("0.5", "0.0"))
    assert d["losses"][0] != without["losses"][0]
    module = sequential(text).eval()
    module.load_state_dict(d["final"])
    with torch.no_grad():
        assert torch.allclose(module(d["inputs"][0]), d["logits"], atol=1e-5)


@tap.cases(["images", "table", "text"])
def ranks(folder, name):
    """Ranks have one rank's curve in every mode."""
    common = ["--model", "seq:" + SPECS[name], "--data", "random", "--steps", 6, "--warmup", 0, "--log-every", 1, "--seed", 3, "-q"]
    one = f"{folder}/one"
    gtrain("train", *common, "--batch", 8, "--out", one)
    modes = [("--parallel", m) for m in ("ddp", "dp", "mirrored", "zero1", "zero2", "zero3")]
    if name == "text":  # batch norms cannot be sharded, and chunks would have statistics of their own
        modes += [("--tensor-parallel", 2), ("--pipeline-parallel", 2, "--chunks", 2)]
    for mode in modes:
        out = f"{folder}/{mode[0]}{mode[1]}"
        sync = [] if name == "text" else ["--sync-bn"]
        batch = 4 if mode[0] == "--parallel" else 8
        gtrain("train", *common, "--batch", batch, "--nproc", 2, *mode, *sync, "--out", out)
        assert apart(curve(out), curve(one)) < 1e-5, (mode, apart(curve(out), curve(one)))


@tap.cases([""])
def run_keeps_layers(folder, _):
    """Eval, resume and a new run need no --model; spaces are left out."""
    run = f"{folder}/run"
    text = "seq: nn.Linear(6, 8), torch.nn.ReLU( ), \n Dropout(p = .1), nn.Linear(8, 3), "
    gtrain("train", "--model", text, "--data", "random", "--steps", 4, "--save-every", 2, "--batch", 4, "--out", run, "-q")
    with open(f"{run}/config.json") as f:
        assert json.load(f)["model"] == "seq:Linear(6,8),ReLU,Dropout(p=0.1),Linear(8,3)"
    gtrain("eval", "--ckpt", run, "--data", "random")
    gtrain("eval", "--ckpt", f"{run}/model.pth", "--data", "random")
    gtrain("train", "--resume", run, "--steps", 6, "-q")
    assert curve(run)[-1]["step"] == 6
    gtrain("train", "--config", f"{run}/config.json", "--steps", 1, "--out", f"{folder}/again", "-q")
    gtrain("train", "--resume", run, "--model", "seq:Linear(6,8,bias=True),ReLU(),Dropout(.1),Linear(8,out_features=3)", "--steps", 8, "-q")
    said = gtrain("train", "--resume", run, "--model", "seq:Linear(6,8),Tanh,Dropout(.1),Linear(8,3)", "--steps", 9, "-q", status=2)
    assert "another --model" in said, said
    module = sequential("Linear(6,8),ReLU,Dropout,Linear(8,3)")
    module.load_state_dict(torch.load(f"{run}/model.pth"))


@tap.cases([""])
def writes_text(folder, _):
    """A table of bigrams learns which letter follows another."""
    with open(f"{folder}/text.txt", "w") as f:
        f.write("abcabc" * 400)
    gtrain("train", "--model", "seq:Embedding(3,3)", "--data", f"text:{folder}/text.txt", "--steps", 100, "--lr", 0.1, "--out", f"{folder}/run", "-q")
    done = subprocess.run([os.environ.get("GTRAIN", "build/gtrain"), "generate", "--ckpt", f"{folder}/run", "--prompt", "ab", "--tokens", "7", "--temperature", "0", "-q"],
                          capture_output=True, text=True, check=True)
    assert "abcabcabc" in done.stdout, done.stdout


@tap.cases([""])
def manual_lists_layers(folder, _):
    """The table in gtrain-models(7) has the layers and arguments of the code, and each layer is tested here."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(f"{root}/lib/model/sequence/layers.c") as code, open(f"{root}/lib/model/sequence/arguments.c") as lists:
        rows = re.findall(r'^\t(?:LAYER\(|FUNCTION\(|\{ )"(\w+)", (?:gt_arguments_(\w+))?', code.read(), re.MULTILINE)
        lists = lists.read().replace("INPLACE,", '{ "inplace", GT_ARGUMENT_BOOL, "False" },')
    arguments = {name: ", ".join(a if b == "NULL" else f"{a}={b[1:-1]}" for a, b in re.findall(r'\{ "(\w+)", \w+, (NULL|"[^"]*") \}', body))
                 for name, body in re.findall(r"gt_arguments_(\w+)\[\] = \{(.*?)END", lists, re.DOTALL)}
    with open(f"{root}/man/gtrain-models.7") as page:
        listed = re.search(r"begin layers(.*)end layers", page.read(), re.DOTALL).group(1)
    assert re.findall(r"^\.It Li (.*)", listed, re.MULTILINE) == [f"{name}({arguments[kind or 'inplace']})" for name, kind in rows]
    tested = set(re.findall(r"\b[A-Z]\w+", ",".join(SPECS.values()))) | {"Dropout", "RMSNorm"}
    assert {name for name, _ in rows} <= tested, tested


@tap.cases([""])
def arguments_are_those_of_pytorch(folder, _):
    """Names, order and defaults of arguments, as far as this PyTorch has them."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    with open(f"{root}/man/gtrain-models.7") as page:
        listed = re.search(r"begin layers(.*)end layers", page.read(), re.DOTALL).group(1)
    for name, text in re.findall(r"^\.It Li (\w+)\((.*)\)", listed, re.MULTILINE):
        if not hasattr(nn, name):
            continue  # RMSNorm is of PyTorch 2.4
        ours = eval(f"lambda {text}: 0")
        mine, theirs = inspect.signature(ours).parameters, list(inspect.signature(getattr(nn, name)).parameters.values())
        for (key, value), other in zip(mine.items(), theirs):
            if other.name in ("device", "args"):
                continue  # later versions have more before it
            default = value.default
            assert key == other.name and default == other.default, (name, key, other)


sys.exit(tap.run(tap.parts, os.path.join(TESTS, "model_dump"), sys.argv[1:]))
