"""What bench/decode, bench/prefill and bench/batch share: run both programs in turns, print a table.

The two take turns, and who begins changes with each round, so that a machine whose speed drifts
drifts for both. A round measures each test once; warm-up is the programs' own.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINE = ROOT / "build" / "infer-engine"
PEER = ROOT / "build" / "peer" / "cmake" / "bin"
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"


def physical_cores():
    """Cores, not hardware threads: what both programs do best with."""
    seen = set()
    for cpu in pathlib.Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        seen.add(((cpu / "physical_package_id").read_text(), (cpu / "core_id").read_text()))
    return max(1, min(len(seen) or 1, len(os.sched_getaffinity(0))))


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("-m", "--model", default=str(MODEL), help="GGUF file")
    parser.add_argument("-t", "--threads", type=int, default=physical_cores())
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--ours-only", action="store_true", help="without the peer")
    parser.add_argument("--json", action="store_true", help="one JSON object a test")
    return parser


def lines_of_json(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ours(options, tests, **lists):
    """{test: tokens/s} of one run; lists are pp=, tg=, depth=, batch= as infer-engine bench takes them."""
    command = [ENGINE, "bench", "-m", options.model, "-t", options.threads, "-r", 1]
    for name, value in lists.items():
        command += [f"--{name}", value]
    found = {line["test"]: line["tokens_per_s"] for line in lines_of_json(command)}
    missing = [test for test in tests if test not in found]
    if missing:
        sys.exit(f"infer-engine bench did not measure {missing}; it measured {sorted(found)}")
    return {test: found[test] for test in tests}


def peer_bench(options, name, **flags):
    """{test: tokens/s} of one llama-bench run; name() makes a test's name out of its line."""
    command = [PEER / "llama-bench", "-m", options.model, "-t", options.threads, "-r", 1, "-o", "jsonl"]
    for flag, value in flags.items():
        command += [f"-{flag}", value]
    return {name(line): line["avg_ts"] for line in lines_of_json(command)}


def spread(values):
    return min(values), statistics.median(values), max(values)


def compare(options, measure_ours, measure_peer):
    """Runs both in turns and prints a line a test: minimum, median, maximum, ratio of the medians."""
    if not ENGINE.exists():
        sys.exit("build/infer-engine is not there: run make")
    sides = [("ours", measure_ours)]
    if not options.ours_only:
        subprocess.run([ROOT / "bench" / "peer"], check=True)
        sides.append(("peer", measure_peer))
    figures = {}
    for round_number in range(options.rounds):
        for side, measure in sides if round_number % 2 == 0 else sides[::-1]:
            for test, rate in measure().items():
                figures.setdefault(test, {}).setdefault(side, []).append(rate)
    if not options.json:
        print(f"{options.threads} threads, {options.rounds} rounds in turns, {pathlib.Path(options.model).name}; "
              "tokens/s: minimum  median  maximum")
        print(f"{'test':<14}{'infer':^28}{'llama.cpp':^28}{'ratio':>8}")
    for test, sides_of_test in figures.items():
        low, middle, high = spread(sides_of_test["ours"])
        record = {"test": test, "ours": [low, middle, high]}
        line = f"{test:<14}{low:>9.1f}{middle:>9.1f}{high:>9.1f} "
        if "peer" in sides_of_test:
            peer_low, peer_middle, peer_high = spread(sides_of_test["peer"])
            record.update(peer=[peer_low, peer_middle, peer_high], ratio=middle / peer_middle)
            line += f"{peer_low:>9.1f}{peer_middle:>9.1f}{peer_high:>9.1f} {middle / peer_middle:>8.2f}"
        print(json.dumps(record) if options.json else line, flush=True)
