#!/usr/bin/env python3
"""fine_tune.py - a pretrained ResNet-20 learns three classes of somebody's pictures, beside PyTorch (TAP)."""
import json
import os
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from common.program import use_isa
from common.tap import run

GTRAIN = os.path.abspath(os.environ.get("GTRAIN", "build/gtrain"))
DATA = os.path.abspath(os.environ.get("GTRAIN_TEST_DATA", "../shared/data"))
WEIGHTS, IMAGES = f"{DATA}/ckpt/resnet20-12fca82f.th", f"{DATA}/cifar10-jpeg.tar.gz"
# Somebody's names, in another order than that of the classes that the network was trained on.
CLASSES = {"boats": "ship", "frogs": "frog", "trucks": "truck"}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TRAIN, TEST = 40, 20

for needed in (WEIGHTS, IMAGES):
    if not os.path.exists(needed):
        print(f"1..1\nok 1 # SKIP data: no {os.path.basename(needed)} in {DATA}")
        sys.exit(0)
try:
    import numpy as np
    import torch
    from PIL import Image
    from models import ResNet
except ImportError as error:
    print(f"1..1\nok 1 # SKIP python has no {error.name}")
    sys.exit(0)


def take_pictures(folder):
    """The first ones of each class, and a picture of another size."""
    wanted = {f"train/{theirs}/{i:04}.jpg": f"{folder}/{'mine' if i < TRAIN else 'new'}/{own}/{i}.jpg"
              for own, theirs in CLASSES.items() for i in range(TRAIN + TEST)}
    with tarfile.open(IMAGES) as tar:
        for member in tar:
            path = wanted.pop(member.name, None)
            if path:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(tar.extractfile(member).read())
            if not wanted:
                break
    # Larger, but not so much that it would be decoded at a half of its size, as Pillow does not.
    Image.open(f"{folder}/new/frogs/{TRAIN}.jpg").resize((60, 44)).save(f"{folder}/new/frogs/large.jpg", quality=90)


def gtrain(*arguments):
    done = subprocess.run([GTRAIN, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def read(path):
    image = Image.open(path).convert("RGB")
    if image.size != (32, 32):  # torchvision's Resize(32) and CenterCrop(32)
        width, height = image.size
        image = image.resize((int(32 * width / height), 32), Image.BILINEAR)
        left = int(round((image.size[0] - 32) / 2))
        image = image.crop((left, 0, left + 32, 32))
    x = torch.from_numpy(np.asarray(image).astype(np.float32) / 255).permute(2, 0, 1)
    return (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def theirs(folder, paths):
    """PyTorch's answers with the weights that gtrain has saved."""
    net = ResNet()
    net.linear = type(net.linear)(64, len(CLASSES))
    net.load_state_dict(torch.load(f"{folder}/run/model.pth"))
    net.eval()
    with torch.no_grad():
        return torch.softmax(net(torch.stack([read(path) for path in paths])), 1).numpy()


def fine_tune(folder):
    take_pictures(folder)
    spec = ",".join(f"{key}={'/'.join(map(str, values))}" for key, values in (("mean", MEAN), ("std", STD)))
    use_isa()  # for seconds of training
    gtrain("train", "-q", "--model", "resnet20", "--init-from", WEIGHTS, "--data", f"images:{folder}/mine,{spec}", "--epochs", 7,
           "--batch", 16, "--optimizer", "sgd", "--lr", 0.01, "--momentum", 0.9, "--lr-scale", "linear.*=10", "--out", f"{folder}/run")
    paths = sorted(os.path.join(at, name) for at, _, names in os.walk(f"{folder}/new") for name in names)
    wanted = theirs(folder, paths)
    use_isa("SSE41")
    names, far, right = sorted(CLASSES), 0, 0
    for path, row in zip(paths, wanted):  # one picture at a time
        answer = json.loads(gtrain("predict", "--ckpt", f"{folder}/run", path, "--json"))["predictions"][0]
        mine = {guess["class"]: guess["probability"] for guess in answer["classes"]}
        far = max(far, *(abs(mine[name] - p) for name, p in zip(names, row)))
        right += answer["classes"][0]["class"] == path.split("/")[-2]
    yield "single pictures have PyTorch's probabilities", "" if far <= 1e-5 else f"apart by {far:.1e}"
    yield "new pictures are told apart", "" if right >= 0.9 * len(paths) else f"{right} of {len(paths)} right"
    print(f"# apart by {far:.1e}, {right} of {len(paths)} right")


sys.exit(run([fine_tune], GTRAIN, sys.argv[1:]))
