#!/usr/bin/env python3
"""PyTorch's side of compare_step.sh: the same works as bench_step, answered the same way.

usage: torch_step.py --work WORK --threads N [--channels-last]
Reads lines "N" and answers with the milliseconds of N training steps; "end" answers with the peak memory in MiB.
"""
import argparse
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


class CifarNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * 8 * 8, 512)
        self.fc2 = nn.Linear(512, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


class Block(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.downsample = None
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out))

    def forward(self, x):
        residual = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        x += residual
        return self.relu(x)


class ResNet18(nn.Sequential):
    def __init__(self, classes):
        layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
                  nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for out, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
            layers += [Block(channels, out, stride), Block(out, out, 1)]
            channels = out
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


WORKS = {"cifar-net": (CifarNet, 64, 32, 10), "resnet18-224": (ResNet18, 16, 224, 2),
         "resnet18-32": (ResNet18, 64, 32, 10)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", choices=WORKS, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    network, batch, size, classes = WORKS[args.work]
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    model = network(classes).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), 0.001, 0.9)
    x = torch.rand(batch, 3, size, size).contiguous(memory_format=layout)
    labels = torch.arange(batch) % classes

    def step():
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        assert loss.isfinite().item()
        return 1000 * (time.perf_counter() - start)

    step()
    step()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, flush=True)
        else:
            print(*(f"{step():.4f}" for _ in range(int(line))), flush=True)


if __name__ == "__main__":
    main()
