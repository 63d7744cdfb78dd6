"""Medians and ratios of the lines that bench/compare_scaling.sh collected, on standard input.

usage: scaling_ratios.py WORK RANKS
"""
import re
import statistics
import sys

KIND = {"one": r"\bone\b", "replicas": r"\breplicas\b", "processes": r"\bprocesses\b",
        "ddp": r"^ddp ", "ddp-channels-last": r"^ddp-channels-last "}


def main(work, ranks):
    rates = {kind: [] for kind in KIND}
    for line in sys.stdin:
        for kind, pattern in KIND.items():
            if re.search(pattern, line):
                rates[kind].append(float(re.search(r"([\d.]+) images/s", line).group(1)))
    median = {kind: statistics.median(values) for kind, values in rates.items()}
    peer = max("ddp", "ddp-channels-last", key=median.get)
    print(f"{work}, images/s: one process {median['one']:.0f}; PyTorch {peer} with {ranks} "
          f"processes {median[peer]:.0f}")
    for kind in ("replicas", "processes"):
        print(f"  {ranks} {kind:10} {median[kind]:8.1f}   to one process "
              f"{median[kind] / median['one']:.2f}   to PyTorch {median[kind] / median[peer]:.2f}")


main(*sys.argv[1:])
