#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""p4d-train on CPUs beside PyTorch (pip install torch): the same Llama of 42.5 million parameters, batch and optimizer, in
turns; prints the medians and ratios of tokens per second, and of peak memory. Never fails by the clock.

    tests/bench/pytorch_cpu.py BUILD [--rounds 1] [--threads 1 2] [--precision fp32 bf16] [--batch 4]

A round of all takes about five minutes on two cores that do nothing else; the load is printed with each setting. bf16 is pure there: parameters, gradients and moments of PyTorch are bf16; p4d-train keeps fp32 master weights.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPE = dict(hidden=512, ffn=1408, layers=8, heads=8, kv_heads=8, vocab=16384, tied=False)
LENGTH, STEPS, SKIPPED = 512, 3, 1


def in_pytorch(threads, precision, compiled, batch):
    """One run, in a process of its own: prints tokens per second and peak bytes."""
    sys.path.insert(0, os.path.join(HERE, "..", "gpu"))
    import torch
    from pytorch_baseline import Llama

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Llama(length=LENGTH, **SHAPE).to(torch.bfloat16 if precision == "bf16" else torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    stream = torch.randint(SHAPE["vocab"], (batch, LENGTH + 1))
    run, seconds = torch.compile(model) if compiled else model, []
    for _ in range(STEPS):
        began = time.perf_counter()
        run(stream[:, :-1], stream[:, 1:]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - began)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([batch * LENGTH / statistics.median(seconds[SKIPPED:]), peak]))


def with_pytorch(threads, precision, compiled, batch):
    words = [sys.executable, __file__, "--one", str(threads), precision, "compiled" if compiled else "eager", str(batch)]
    out = subprocess.run(words, check=True, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    return json.loads(out.stdout.splitlines()[-1])


def with_p4d(build, folder, threads, precision, ranks, batch):
    """Ranks side by side with tensor parallelism; threads are those of a rank."""
    log = os.path.join(folder, "log")
    model = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items() if name != "tied"]
    words = [os.path.join(build, "p4d-train"), f"--data={folder}/tokens", f"--steps={STEPS}", f"--log={log}", *model]
    words += ["--model=custom", "--head-dim=64", f"--max-seq-len={LENGTH}", f"--seq-len={LENGTH}", "--norm=rmsnorm", "--glu=on"]
    words += ["--tied=off", "--positions=rope", "--bias=none", "--qk-norm=off", f"--micro-batch={batch}", "--device=cpu"]
    words += [f"--global-batch={batch}", f"--local-ranks={ranks}", f"--tp={ranks}", f"--threads={threads}", f"--precision={precision}"]
    if os.path.exists(log):
        os.unlink(log)
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"p4d-train ended with {child.returncode}")
    with open(log) as file:
        steps = [one for one in map(json.loads, file) if one.get("event") == "step"]
    speed = statistics.median(one["tokens_per_second"] for one in steps[SKIPPED:])
    return [speed, 1024 * usage.ru_maxrss * ranks]


def main():
    if sys.argv[1:2] == ["--one"]:
        return in_pytorch(int(sys.argv[2]), sys.argv[3], sys.argv[4] == "compiled", int(sys.argv[5]))
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("build", help="where p4d-train was built")
    args.add_argument("--rounds", type=int, default=1)
    args.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args.add_argument("--precision", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    args.add_argument("--batch", type=int, default=4, help="sequences in a step")
    args = args.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "text")
        with open(text, "w") as file:
            file.writelines(f"{i} {i * i} {i * i * i}\n" for i in range(20000))
        subprocess.run([os.path.join(args.build, "p4d"), "data", "-o", f"{folder}/tokens", text], check=True, stdout=subprocess.DEVNULL)
        for precision in args.precision:
            for threads in args.threads:
                ways = {
                    "p4d-train, threads": lambda: with_p4d(args.build, folder, threads, precision, 1, args.batch),
                    "PyTorch eager": lambda: with_pytorch(threads, precision, False, args.batch),
                    "PyTorch compiled": lambda: with_pytorch(threads, precision, True, args.batch),
                }
                if threads > 1:
                    ways["p4d-train, ranks"] = lambda: with_p4d(args.build, folder, 1, precision, threads, args.batch)
                runs = {name: [] for name in ways}
                for _ in range(args.rounds):
                    for name, way in ways.items():
                        runs[name].append(way())
                speed = {name: statistics.median(one[0] for one in all_of) for name, all_of in runs.items()}
                memory = {name: statistics.median(one[1] for one in all_of) for name, all_of in runs.items()}
                load = os.getloadavg()[0]
                print(f"{precision}, {threads} thread{'s' * (threads > 1)}, {args.batch} x {LENGTH} tokens a step, load {load:.1f}:")
                for name in ways:
                    ratios = " ".join(
                        f"{speed[name] / speed[other]:.2f} x and {memory[name] / memory[other]:.2f} x the memory of {other};"
                        for other in ways
                        if name.startswith("p4d") and other.startswith("PyTorch")
                    )
                    print(f"  {name:20} {speed[name]:6.0f} tokens/s {memory[name] / 2**20:6.0f} MiB  {ratios}", flush=True)


if __name__ == "__main__":
    main()
