"""Lines of ratios from the tables that bench/compare_allreduce.sh collected: FOLDER/RANKS.NAME."""
import pathlib
import statistics
import sys


def medians(path):
    """Median of the tables' p50 columns, by size in bytes."""
    times = {}
    for line in path.read_text().splitlines():
        fields = line.replace("[0]", "").split()
        if fields and fields[0].isdigit():
            times.setdefault(int(fields[0]), []).append(float(fields[2]))
            if fields[6] != "0":
                sys.exit(f"{path.name}: wrong results: {line}")
    return {size: statistics.median(values) for size, values in times.items()}


def main(folder):
    peers_of = {"shared": ["gloo", "mpi"], "foreign": ["gloo", "mpi"], "tcp": ["gloo", "mpi-tcp"],
                "threads": ["shared"]}
    print(f"{'ranks':>5} {'path':>8} {'bytes':>9} {'us':>9} {'busbw':>7}   {'peers, us':<32} ratio")
    for ranks in sorted({int(path.name.split(".")[0]) for path in folder.glob("[0-9]*.*")}):
        tables = {path.name.split(".")[1]: medians(path) for path in folder.glob(f"{ranks}.*")}
        for name, peers in peers_of.items():
            for size, micros in sorted(tables[name].items()):
                better = min(tables[peer][size] for peer in peers)
                text = ", ".join(f"{peer} {tables[peer][size]:.1f}" for peer in peers)
                busbw = size / micros * 1e-3 * 2 * (ranks - 1) / ranks
                print(f"{ranks:5} {name:>8} {size:9} {micros:9.1f} {busbw:7.2f}   {text:<32} "
                      f"{better / micros:.2f}")


main(pathlib.Path(sys.argv[1]))
