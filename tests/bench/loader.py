"""loader.py - images per second of gtrain's loader beside PyTorch's DataLoader with Pillow and libjpeg-turbo alone, in one run.

loader.py [--workers N] [--batch N] [--rounds N] [--seconds S] [--photos N] [--only ROW] [--check]

Two sets of files: CIFAR-10 as JPEGs, from cifar10-jpeg.tar.gz in GTRAIN_TEST_DATA, which gtrain reads as it is and PyTorch from a
folder; and photographs of 500 x 375 pixels, made here. A photograph is noise of several sizes with the strength growing with the
size, as in pictures of nature, with grain on top, saved with quality 90: about 54 kB. (ImageNet's, of a similar size, have 115 kB on
average, so that entropy coding takes a larger share of their time.) Each photograph has 8 names, so that there are more than the
256 MiB of pixels that gtrain keeps decoded: it decodes every one that it reads. CIFAR-10 is less than that, and is kept decoded.

Each round measures gtrain, PyTorch (torch_loader.py) and libjpeg-turbo one right after the other, with as many threads as the others
have workers; ratios are taken per round, and the table gives medians and how far the rounds lie apart. Files are in the page cache.

  gtrain      batches of uint8 pixels, decoded, resized, cropped and mirrored; with rrc, of random parts of the pictures
  torch       the same with Pillow
  libjpeg     libjpeg-turbo decodes each file in full to RGB, and does nothing else with it: the bound that the floor is about
  (reduced)   the same, but decoded no further than gtrain has to for the middle of the picture: at the scale it may choose, and the
              columns of the square in the middle

--check fails where gtrain has less than 2 times torch's rate, or less than 85 % of libjpeg's.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass

import numpy as np
from PIL import Image

from generate import Child

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.environ.get("GTRAIN_TESTS", "build/tests")
DATA = os.environ.get("GTRAIN_TEST_DATA", os.path.join(HERE, "..", "..", "..", "shared", "data"))
PYTHON_WITH_TORCH = "/usr/bin/python3"
FLOOR_TORCH, FLOOR_LIBJPEG = 2, 0.85
WIDTH, HEIGHT, SIZE, NAMES = 500, 375, 224, 8


@dataclass
class Row:
    name: str
    files: str
    augment: str
    options: str = ""
    size: int = SIZE
    centre: bool = True  # the square in the middle is all that is read


ROWS = [Row("cifar10 flip", "cifar10", "flip", size=32, centre=False),
        Row("cifar10 rrc,flip", "cifar10", "rrc,flip", size=32, centre=False),
        Row("photos", "photos", "none"),
        Row("photos flip", "photos", "flip"),
        Row("photos rrc,flip", "photos", "rrc,flip", centre=False)]


# The files ---------------------------------------------------------------------------------------


def noise(rng, cell, channels):
    """Smooth noise whose waves are about `cell` pixels long: [HEIGHT, WIDTH, channels]."""
    coarse = rng.normal(0, 1, (HEIGHT // cell + 2, WIDTH // cell + 2, channels)).astype(np.float32)
    planes = [Image.fromarray(coarse[:, :, k]).resize((WIDTH, HEIGHT), Image.BICUBIC) for k in range(channels)]
    return np.stack([np.asarray(plane) for plane in planes], -1)


def photograph(rng):
    light = sum(noise(rng, cell, 1) * strength
                for cell, strength in ((128, 45), (64, 30), (32, 20), (16, 12), (8, 8), (4, 5.5), (2, 3.5)))
    colour = sum(noise(rng, cell, 3) * strength for cell, strength in ((128, 20), (64, 10), (32, 6), (16, 3), (8, 2)))
    grain = rng.normal(0, 6, (HEIGHT, WIDTH, 3))
    return Image.fromarray(np.clip(120 + light + colour + grain, 0, 255).astype(np.uint8))


def make_photos(folder, count):
    rng = np.random.default_rng(1)
    for name in range(NAMES):
        os.makedirs(os.path.join(folder, str(name)))
    for number in range(count):
        first = os.path.join(folder, "0", f"{number:05}.jpg")
        photograph(rng).save(first, quality=90)
        for name in range(1, NAMES):
            os.link(first, os.path.join(folder, str(name), f"{number:05}.jpg"))


def unpack_cifar10(folder):
    with tarfile.open(os.path.join(DATA, "cifar10-jpeg.tar.gz")) as archive:
        members = [m for m in archive if m.isfile() and m.name.startswith("train/") and m.name.endswith(".jpg")]
        archive.extractall(os.path.join(folder, "cifar10"), members)
    return os.path.join(folder, "cifar10", "train")


def describe(folder):
    sizes = [os.path.getsize(os.path.join(where, name)) for where, _, names in os.walk(folder) for name in names]
    return f"{len(sizes)} files of {statistics.mean(sizes) / 1e3:.1f} kB"


# The sides ---------------------------------------------------------------------------------------


def eighths(row):
    """The smallest of the scales 1/8, 2/8, 4/8 and 8/8 at which the shorter side still has the size wanted."""
    return next(n for n in (1, 2, 4, 8) if HEIGHT * n >= row.size * 8)


def open_sides(row, folders, args):
    bench, workers = os.path.join(TESTS, "bench_loader"), str(args.workers)
    spec = f"images:{folders[row.files + ' packed']},size={row.size}{row.options}"
    sides = {"gtrain": [bench, "load", spec, row.augment, workers, str(args.batch)],
             "torch": [PYTHON_WITH_TORCH, os.path.join(HERE, "torch_loader.py"), folders[row.files], str(row.size), row.augment,
                       workers, str(args.batch)],
             "libjpeg": [bench, "decode", folders[row.files], workers, "8", "0"]}
    if row.centre:
        sides["(reduced)"] = [bench, "decode", folders[row.files], workers, str(eighths(row)), "1"]
    return {name: Child(command, None) for name, command in sides.items()}


def measure(row, folders, args):
    """A list of rounds, each a dict of rates by name."""
    rounds = []
    sides = open_sides(row, folders, args)
    try:
        for number in range(args.rounds):
            print(f"{row.name}: round {number + 1} of {args.rounds}", file=sys.stderr)
            rounds.append({name: side.measure(args.seconds)["images_per_s"] for name, side in sides.items()})
    finally:
        for side in sides.values():
            side.close()
    return rounds


# The table ---------------------------------------------------------------------------------------


def ratios(rounds, name):
    return [r["gtrain"] / r[name] for r in rounds if name in r]


def spread(values):
    return "{:.2f} ({:.2f} - {:.2f})".format(statistics.median(values), min(values), max(values)) if values else "-"


def report(row, rounds):
    """Print the row; whether its floors hold."""
    cells = [f"{statistics.median(r[name] for r in rounds):,.0f}" if name in rounds[0] else "-"
             for name in ("gtrain", "torch", "libjpeg", "(reduced)")]
    compared = [spread(ratios(rounds, name)) for name in ("torch", "libjpeg", "(reduced)")]
    print("{:20}{:>9}{:>9}{:>9}{:>11}   {:22}{:22}{}".format(row.name, *cells, *compared), flush=True)
    return (statistics.median(ratios(rounds, "torch")) >= FLOOR_TORCH and
            statistics.median(ratios(rounds, "libjpeg")) >= FLOOR_LIBJPEG)


def parse():
    parser = argparse.ArgumentParser(prog="loader.py", description="Images per second of gtrain's loader and of PyTorch's.")
    parser.add_argument("--workers", type=int, default=2, help="threads or processes of each side (2)")
    parser.add_argument("--batch", type=int, default=64, help="images of a batch (64)")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of each row (11)")
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement (1)")
    parser.add_argument("--photos", type=int, default=256, help="photographs to make (256)")
    parser.add_argument("--only", action="append", choices=[r.name for r in ROWS], metavar="ROW",
                        help="this row alone; may be repeated: " + ", ".join(r.name for r in ROWS))
    parser.add_argument("--check", action="store_true", help="fail where a floor does not hold")
    return parser.parse_args()


def main():
    args = parse()
    rows = [row for row in ROWS if not args.only or row.name in args.only]
    with tempfile.TemporaryDirectory(prefix="gtrain-bench-") as folder:
        photos, cifar10 = os.path.join(folder, "photos"), None
        make_photos(photos, args.photos)
        if any(row.files == "cifar10" for row in rows):
            cifar10 = unpack_cifar10(folder)
        folders = {"photos": photos, "photos packed": photos, "cifar10": cifar10,
                   "cifar10 packed": os.path.join(DATA, "cifar10-jpeg.tar.gz")}
        print(f"{args.workers} workers, {args.rounds} rounds; median (least - most)\n"
              f"photos: {WIDTH} x {HEIGHT} to {SIZE}, {describe(photos)}")
        print("{:20}{:>9}{:>9}{:>9}{:>11}   {:22}{:22}{}".format(
            "images/s", "gtrain", "torch", "libjpeg", "(reduced)", "gtrain / torch", "gtrain / libjpeg", "gtrain / (reduced)"))
        held = [report(row, measure(row, folders, args)) for row in rows]
    if args.check and not all(held):
        sys.exit(1)


if __name__ == "__main__":
    main()
