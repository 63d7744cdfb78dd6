#!/usr/bin/env python3
"""Alternates two step servers and prints one line: the work, both rates, their ratio, both peak memories.

usage: alternate.py NAME BATCH ROUNDS STEPS 'OUR COMMAND' 'PEER COMMAND' ['PEER COMMAND' …]
Each round runs STEPS steps of every command in turn and keeps each one's median; the rates are the medians of the
rounds, and the ratio is the median of the rounds' ratios against the best peer. The peer that is faster counts.
"""
import shlex
import statistics
import subprocess
import sys


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit(f"{command}: did not start")
        self.rounds = []

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def run(self, steps):
        self.rounds.append(statistics.median(float(ms) for ms in self.ask(str(steps))))

    def end(self):
        memory = int(self.ask("end")[0])
        self.process.stdin.close()
        self.process.wait()
        return memory


def main():
    name, batch, rounds, steps, *commands = sys.argv[1:]
    servers = [Server(command) for command in commands]
    for _ in range(int(rounds)):
        for server in servers:
            server.run(int(steps))
    memories = [server.end() for server in servers]
    ours, *peers = servers
    best = min(range(len(peers)), key=lambda i: statistics.median(peers[i].rounds))
    peer = peers[best]
    ratio = statistics.median(p / o for p, o in zip(peer.rounds, ours.rounds))
    rate = lambda server: 1000 * int(batch) / statistics.median(server.rounds)
    print(f"{name:14} ringgrad {rate(ours):8.1f} images/s   PyTorch {rate(peer):8.1f} images/s   "
          f"ratio {ratio:.2f}   peak memory {memories[0]} and {memories[1 + best]} MiB", flush=True)


if __name__ == "__main__":
    main()
