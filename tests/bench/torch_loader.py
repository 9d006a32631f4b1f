"""torch_loader.py - images per second of PyTorch's DataLoader with Pillow, measured on request.

torch_loader.py FOLDER SIZE AUGMENT WORKERS BATCH

FOLDER holds a folder for each class. The data set reads as torchvision's ImageFolder and its transforms do, written by hand with the
same calls of Pillow: Resize(SIZE) and CenterCrop(SIZE), or nothing for images of that size; with AUGMENT rrc RandomResizedCrop(SIZE)
in place of these; then with flip RandomHorizontalFlip. Batches are uint8 [N, H, W, C], as gtrain's are: conversion to floats and normalization, which gtrain does as a
part of the model, are left out here too. Each line of standard input is a number of seconds, answered by a line of JSON,
{"images_per_s": RATE}, measured for that time; batches that were ready before are not counted.
"""
import json
import math
import os
import random
import sys
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

PREFETCH = 2  # batches of each worker: PyTorch's default


def fit(image, size):
    """torchvision's Resize(size) and CenterCrop(size)."""
    w, h = image.size
    if (w, h) == (size, size):
        return image
    shape = (size, int(size * h / w)) if w <= h else (int(size * w / h), size)
    image = image.resize(shape, Image.BILINEAR)
    left, top = int(round((shape[0] - size) / 2.0)), int(round((shape[1] - size) / 2.0))
    return image.crop((left, top, left + size, top + size))


def flip(image):
    return image.transpose(Image.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image


def random_part(image, size):
    """torchvision's RandomResizedCrop(size); parts that do not fit in ten attempts are as good as none here."""
    width, height = image.size
    for _ in range(10):
        area, ratio = width * height * random.uniform(0.08, 1), math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return image.crop((left, top, left + w, top + h)).resize((size, size), Image.BILINEAR)
    return fit(image, size)


AUGMENT = {"none": fit, "flip": lambda image, size: flip(fit(image, size)),
           "rrc,flip": lambda image, size: flip(random_part(image, size))}


class Folder(Dataset):
    def __init__(self, folder, size, augment):
        classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        self.samples = [(os.path.join(folder, name, file), number) for number, name in enumerate(classes)
                        for file in sorted(os.listdir(os.path.join(folder, name)))]
        self.size, self.augment = size, AUGMENT[augment]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        path, target = self.samples[index]
        with open(path, "rb") as file:
            image = Image.open(file).convert("RGB")
        return torch.from_numpy(np.array(self.augment(image, self.size))), target


def batches(loader):
    while True:
        yield from loader


def main():
    folder, size, augment, workers, batch = sys.argv[1:]
    loader = DataLoader(Folder(folder, int(size), augment), batch_size=int(batch), shuffle=True, drop_last=True,
                        num_workers=int(workers), prefetch_factor=PREFETCH, persistent_workers=True)
    source = batches(loader)
    for line in sys.stdin:
        for _ in range(PREFETCH * int(workers) + 1):
            next(source)
        images, began = 0, time.monotonic()
        while time.monotonic() - began < float(line):
            images += len(next(source)[0])
        print(json.dumps({"images_per_s": images / (time.monotonic() - began)}), flush=True)


if __name__ == "__main__":
    main()
