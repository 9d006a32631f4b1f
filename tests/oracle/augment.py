#!/usr/bin/env python3
"""augment.py - augmented images against Pillow, byte for byte: torchvision's ColorJitter, random crops and flip (TAP).

torchvision is not needed: its functions for PIL images are calls of ImageEnhance, and adjust_hue() is a dozen lines. The random
numbers are drawn here again, so that the test fails where the program draws others.
"""
import math
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
import tap  # noqa: E402

try:
    import numpy as np
    from PIL import Image, ImageEnhance, ImageOps
    from philox import philox
except ImportError:
    print("1..0 # SKIP python has no numpy or no Pillow")
    sys.exit(0)

DUMP = os.path.join(os.environ.get("GTRAIN_TESTS", "build/tests"), "data_dump")
AUGMENT, JITTER, RRC = 0x40000002, 0x40000006, 0x40000007  # streams of lib/base/philox.h
N = 24
SETTINGS = ["brightness", "contrast", "saturation", "hue"]


def words(seed, sample, stream, epoch):
    return [int(w) for w in philox(seed, np.array([[sample, 0, stream, epoch]], dtype=np.uint64))[0]]


def hue(image, shift):
    """torchvision's adjust_hue(): the hue as a byte, which wraps around."""
    if image.mode == "L":
        return image
    h, s, v = image.convert("HSV").split()
    turned = (np.asarray(h).astype(int) + int(shift * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8), "L"), s, v)).convert("RGB")


CHANGES = [lambda i, f: ImageEnhance.Brightness(i).enhance(f), lambda i, f: ImageEnhance.Contrast(i).enhance(f),
           lambda i, f: ImageEnhance.Color(i).enhance(f), hue]


def jitter(image, settings, bits):
    rest, order, left = 0, [0, 1, 2, 3], []
    for w in bits:
        rest = rest << 8 | w & 0xFF
    number = rest * 24 >> 32
    for n in (4, 3, 2):  # the last of the order is drawn first
        number, k = divmod(number, n)
        left.insert(0, order[k])
        order[k] = order[n - 1]
    left.insert(0, order[0])
    for k in left:
        x = settings[SETTINGS[k]]
        low, high = (-x, x) if k == 3 else (max(0, 1 - x), 1 + x)
        if x:
            image = CHANGES[k](image, float(np.float32(low + (high - low) * ((bits[k] >> 8) * 2.0 ** -24))))
    return image


def random_box(height, width, settings, bits):
    """
    (left, top, right, bottom) as torchvision's RandomResizedCrop.get_params(img, scale, ratio) has it: ten times, a share of the area
    that is uniform in `scale` and a ratio whose logarithm is uniform in that of `ratio`; if none fits, the middle.
    """
    low, high, least, most = (settings[key] for key in ("min-scale", "max-scale", "min-ratio", "max-ratio"))
    key = bits[1] << 32 | bits[0]
    for attempt in range(10):
        draws = [int(w) for w in philox(key, np.array([[attempt, 0, bits[2], bits[3]]], dtype=np.uint64))[0]]
        area = height * width * (low + (high - low) * (draws[0] / 2 ** 32))
        ratio = math.exp(math.log(least) + (math.log(most) - math.log(least)) * (draws[1] / 2 ** 32))
        w, h = int(round(math.sqrt(area * ratio))), int(round(math.sqrt(area / ratio)))
        if 0 < w <= width and 0 < h <= height:
            top, left = draws[2] * (height - h + 1) >> 32, draws[3] * (width - w + 1) >> 32
            return left, top, left + w, top + h
    w, h = width, height
    if width / height < least:
        h = int(round(w / least))
    elif width / height > most:
        w = int(round(h * most))
    top, left = (height - h) // 2, (width - w) // 2
    return left, top, left + w, top + h


def augment(image, choice, seed, sample, epoch, size=None):
    """The image as the options say, in the order of the table: rrc, crop, flip, jitter."""
    bits = words(seed, sample, AUGMENT, epoch)
    if "rrc" in choice:  # torchvision's resized_crop()
        box = random_box(image.height, image.width, choice["rrc"], words(seed, sample, RRC, epoch))
        image = image.crop(box).resize(size or image.size, Image.BILINEAR)
    if "crop" in choice:
        w, h = image.size
        pad = w // 8 if w >= 64 else 4
        top, left = (bits[k] * (2 * pad + 1) >> 32 for k in (0, 1))
        image = ImageOps.expand(image, pad).crop((left, top, left + w, top + h))
    if "flip" in choice and bits[2] >> 31:
        image = ImageOps.mirror(image)
    return jitter(image, choice["jitter"], words(seed, sample, JITTER, epoch)) if "jitter" in choice else image


