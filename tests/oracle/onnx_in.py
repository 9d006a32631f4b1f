"""onnx_in.py - models of ONNX as {model}: gtrain's own ones read back, each operator in small, where weights go, and wrong files.

`make check-onnx-train` trains networks that PyTorch exported, beside PyTorch.
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from training import apart, curve, gtrain, GTRAIN, TESTS  # noqa: E402: skips a python without torch
from program import use_isa  # noqa: E402
import onnx_made as made  # noqa: E402
import tap  # noqa: E402
import torch  # noqa: E402
from onnx_model import Model  # noqa: E402

use_isa()
SGD = ["--steps", 4, "--batch", 4, "--optimizer", "sgd", "--lr", 0.01, "--lr-schedule", "constant", "--log-every", 1, "-q"]
GPT = "gpt2:layers=1,heads=2,width=16,block=12,vocab=31"


@tap.cases(["mlp:6,5,3", "lenet", "resnet20", "vit:layers=1,width=16,heads=2,classes=5", GPT])
def read_back(folder, spec):
    """A model that gtrain has written trains as the model itself, from the same weights, and has the same names."""
    data = ["--data", "random"]
    if spec == GPT:
        with open(f"{folder}/text.txt", "w") as f:
            f.write("abcdefghijklmnopqrstuvwxyz .,!?" * 10)
        data = ["--data", f"text:{folder}/text.txt"]
    gtrain("train", "--model", spec, "--out", f"{folder}/run", *data, *SGD)
    gtrain("ckpt", "convert", f"{folder}/run", "-o", f"{folder}/net.onnx", "-q")
    gtrain("train", "--model", spec, "--init-from", f"{folder}/run", "--out", f"{folder}/own", *data, *SGD)
    gtrain("train", "--model", f"{folder}/net.onnx", "--out", f"{folder}/read", *data, *SGD)
    curves = curve(f"{folder}/own"), curve(f"{folder}/read")
    assert len(curves[0]) == 4 and apart(*curves) <= 1e-5, curves
    own, read = (torch.load(f"{folder}/{run}/model.pth") for run in ("own", "read"))
    assert set(own) - {"lm_head.weight"} == set(read), set(own) ^ set(read)
    counters = {k for k in read if k.endswith("num_batches_tracked")}  # which ONNX does not have
    assert all(torch.allclose(own[k].float(), v.float(), rtol=1e-4, atol=1e-6) for k, v in read.items() if k not in counters)
    gtrain("ckpt", "convert", f"{folder}/read", "-o", f"{folder}/again.onnx", "-q")
    again = Model(f"{folder}/again.onnx").initializers
    assert all(torch.equal(again[k], v) for k, v in read.items() if k in again) and sum(k in again for k in read) >= len(again.keys() & set(own))
    if spec == "lenet":
        listed = subprocess.run([GTRAIN, "ckpt", "ls", f"{folder}/net.onnx"], check=True, capture_output=True, text=True).stdout
        assert "conv1.weight" in listed and "fc2.bias" in listed, listed
        gtrain("eval", "--ckpt", f"{folder}/read", "--data", "random", "--batch", 4, "-q")


@tap.cases(["external"])
def beside(folder, _):
    """Elements in a file of the folder are read, and the run needs that file no more."""
    one, two = made.LINEAR
    weights = torch.arange(12.0).div(100)
    with open(f"{folder}/net.data", "wb") as f:
        f.write(b"before" + weights.numpy().tobytes())
    with open(f"{folder}/net.onnx", "wb") as f:
        f.write(made.model([made.GEMM], [made.external("fc.weight", (3, 4), "net.data", 6, 48), two]))
    with open(f"{folder}/inside.onnx", "wb") as f:
        f.write(made.linear())
    for name in ("net", "inside"):
        gtrain("train", "--model", f"{folder}/{name}.onnx", "--out", f"{folder}/{name}", "--data", "random", *SGD)
    os.remove(f"{folder}/net.data")
    assert apart(curve(f"{folder}/net"), curve(f"{folder}/inside")) == 0
    gtrain("eval", "--ckpt", f"{folder}/net", "--data", "random", "--batch", 4, "-q")


@tap.cases(["TopK"])
def sorted_scores(folder, _):
    """The elements that TopK returns are those at the indices that it returns."""
    nodes = [made.node("Gemm", ["x", "fc.weight", "fc.bias"], ["h"], transB=1), made.node("TopK", ["h", "n"], ["v", "i"], largest=0)]
    last = {"values": [made.node("Add", ["v", "v"], ["y"])],
            "indices": [made.node("GatherElements", ["h", "i"], ["g"], axis=1), made.node("Add", ["v", "g"], ["y"])],
            "no values": [made.node("Add", ["h", "h"], ["y"])]}
    for name, node in last.items():
        with open(f"{folder}/{name}.onnx", "wb") as f:
            f.write(made.model([*nodes, *node], [*made.LINEAR, made.tensor(*ints(3))]))
        gtrain("train", "--model", f"{folder}/{name}.onnx", "--out", f"{folder}/{name}", "--data", "random", *SGD)
    curves = [curve(f"{folder}/{name}") for name in last]
    assert apart(*curves[:2]) <= 1e-6 < apart(curves[0], curves[2]), curves


def conv(**options):
    return made.model([made.node("Conv", ["x", "w"], ["y"], "the Conv", **options)], [made.tensor("w", (2, 1, 3, 3), [0] * 18)],
                      [("x", ["batch", 1, 8, 8], made.FLOAT)])


def one(op, *inputs, tensors=(), **options):
    """A model of one node, which takes x and the inputs."""
    return made.model([made.node(op, ["x", *inputs], ["y"], **options)], [made.tensor(*t) for t in tensors])


def ints(*numbers):
    return ("n", (len(numbers),), numbers, made.INT64)


def outside(*place):
    return made.model([made.GEMM], [made.external("fc.weight", (3, 4), *place), made.LINEAR[1]])


WRONG = {  # what is wrong: the file, the words of the line
    "cut": (made.linear()[:-40], "damaged"),
    "old operators": (made.linear(opset=9), "opset 9, and gtrain reads 13 to 23"),
    "new operators": (made.linear(opset=99), "opset 99"),
    "no graph": (made.field(1, 10) + made.field(2, "a name") + made.field(8, made.field(2, 20)), "it has no graph"),
    "functions": (made.linear(more=made.field(25, b"")), "functions of its own"),
    "sparse": (made.linear(graph_more=made.field(15, b"")), "sparse tensors"),
    "an operator": (one("NonZero"), "NonZero 'the NonZero' of opset 20 is an operator that gtrain does not have"),
    "a domain": (one("FusedMatMul", domain="com.microsoft"), "com.microsoft.FusedMatMul 'the FusedMatMul'"),
    "few elements": (made.model([made.GEMM], [made.tensor("fc.weight", (3, 4), [1] * 11)]), "the tensor 'fc.weight': its elements have 44 bytes, not 48"),
    "a size": (made.model([made.GEMM], [made.tensor("fc.weight", (-3, 4), [])]), "'fc.weight': its shape is negative or overflows"),
    "a large size": (made.model([made.GEMM], [made.tensor("fc.weight", (1 << 40, 1 << 40), [])]), "'fc.weight': its shape is negative or overflows"),
    "a type": (made.model([made.GEMM], [made.field(2, 8) + made.field(8, "fc.weight")]), "elements of type 8"),
    "half precision": (made.model([made.GEMM], [made.field(1, 3) + made.field(1, 4) + made.field(2, 10) + made.field(8, "fc.weight") +
                                                made.field(9, bytes(24)), made.LINEAR[1]]), "'fc.weight' is float16, and gtrain trains float32"),
    "a name twice": (made.model([made.GEMM], [*made.LINEAR, made.LINEAR[1]]), "two tensors are called 'fc.bias'"),
    "a missing value": (one("Add", "nothing"), "Add 'the Add' of opset 20"),
    "a missing input": (made.model([made.node("Gemm", ["x"], ["y"])]), "Gemm 'the Gemm' of opset 20 has no input 1"),
    "no result": (made.model([made.node("Relu", ["x"], ["z"])]), "no node computes the result"),
    "out of the folder": (outside("../net.data"), "'../net.data', which is no name of a file in this folder"),
    "no file": (outside("none.data"), "none.data"),
    "a link": (outside("link.data"), "'link.data', a symbolic link"),
    "a short file": (outside("short.data", 8), "end at byte 56 of 'short.data', which has 48"),
    "an offset": (outside("short.data", "-8"), "its offset '-8'"),
    "a length": (outside("short.data", 0, 44), "have 44 bytes, not 48"),
    "strides": (conv(strides=[1]), "Conv 'the Conv' of opset 20: the attribute 'strides' has 1 numbers for 2 dimensions"),
    "a kernel": (conv(kernel_shape=[5, 5]), "'kernel_shape' is not that of the weight"),
    "padding": (conv(auto_pad="SAME"), "'auto_pad' is 'SAME'"),
    "no groups": (conv(group=0), "Conv 'the Conv' of opset 20 with 0 groups"),
    "groups of more bits": (conv(group=(1 << 32) + 1), "Conv 'the Conv' of opset 20 with 4294967297 groups"),
    "a large number": (one("Reshape", "n", tensors=[ints(1 << 60)]), "'net.onnx': Reshape 'the Reshape': a constant with the element 1152921504606846976"),
    "many constants": (one("ConstantOfShape", tensors=[ints(1 << 20, 1 << 20)]).replace(b"\x0a\x01x\x12\x01y", b"\x0a\x01n\x12\x01y"),
                       "ConstantOfShape 'the ConstantOfShape': constants of the network with more than"),
    "shape": (one("Reshape", "n", tensors=[ints(-1, 5)]), "Reshape 'the Reshape' of opset 20"),
    "a shape of data": (made.model([made.node("Cast", ["x"], ["c"], to=7), made.node("Reshape", ["x", "c"], ["y"])]), "of opset 20"),
    "an axis": (one("Concat", "x", axis=5), "Concat 'the Concat' of opset 20"),
    "parts": (one("Split", "n", tensors=[ints(9)], axis=1), "'the Split'"),
    "many parts": (one("Split", axis=1, num_outputs=(1 << 63) - 1), "Split 'the Split' of opset 20 with another number of outputs"),
    "reflection": (one("Pad", "n", tensors=[ints(0, 1, 0, 1)], mode="reflect"), "Pad 'the Pad' of opset 20 with anything but a constant"),
    "a step": (one("Slice", "n", "n", "n", "n", tensors=[ints(-2)]), "'the Slice'"),
    "a statistic": (made.model([made.node("BatchNormalization", ["x", "s", "s", "x", "s"], ["y"])], [made.tensor("s", (4,), [1] * 4)]),
                    "without a mean among the weights"),
    "a reduction": (one("ReduceMean", "n", tensors=[ints(7)]), "'the ReduceMean'"),
    "a conversion": (one("Cast", to=1000), "Cast 'the Cast' of opset 20 to the type 1000"),
    "dimensions": (made.model([made.node("Conv", ["x", "fc.weight"], ["y"])], made.LINEAR), "Conv 'the Conv' of opset 20 of a tensor with 2 dimensions"),
    "many elements": (one("TopK", "n", tensors=[ints(9)]), "TopK 'the TopK' of opset 20 of 9 elements among 4"),
    "indices": (one("GatherElements", "n", tensors=[ints(1)]), "GatherElements 'the GatherElements' of opset 20 with indices of 1 dimensions for a tensor of 2"),
    "a graph": (made.model([made.GEMM[:-5]], made.LINEAR), ""),
}


@tap.cases(WRONG)
def wrong(folder, name):
    """Each wrong file is refused by one line, which names the file, the node or tensor, and the reason."""
    data, words = WRONG[name]
    with open(f"{folder}/net.onnx", "wb") as f:
        f.write(data)
    with open(f"{folder}/short.data", "wb") as f:
        f.write(bytes(48))
    os.symlink("short.data", f"{folder}/link.data")
    said = gtrain("train", "--model", f"{folder}/net.onnx", "--data", "random", "--steps", 1, "--dry-run", "-q", status=1)
    lines = said.splitlines()
    assert lines[0].startswith("gtrain: error: ") and "net.onnx'" in lines[0] and words in lines[0], said
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("hint: ")), said


sys.exit(tap.run(tap.parts, os.path.join(TESTS, "forward_dump"), sys.argv[1:]))
