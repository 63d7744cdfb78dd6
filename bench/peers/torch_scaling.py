#!/usr/bin/env python3
"""PyTorch's side of compare_scaling.sh: DistributedDataParallel over Gloo, the works of bench_step, one batch shared
by the ranks.

usage: torch_scaling.py --work WORK --ranks R --threads N [--channels-last] [--steps 15]
Starts R processes of N threads and prints the images per second of the median step.
"""
import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from torch_step import WORKS


def run(rank, args, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=args.ranks)
    torch.set_num_threads(args.threads)
    torch.manual_seed(rank)
    network, whole_batch, size, classes = WORKS[args.work]
    batch = whole_batch // args.ranks
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    model = DistributedDataParallel(network(classes).to(memory_format=layout),
                                    gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), 0.001, 0.9)
    x = torch.rand(batch, 3, size, size).contiguous(memory_format=layout)
    labels = torch.arange(batch) % classes
    times = []
    for _ in range(3 + args.steps):
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        assert loss.isfinite().item()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(f"{whole_batch / statistics.median(times[3:]):.1f}", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", choices=WORKS, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--steps", type=int, default=15)
    args = parser.parse_args()
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port = store.port  # free a moment ago
    del store
    mp.spawn(run, (args, port), nprocs=args.ranks)


if __name__ == "__main__":
    main()
