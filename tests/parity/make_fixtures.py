#!/usr/bin/env python3
"""Writes the fixtures of tests/models/parity_test.cpp: what PyTorch computes for both networks.

usage: make_fixtures.py [FOLDER]       needs numpy and torch; the tests themselves do not.

Weights and inputs are not stored: both sides make them from a counter-based generator (Philox4x32-10, stream =
FNV-1a of the array's name). A fixture holds the settings, the first logits, ten losses of SGD, and for the
gradient of each parameter in the first step its sum, sum of magnitudes and norm.
"""
import json
import math
import os
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def philox(seed, stream, blocks):
    """Words (blocks, 4) of Philox4x32-10."""
    mask = np.uint64(0xFFFFFFFF)
    counter = np.arange(blocks, dtype=np.uint64)
    c0, c1 = counter & mask, counter >> np.uint64(32)
    c2 = np.full(blocks, stream & 0xFFFFFFFF, np.uint64)
    c3 = np.full(blocks, stream >> 32, np.uint64)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0), p1 & mask,
            (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1), p0 & mask)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1)


def stream_of(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def named_values(name, shape, low, high):
    count = math.prod(shape)
    words = philox(1, stream_of(name), (count + 3) // 4).reshape(-1)[:count]
    unit = (words >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    low, high = np.float32(low), np.float32(high)
    return torch.from_numpy((low + (high - low) * unit).reshape(shape))


margins = []


def relu(x):
    """ReLU that notes how near to its kink the nearest value came, in deviations."""
    margins.append((x.abs().min() / x.std()).item())
    return F.relu(x)


class CifarNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * 8 * 8, 512)
        self.fc2 = nn.Linear(512, classes)

    def forward(self, x):
        x = F.max_pool2d(relu(self.conv1(x)), 2)
        x = F.max_pool2d(relu(self.conv2(x)), 2)
        return self.fc2(relu(self.fc1(torch.flatten(x, 1))))


class Block(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.downsample = None
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out))

    def forward(self, x):
        residual = x if self.downsample is None else self.downsample(x)
        x = relu(self.bn1(self.conv1(x)))
        return relu(self.bn2(self.conv2(x)) + residual)


class ResNet18(nn.Module):
    def __init__(self, classes, cifar_stem):
        super().__init__()
        self.cifar_stem = cifar_stem
        self.conv1 = (nn.Conv2d(3, 64, 3, 1, 1, bias=False) if cifar_stem else
                      nn.Conv2d(3, 64, 7, 2, 3, bias=False))
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = relu(self.bn1(self.conv1(x)))
        if not self.cifar_stem:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def set_parameters(model):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) == 1:
                low, high = (0.5, 1.5) if name.endswith(".weight") else (-0.1, 0.1)
            else:
                high = np.sqrt(np.float32(3.0) / np.float32(math.prod(shape[1:])))
                low = -high
            parameter.copy_(named_values(name, shape, low, high))


def first_input_away_from_kinks(model, n, size):
    """The inputs whose first step keeps every value farthest from a ReLU's kink.

    A value within rounding of the kink may fall on either side, and then whole terms of the gradients differ.
    """
    def margin(first):
        margins.clear()
        with torch.no_grad():
            model(named_values(f"input{first}", (n, 3, size, size), 0, 1))
        return min(margins)
    return max(range(0, 600, 10), key=margin)


def fixture(model, settings):
    n, size, classes = settings["batch"], settings["size"], settings["classes"]
    set_parameters(model)
    first = first_input_away_from_kinks(model, n, size)
    set_parameters(model)
    model.load_state_dict({name: torch.zeros_like(t) if "mean" in name else torch.ones_like(t)
                           for name, t in model.named_buffers()}, strict=False)
    optimizer = torch.optim.SGD(model.parameters(), settings["lr"], settings["momentum"],
                                weight_decay=settings["weight_decay"])
    result = dict(settings, torch=torch.__version__, first_input=first, losses=[])
    for step in range(10):
        x = named_values(f"input{first + step}", (n, 3, size, size), 0, 1)
        labels = torch.tensor([(i * 7 + step * 3) % classes for i in range(n)])
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        result["losses"].append(loss.item())
        if step == 0:
            result["logits"] = logits.detach().reshape(-1).tolist()
            result["gradients"] = {
                name: [p.grad.double().sum().item(), p.grad.double().abs().sum().item(),
                       p.grad.double().norm().item()]
                for name, p in model.named_parameters()}
        optimizer.step()
    return result


def main(folder):
    torch.manual_seed(0)
    common = {"momentum": 0.9, "weight_decay": 1e-4}
    cases = {
        "cifar_net": (CifarNet(10), dict(model="cifar-net", batch=8, size=32, classes=10, lr=0.01,
                                         cifar_stem=False)),
        "resnet18": (ResNet18(7, False), dict(model="resnet18", batch=4, size=48, classes=7,
                                              lr=0.0002, cifar_stem=False)),
        "resnet18_cifar": (ResNet18(10, True), dict(model="resnet18", batch=4, size=16, classes=10,
                                                    lr=0.0002, cifar_stem=True)),
    }
    for name, (model, settings) in cases.items():
        path = os.path.join(folder, name + ".json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(fixture(model, {**settings, **common}), out, indent=1)
            out.write("\n")
        print(path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))