PART = {"min-scale": 0.08, "max-scale": 1, "min-ratio": 3 / 4, "max-ratio": 4 / 3}
DEFAULT = dict(brightness=0.4, contrast=0.4, saturation=0.4, hue=0)
CASES = [
    ("rrc", dict(rrc=PART)),
    ("flip,rrc:min-scale=0.9:max-ratio=2,crop", dict(rrc={**PART, "min-scale": 0.9, "max-ratio": 2}, crop=1, flip=1)),
    ("rrc:max-scale=0.2:min-ratio=1:max-ratio=1", dict(rrc={**PART, "max-scale": 0.2, "min-ratio": 1, "max-ratio": 1})),
    ("crop,flip", dict(crop=1, flip=1)),
    ("jitter", dict(jitter=DEFAULT)),
    ("flip,jitter:hue=0.5,crop", dict(crop=1, flip=1, jitter=dict(DEFAULT, hue=0.5))),
    ("jitter:brightness=2:contrast=1.5:saturation=3:hue=0.1", dict(jitter=dict(brightness=2, contrast=1.5, saturation=3, hue=0.1))),
    ("jitter:brightness=0:contrast=0:saturation=0:hue=0.3", dict(jitter=dict(brightness=0, contrast=0, saturation=0, hue=0.3))),
]


def make_images(folder, height, width, ending="png"):
    os.makedirs(os.path.join(folder, "class"))
    rng = np.random.default_rng(height * 1000 + width)
    for number in range(N):
        span = [1, 40, 255][number % 3]  # nearly flat ones, too: grey pixels have no hue
        pixels = rng.integers(0, span + 1, (height, width, 3)) + rng.integers(0, 256 - span)
        Image.fromarray(pixels.astype(np.uint8)).save(os.path.join(folder, "class", f"{number:02}.{ending}"))


def compare(folder, list_, choice, channels, height, width, seed, epoch, ending="png", options=""):
    shape = (height, width, channels)
    spec = f"images:{folder},channels={channels}{options}"
    out = subprocess.run([DUMP, spec, list_, str(seed), str(epoch)], capture_output=True)
    if out.returncode:
        return out.stderr.decode()
    size, wrong = int(np.prod(shape)), []
    for number in range(N):
        mine = np.frombuffer(out.stdout, np.uint8, size, number * (size + 4)).reshape(shape)
        image = Image.open(os.path.join(folder, "class", f"{number:02}.{ending}")).convert("RGB" if channels == 3 else "L")
        theirs = np.asarray(augment(image, choice, seed, number, epoch, (width, height))).reshape(shape)
        if not np.array_equal(mine, theirs):
            wrong.append(f"image {number}: off by up to {np.abs(mine.astype(int) - theirs).max()}")
    return "\n".join(wrong)


def images(folder):
    for height, width in ((17, 24), (8, 72)):
        where = os.path.join(folder, f"{height}x{width}")
        make_images(where, height, width)
        for list_, choice in CASES:
            for channels, seed, epoch in ((3, 0, 0), (3, 1 << 40, 7), (1, 5, 1)):
                yield (f"{height} x {width} x {channels}, {list_}, seed {seed}, epoch {epoch}",
                       compare(where, list_, choice, channels, height, width, seed, epoch))


def parts_of_files(folder):
    """Parts of larger pictures: only these are decoded, not the middle that evaluation reads."""
    for height, width, ending in ((90, 61, "jpg"), (40, 200, "jpg"), (33, 34, "png")):
        where = os.path.join(folder, f"{height}x{width}")
        make_images(where, height, width, ending)
        for list_, choice in CASES[:3]:
            for channels, seed, epoch in ((3, 0, 0), (1, 5, 1)):
                yield (f"{height} x {width} {ending} x {channels}, {list_}, seed {seed}, epoch {epoch}",
                       compare(where, list_, choice, channels, 32, 32, seed, epoch, ending, ",size=32,reduce=no"))


if __name__ == "__main__":
    sys.exit(tap.run([images, parts_of_files], DUMP))
