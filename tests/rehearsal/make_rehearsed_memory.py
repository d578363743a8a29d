#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rehearses trainings and stores what they allocated and reserved: tests/data/rehearsed_memory.csv.

    pip install torch==2.15.* transformers peft accelerate bitsandbytes deepspeed==0.19.8    # a virtual environment
    pip install --no-deps megatron-core==0.16.1 torchtitan==0.3.0                            # another one; as make_torch_memory.py says
    tests/rehearsal/make_rehearsed_memory.py --python transformers=A/bin/python --python others=B/bin/python

A row is what a rank of one configuration of the programs in trainings/ held at most, by p4d's names of options. The list is the
same in every run: rows that the file has are not made again, new ones are added at its end. looked_at says whether the order
of a step in transformers_reserved.c was written with the row in view (while) or only compared with it (after); set it by hand: new rows
are `after`. Training alone is measured: --steps 2, and 6 where lengths vary. The GPU has 141 GB, so that reserved memory hardly
shrinks under pressure; what does not fit there gets no row."""
import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = {  # hidden, ffn, heads, kv-heads, head-dim, vocab, tied
    "llama": [(2048, 8192, 32, 8, 64, 128256, "on"), (4096, 14336, 32, 8, 128, 128256, "off"),
              (4096, 11008, 32, 32, 128, 32000, "off"), (2048, 5632, 32, 4, 64, 32000, "off")],
    "mistral": [(4096, 14336, 32, 8, 128, 32768, "off")],
    "qwen2": [(896, 4864, 14, 2, 64, 151936, "on"), (3584, 18944, 28, 4, 128, 152064, "off"),
              (1536, 8960, 12, 2, 128, 151936, "on")],
    "qwen3": [(1024, 3072, 16, 8, 128, 151936, "on"), (2560, 9728, 32, 8, 128, 151936, "on"),
              (4096, 12288, 32, 8, 128, 151936, "off")],
    "phi3": [(3072, 8192, 32, 32, 96, 32064, "off")],
    "gpt2": [(1600, 6400, 25, 25, 64, 50257, "on"), (768, 3072, 12, 12, 64, 50257, "on")],
    "gpt_neox": [(2048, 8192, 8, 8, 256, 50304, "off")],
}
DEPTHS = {"llama": (16, 32, 32, 22), "mistral": (32,), "qwen2": (24, 28, 28), "qwen3": (28, 36, 36), "phi3": (32,),
          "gpt2": (48, 12), "gpt_neox": (16,)}
EXPERTS = {  # the same, with experts, experts-per-token, expert-ffn
    "mixtral": [(2048, 4096, 16, 8, 128, 32000, "off", 8, 2, 4096)],
    "qwen3_moe": [(2048, 6144, 32, 4, 128, 151936, "off", 32, 8, 768)],
    "olmoe": [(2048, 1024, 16, 16, 128, 50304, "off", 64, 8, 1024)],
}
SHAPE = ["hidden", "ffn", "heads", "kv-heads", "head-dim", "vocab", "tied", "experts", "experts-per-token", "expert-ffn"]
AS_P4D = {"mistral": ("llama", "", ""), "qwen2": ("llama", "qkv", ""), "qwen3": ("llama", "", "on"),
          "gpt_neox": ("gpt-neox", "", ""), "mixtral": ("llama", "", ""),
          "qwen3_moe": ("llama", "", "on"), "olmoe": ("llama", "", "wide")}
OPTIONS = ["program", "model-type", "architecture", "bias", "qk-norm", *SHAPE, "layers", "seq-len", "padding", "micro-batch",
           "micro-batches", "framework", "dp", "shard-degree", "tp", "pp", "ep", "sequence-parallel", "fsdp-version",
           "backward-prefetch", "reshard-after-forward", "orig-params", "zero-stage", "zero-bucket", "overlap-dp", "offload",
           "finetune", "lora-rank", "lora-targets", "adapter-dtype", "param-dtype", "autocast", "optimizer",
           "optimizer-foreach", "optimizer-sharding", "grad-dtype", "swiglu", "chunked-loss", "recompute", "attention",
           "packing", "allocator", "family", "flavor"]
RESULTS = ["gpu", "torch", "release", "phase", "allocated", "reserved", "device", "side", "small", "resident", "pinned"]
PHASES = ["load", "forward-1", "backward-1", "update-1", "forward-2", "backward-2", "update-2"]
OF_PHASES = ["load", "training", "evaluation", "save"]  # the columns of the other file
OPTIONS_OF_PHASES = [*OPTIONS, "eval-micro-batch", "load"]
FIELDS = ["looked_at", *OPTIONS, *RESULTS, *("%s-%s" % (phase, kind) for phase in PHASES for kind in ("allocated", "reserved"))]
FIELDS_OF_PHASES = ["looked_at", *OPTIONS_OF_PHASES, "gpu", "torch", "release", "pinned", "copied",
                    *("%s-%s" % (phase, kind) for phase in OF_PHASES for kind in ("allocated", "reserved", "resident"))]
TITAN = {  # of a flavor, as p4d names it
    ("llama3", "1B"): (2048, 8192, 32, 8, 64, 128256, "on"), ("llama3", "3B"): (3072, 8192, 24, 8, 128, 128256, "on"),
    ("llama3", "8B"): (4096, 14336, 32, 8, 128, 128256, "off"), ("qwen3", "0.6B"): (1024, 3072, 16, 8, 128, 151936, "on"),
    ("qwen3", "1.7B"): (2048, 6144, 16, 8, 128, 151936, "on"), ("qwen3", "8B"): (4096, 12288, 32, 8, 128, 151936, "off"),
    ("llama3", "70B"): (8192, 28672, 64, 8, 128, 128256, "off"),
    ("qwen3", "30B-A3B"): (2048, 6144, 32, 4, 128, 151936, "off", 128, 8, 768)}


def of_transformers(r, framework, experts=False, finetune="full"):
    c = {"program": "transformers", "framework": framework, "finetune": finetune, "padding": "max-length", "packing": "on"}
    table = EXPERTS if experts else MODELS
    kinds = [k for k in table if finetune == "full" or k not in ("gpt2", "gpt_neox", "phi3")]
    c["model-type"] = r.choice(sorted(kinds))
    c.update(zip(("architecture", "bias", "qk-norm"), AS_P4D.get(c["model-type"], (c["model-type"], "", ""))))
    which = r.randrange(len(table[c["model-type"]]))
    c.update(zip(SHAPE, table[c["model-type"]][which]))
    c["layers"] = r.choice((2, 4))
    if not experts and (c["hidden"] < 3000 or framework != "ddp" or finetune != "full"):  # others as large as the GPU
        full = DEPTHS[c["model-type"]][which]
        c["layers"] = r.choice((4, 8, 8, min(full, 16)))
    c["seq-len"] = r.choice((512, 1024, 2048, 4096, 8192) if not experts else (1024, 2048))
    if c["model-type"] in ("gpt2", "gpt_neox"):
        c["seq-len"] = r.choice((1024, 2048))
    c["micro-batch"] = r.choice([b for b in (1, 2, 4, 8) if b * c["seq-len"] <= 16384])
    c["micro-batches"] = r.choice((1, 1, 2))
    c["recompute"] = r.choice(("none", "full"))
    c["attention"] = "eager" if c["seq-len"] <= 1024 and r.random() < 0.15 else "sdpa"
    c["optimizer"] = r.choice(("adamw", "adamw", "adamw", "adamw", "adamw-8bit", "sgd", "adafactor"))
    c["optimizer-foreach"] = "on" if c["optimizer"] == "adamw" and r.random() < 0.35 else "off"
    c["param-dtype"], c["autocast"] = r.choice((("fp32", "on"), ("bf16", "off"), ("bf16", "on"), ("fp32", "off"))
                                              if r.random() < 0.3 else (("fp32", "on"), ("bf16", "off"), ("bf16", "on")))
    if c["micro-batch"] > 1 and r.random() < 0.3:
        c["padding"], c["packing"] = "longest", "off"
    c["allocator"] = "expandable" if r.random() < 0.25 else "default"
    c["dp"] = c["shard-degree"] = r.choice((1, 1, 1, 8))
    if experts:
        c["optimizer"], c["optimizer-foreach"], c["attention"] = "adamw", "off", "sdpa"
    if finetune != "full":
        c.update({"lora-rank": r.choice((8, 16, 64)), "lora-targets": r.choice(("all-linear", "all-linear", "attention")),
                  "adapter-dtype": "fp32", "optimizer": r.choice(("adamw", "adamw", "adamw-8bit")), "attention": "sdpa",
                  "param-dtype": "fp32" if finetune == "qlora" else "bf16",  # what prepare_model_for_kbit_training leaves
                  "optimizer-foreach": "off"})
        c["autocast"] = "on"
    if framework != "ddp":
        c["dp"] = c["shard-degree"] = r.choice((4, 8, 16))
        c["autocast"] = "off"
        c["param-dtype"] = "bf16" if framework == "deepspeed" else "fp32"
        c["optimizer"] = "adamw"
        c["optimizer-foreach"] = "on" if framework == "fsdp" and r.random() < 0.35 else "off"
    return c


def of_fsdp(r, version, experts=False):
    c = of_transformers(r, "fsdp", experts)
    c["fsdp-version"] = version
    if version == 1:
        c.update({"autocast": "on", "backward-prefetch": r.choice(("on", "on", "off")),
                  "reshard-after-forward": r.choice(("on", "on", "on", "off")), "orig-params": r.choice(("on", "off"))})
    else:
        c["reshard-after-forward"] = "on"
    return c


def of_deepspeed(r, stage):
    c = of_transformers(r, "deepspeed")
    c.update({"zero-stage": stage, "offload": "none", "optimizer-foreach": "off"})
    if stage in (1, 2):
        c.update({"zero-bucket": r.choice((500000000, 200000000)), "overlap-dp": r.choice(("off", "on"))})
    if stage >= 2:
        c["offload"] = r.choice(("none", "none", "optimizer"))
    return c


def of_host(r, framework, offload):
    """Weights come from a file, and the host has what is offloaded."""
    c = of_fsdp(r, 2) if framework == "fsdp" else of_transformers(r, "ddp") if framework == "ddp" else of_deepspeed(r, framework)
    c.update({"load": "file", "padding": "max-length", "packing": "on"})
    if c["hidden"] > 2048:
        c["layers"] = min(c["layers"], 4)  # all of it is on this machine
    if framework != "ddp":
        c["offload"] = offload
    return c


def of_torchtitan(r, kind):
    c = {"program": "torchtitan", "framework": "fsdp", "finetune": "full", "fsdp-version": 2, "padding": "max-length"}
    flavors = sorted(TITAN)
    c["family"], c["flavor"] = ("qwen3", "30B-A3B") if kind == "experts" else r.choice([f for f in flavors if f[1] != "30B-A3B"])
    c.update(zip(SHAPE, TITAN[c["family"], c["flavor"]]))
    c["qk-norm"] = "on" if c["family"] == "qwen3" else "off"
    full = {"1B": 16, "3B": 28, "8B": 32, "0.6B": 28, "1.7B": 28, "70B": 8, "30B-A3B": 4}[c["flavor"]]
    c["layers"] = r.choice((4, 8, 8, min(full, 16))) if kind != "experts" else r.choice((2, 4))
    c["tp"] = r.choice((2, 4)) if kind == "tp" else 1
    c["pp"], c["ep"] = 1, r.choice((1, 4)) if kind == "experts" else 1
    c["shard-degree"] = r.choice((4, 8, 16))
    c["dp"] = c["shard-degree"] * r.choice((1, 1, 2))
    c["seq-len"] = r.choice((2048, 4096, 8192))
    c["micro-batch"] = r.choice([b for b in (1, 2, 4) if b * c["seq-len"] <= 8192])
    c["micro-batches"] = r.choice((1, 1, 2))
    c["recompute"] = r.choice(("none", "selective", "full"))
    c["chunked-loss"] = r.choice(("on", "off"))
    c["allocator"] = r.choice(("default", "default", "expandable"))
    if kind == "pp":  # stages differ: no tied tables
        c["family"], c["flavor"] = r.choice((("llama3", "8B"), ("qwen3", "8B"), ("llama3", "70B")))
        c.update(zip(SHAPE, TITAN[c["family"], c["flavor"]]))
        c["qk-norm"] = "on" if c["family"] == "qwen3" else "off"
        c["layers"], c["pp"], c["micro-batches"] = r.choice((4, 8)), 2, 4
    return c


def of_megatron(r, kind):
    c = {"program": "megatron", "framework": "megatron", "padding": "max-length"}
    c.update(zip(SHAPE, r.choice([(2048, 8192, 32, 8, 64, 32000, "off"), (4096, 14336, 32, 8, 128, 128256, "off"),
                                  (1024, 4096, 16, 16, 64, 50304, "on"), (4096, 11008, 32, 32, 128, 32000, "off"),
                                  (3072, 8192, 24, 8, 128, 128256, "on")])))
    c["pp"] = 2 if kind == "pp" else 1
    c["tp"] = r.choice((1, 2, 4))
    c["dp"] = r.choice((1, 2, 4))
    c["layers"] = c["pp"] * r.choice((2, 4, 8))
    c["ep"] = 1
    if kind == "experts":
        c.update({"experts": 8, "experts-per-token": 2, "expert-ffn": c["ffn"] // 4, "tp": 1, "ep": 2, "dp": 4})
    if kind == "pp":
        c["tied"] = "off"
    c["sequence-parallel"] = r.choice(("on", "on", "off")) if c["tp"] > 1 else "off"
    c["seq-len"] = r.choice((1024, 2048, 4096))
    c["micro-batch"] = r.choice([b for b in (1, 2, 4) if b * c["seq-len"] <= 4096])
    c["micro-batches"] = r.choice((1, 2)) if kind != "pp" else 4
    c["recompute"] = r.choice(("none", "selective", "full"))
    c["grad-dtype"] = r.choice(("fp32", "fp32", "bf16"))
    c["optimizer-sharding"] = r.choice(("on", "on", "off"))
    c["overlap-dp"] = r.choice(("off", "on")) if c["optimizer-sharding"] == "on" else "off"
    c["swiglu"], c["attention"] = "unfused", "flash"
    c["allocator"] = r.choice(("default", "default", "expandable"))
    c["eval-micro-batch"] = c["micro-batch"] * r.choice((1, 2, 4))
    return c


# Megatron-Core's own experts run one by one, and its own products make gradients of weights; p4d has formulas only
# for the experts that Transformer Engine groups: no rows.
KINDS = [  # drawn in turn, until each has as many as it says
    (26, lambda r: of_transformers(r, "ddp")), (8, lambda r: of_transformers(r, "ddp", finetune="lora")),
    (10, lambda r: of_fsdp(r, 2)), (10, lambda r: of_fsdp(r, 1)), (4, lambda r: of_deepspeed(r, 0)),
    (6, lambda r: of_deepspeed(r, 1)), (8, lambda r: of_deepspeed(r, 2)), (8, lambda r: of_deepspeed(r, 3)),
    (12, lambda r: of_torchtitan(r, "dense")), (6, lambda r: of_torchtitan(r, "tp")), (4, lambda r: of_torchtitan(r, "experts")),
    (16, lambda r: of_megatron(r, "dense")), (12, lambda r: of_megatron(r, "pp")), (0, lambda r: of_megatron(r, "experts")),
    (8, lambda r: of_transformers(r, "ddp", finetune="qlora")), (4, lambda r: of_transformers(r, "ddp", experts=True)),
    (4, lambda r: of_fsdp(r, 2, experts=True)), (4, lambda r: of_torchtitan(r, "pp")),
    (4, lambda r: of_host(r, 3, "optimizer+params")), (4, lambda r: of_host(r, 3, "optimizer")),
    (4, lambda r: of_host(r, 2, "optimizer")), (4, lambda r: of_host(r, "fsdp", "params")),
    (4, lambda r: of_host(r, "fsdp", "none")), (4, lambda r: of_host(r, "ddp", "none")),
]


def configurations():
    """All of them, in the order in which they are made: every framework comes early."""
    drawn = [[draw(random.Random(1000 * i + k)) for k in range(count)] for i, (count, draw) in enumerate(KINDS)]
    for k in range(max(len(some) for some in drawn)):
        for some in drawn:
            if k < len(some):
                yield {"looked_at": "after", "eval-micro-batch": 2 * some[k]["micro-batch"], **some[k]}


def key(c):
    return tuple(str(c.get(name, "")) for name in OPTIONS)


def said(c):
    return " ".join("%s=%s" % item for item in c.items() if item[1] != "")


UNTIL = {"transformers": ["eval", "save"], "torchtitan": [], "megatron": ["eval"]}


def read(path):
    return list(csv.DictReader(open(path))) if Path(path).exists() else []


PACKAGE = {"transformers": "transformers", "torchtitan": "torchtitan", "megatron": "megatron-core"}


def releases(python):
    """Of the packages that this Python has."""
    listed = subprocess.run([python, "-c", "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in "
                             "m.distributions()}))"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(listed)


def is_alone(c):
    """Whether it runs without a launcher, as on a machine with one GPU."""
    return c["program"] == "transformers" and c["dp"] == 1


def tasks_of(number, c, given):
    """What in_turn.py runs for a configuration: the first rank and, where ranks differ, the last: of a pipeline, and of ZeRO 1
    and 2, where it keeps the gradients that are there first."""
    world = c["dp"] * c.get("tp", 1) * c.get("pp", 1)
    differ = c.get("pp", 1) > 1 or c.get("zero-stage") in (1, 2)
    each = min(world, 8)
    words = ["%s=%s" % (name, value) for name, value in c.items() if value != "" and name in OPTIONS_OF_PHASES]
    steps = 6 if c["padding"] == "longest" else 2
    for rank in sorted({0, world - 1 if differ else 0}):
        environment = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"} if c["allocator"] == "expandable" else {}
        of_rank = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": rank % each, "LOCAL_WORLD_SIZE": each,
                   "GROUP_RANK": rank // each, "GROUP_WORLD_SIZE": world // each, "ROLE_RANK": rank, "ROLE_WORLD_SIZE": world}
        environment.update((name, None if is_alone(c) else str(value)) for name, value in of_rank.items())
        yield {"name": "%d-%d" % (number, rank), "program": str(HERE / "trainings" / ("with_%s.py" % c["program"])),
               "words": words, "environment": environment, "steps": steps, "until": UNTIL[c["program"]] if given.phases else [],
               "seconds": given.timeout}


def start(p4d, python, gpu, tasks, folder, alone):
    """The rehearsal of all of them."""
    (folder / "tasks.json").write_text(json.dumps(tasks))
    environment = dict(os.environ, HF_HOME=str(folder), HF_HUB_OFFLINE="1", WANDB_MODE="disabled", TMPDIR=str(folder),
                       TOKENIZERS_PARALLELISM="false", XDG_CACHE_HOME=str(folder), DS_BUILD_OPS="0", OMP_NUM_THREADS="1",
                       PYTORCH_NVML_BASED_CUDA_CHECK="1")  # imports that ask whether there is a GPU do not use it
    environment.pop("PYTORCH_ALLOC_CONF", None)
    gpus = ["--nodes", "1", "--gpus-per-node", "1"] if alone else ["--nodes", "2", "--gpus-per-node", "8"]
    return subprocess.Popen([p4d, "rehearse", "--gpu", gpu, *gpus, "--ranks", "0", "--steps", "0", "--timeout", "86400",
                             "--verbose", "--json", "--", python, HERE / "trainings" / "in_turn.py", folder / "tasks.json",
                             folder], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                            stdout=open(folder / "stderr", "w"), stderr=subprocess.STDOUT)


def add_most(found, name, bytes_):
    found[name] = max(found.get(name, 0), bytes_)


def add_phase(found, one):
    """A line that in_turn.py, or the rehearsal's module of phases, wrote."""
    if "until" in one:
        of = one["until"] if one["until"] in OF_PHASES else "training"
        found[of + "-resident"] = one["resident"]
        if of in ("load", "training"):
            found.update((k, one[k]) for k in ("resident", "side", "small"))
    if "host_copies" in one:
        found["copied"] = one["host_copies"]
    if "phase" not in one or "allocated" not in one:
        return
    phase = one["phase"] if one["phase"] in OF_PHASES else "%s-%d" % (one["phase"], min(one["step"], 2))
    if phase not in OF_PHASES[1:] and one["allocated"] > found.get("allocated", 0):
        found["phase"] = phase
    for kind in ("allocated", "reserved"):
        add_most(found, "%s-%s" % (phase, kind), one[kind])
        if phase in PHASES:
            add_most(found, kind, one[kind])
            add_most(found, "training-" + kind, one[kind])


def read_rank(folder, name):
    """What a rank held, or None where it failed."""
    if (folder / (name + ".done")).read_text() != "0":
        return None
    found = {}
    for line in (folder / (name + ".jsonl")).read_text().splitlines():
        add_phase(found, json.loads(line))
    report = json.loads((folder / (name + ".report")).read_text())
    if report["missing"]:
        return None
    others = max(0, *(found.get(phase + "-reserved", 0) - found["reserved"] for phase in ("evaluation", "save")))
    found["pinned"] = report["pinned_bytes"]
    found["device"] = max(d["peak_bytes"] for d in report["devices"]) - others
    return found if "backward-2-allocated" in found else None


def take(folder, names):
    """What one of a configuration's ranks held at most; a text that says why there is none."""
    ranks = [read_rank(folder, name) for name in names]
    if not all(ranks):
        return "".join((folder / (name + ".log")).read_text(errors="replace")[-800:] for name in names)
    fullest = max(ranks, key=lambda rank: rank["allocated"])
    for name in fullest:
        if name != "phase":
            fullest[name] = max(rank.get(name, 0) for rank in ranks)
    return fullest


def run_all(given, python, alone, some, write):
    """Runs configurations (number, configuration) in one rehearsal, and writes rows as they come."""
    with tempfile.TemporaryDirectory(prefix="p4d-rehearsed.") as name:
        folder = Path(name)
        tasks = [(number, list(tasks_of(number, c, given))) for number, c in some]
        started = start(given.p4d, python, given.gpu, [t for _, few in tasks for t in few], folder, alone)
        for (number, few), (_, c) in zip(tasks, some):
            names = [task["name"] for task in few]
            while not (folder / (names[-1] + ".done")).exists() and started.poll() is None:
                time.sleep(0.5)
            if not (folder / (names[-1] + ".done")).exists():
                print((folder / "stderr").read_text(errors="replace")[-3000:], file=sys.stderr)
                return
            found = take(folder, names)
            if isinstance(found, str):
                print("failed: %s\n%s" % (said(c), found), file=sys.stderr, flush=True)
            else:
                write(c, found)
        started.wait()


AT_ONCE = 14


def in_turn(wanted):
    """Parts that one rehearsal runs: which Python, whether on one GPU, and numbered configurations of every framework."""
    parts = []
    for which in ("transformers", "others"):
        for alone in (True, False):
            some = [(i, c) for i, c in enumerate(wanted) if (c["program"] == "transformers") == (which == "transformers")
                    and is_alone(c) == alone]
            some.sort(key=lambda one: one[1]["padding"] == "longest")  # cuDNN plans anew for every length
            parts += [(at, which, alone, some[at:at + AT_ONCE]) for at in range(0, len(some), AT_ONCE)]
    return [part[1:] for part in sorted(parts, key=lambda part: part[0])]


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--p4d", default="./p4d")
    words.add_argument("--python", action="append", default=[], metavar="transformers|others=FILE")
    words.add_argument("--gpu", default="h200")
    words.add_argument("--file", default=HERE.parent / "data" / "rehearsed_memory.csv")
    words.add_argument("--phases", help="adds rows of load, evaluation and save to this file, rehearsed_phases.csv; also "
                       "of configurations whose other row is there")
    words.add_argument("--timeout", type=int, default=300)
    words.add_argument("--only", default="", help="rows with these words alone: framework=fsdp padding=longest")
    words.add_argument("--without", default="", help="no rows with one of these words: model-type=qwen3 optimizer=adamw-8bit")
    words.add_argument("--list", action="store_true", help="print the configurations, and run nothing")
    given = words.parse_args()
    pythons = dict(word.split("=", 1) for word in given.python)
    rows = read(given.file)
    there, whole = ({key(row) for row in some} for some in (rows, read(given.phases) if given.phases else rows))
    only, without = ([word.split("=") for word in words.split()] for words in (given.only, given.without))
    wanted = [c for c in configurations() if key(c) not in there & whole and all(str(c.get(n, "")) == v for n, v in only)
              and not any(str(c.get(n, "")) == v for n, v in without)]
    if given.list:
        for c in wanted:
            print(said(c))
        return
    with open(given.file, "a") as out, open(given.phases or os.devnull, "a") as of_phases:
        writers = csv.DictWriter(out, FIELDS, lineterminator="\n"), csv.DictWriter(of_phases, FIELDS_OF_PHASES, lineterminator="\n")
        for file, writer in zip((out, of_phases), writers):
            if not file.tell():
                writer.writeheader()
        for which, alone, some in in_turn(wanted):
            versions = releases(pythons[which])

            def write(c, found):
                row = dict(c, **found, gpu=given.gpu, torch=versions["torch"], release=versions[PACKAGE[c["program"]]])
                for file, writer, before in zip((out, of_phases), writers, (there, whole)):
                    if key(c) in before:
                        continue
                    writer.writerow({name: row.get(name, "") for name in writer.fieldnames})
                    file.flush()

            run_all(given, pythons[which], alone, some, write)


if __name__ == "__main__":
    main()
