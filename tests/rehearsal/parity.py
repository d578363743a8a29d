#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds rehearsals against the parity rows: what PyTorch's caching allocator hands out, and what tests/parity counted.

A parity row (tests/data/*_memory.csv) is the peak of a step that frameworks' own code ran while storages were counted in
Python. Here the same code of tests/parity builds the same model with the same releases for real under `p4d rehearse`, and
runs the same step. Only what a GPU that counts needed is left out: attention, autocast, collectives, FSDP and the optimizer
are PyTorch's, as is the allocator.

    tests/rehearsal/parity.py               # a few rows of each file, as ./check rehearsal runs them
    tests/rehearsal/parity.py --count 20    # the sample of ACCURACY.md
    tests/rehearsal/parity.py --file megatron_experts --line 1024 --show 40    # prints to the log what is live at the peak
    tests/rehearsal/parity.py --file megatron_experts --line 221 --store rows.csv    # adds the row with what was reserved: a row
                                                                        # of tests/data/rehearsed_megatron.csv
    tests/rehearsal/parity.py --file megatron_memory --line 273 --least --store rows.csv    # the same, and with how little memory
                                                                                            # the row runs

The sample is drawn with a fixed seed, from rows that a GPU of 141 GiB holds and whose rank runs PASSES layers or fewer.
Prints one line per row: `stored` is the row's peak, `rehearsed` the most that the allocator had given out, in its blocks;
`asked for` is the same without what the allocator does not split off. The last line is the mean of all differences without
sign, and the worst. The test of a file is that its mean is at most BOUND."""
import argparse
import contextlib
import csv
import importlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
PARITY, DATA = HERE.parent / "parity", HERE.parent / "data"
TORCH = "2.15."
# The releases of the rows. Transformer Engine's Python runs on kernels that only allocate
# (tests/parity/te_kernels.py); PEFT cannot be imported with it.
NEEDS = {"torch": ["torchtitan==0.3.0"],
         "transformers": ["transformers==5.23.0", "accelerate", "peft", "bitsandbytes", "deepspeed==0.19.8"],
         "megatron": ["megatron-core==0.16.1", "transformer-engine==2.11.0", "einops", "pybind11", "pydantic"]}
SEED = 38
BOUND = 0.5  # percent
GPU = "gh200-144gb"  # of Hopper's GPUs, for which the rows were made, the one with the most memory
HOLDS = 140 << 30
FITS = 100 << 30  # with what the allocator reserves beside it
# The rows hold cuBLAS's workspace from the first product on, as PyTorch 2.4 and 2.7 do. PyTorch 2.15 takes it for each product
# and gives it back. Both are compared without it.
WORKSPACE = 32 << 20
# The rows have PyTorch's own kernels of attention. On Hopper, PyTorch 2.15 prefers those of cuDNN: --attention cudnn.
LIKE_ROWS = {"CUBLAS_WORKSPACE_CONFIG": ":0:0", "CUBLASLT_WORKSPACE_SIZE": "0", "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1",
             "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}  # imports do not use the GPU, so a child can
PASSES = 24  # most passes through layers in a step, as more of them take minutes
SECONDS = 600  # for a rank
SAYS = "P4D_PARITY "  # begins a line with what was measured
MODULES = {"torch": "make_torch_memory", "megatron": "make_megatron_memory", "transformers": "make_transformers_memory"}
# Imported once for all rows; not PEFT, bitsandbytes and DeepSpeed, which ask the GPU.
IMPORTED = {"torch": ["torchtitan.models.llama3.config_registry", "torchtitan.models.qwen3.config_registry",
                      "torchtitan.models.deepseek_v3.config_registry"], "megatron": [],
            "transformers": ["transformers.models.auto.modeling_auto", "accelerate.utils"]}
FILES = {"torch_memory": "torch", "transformers_memory": "transformers", "transformers_experts": "transformers",
         "megatron_memory": "megatron", "torch_experts": "torch", "megatron_experts": "megatron"}
UNEXPLAINED = {"torch_experts"}  # compared if asked for: three rows of its sample differ by 0.8 to 1.6 %, and one fails


def number(word):
    if word.isdigit():
        return int(word)
    return float(word) if word.replace(".", "", 1).isdigit() else word


def sample(name, count):
    """Randomly chosen lines of a file."""
    with open(DATA / (name + ".csv")) as file:
        lines = [line + 2 for line, row in enumerate(csv.DictReader(file)) if int(row["allocated"]) < HOLDS and
                 int(row["layers"]) * int(row["micro-batches"]) <= PASSES * int(row.get("pp", 1))]
    drawn = random.Random(SEED).sample(lines, min(2 * count, len(lines)))
    return sorted([line for line in drawn if read_row(name, line)["allocated"] < FITS][:count])


def read_row(name, line):
    with open(DATA / (name + ".csv")) as file:
        row = list(csv.DictReader(file))[line - 2]
    return {key: number(value) for key, value in row.items()}


# ---- what runs under p4d rehearse ----

class Account(contextlib.AbstractContextManager):
    """Takes the place of the GPU that only counts, because PyTorch's allocator counts here."""

    inside = quiet = fused = events = selected = 0
    phase = peak_phase = ""
    sites = False

    def __init__(self):
        self.by_class, self.live, self.peak_classes, self.peak_live = {}, {}, {}, []

    def __exit__(self, *_):
        return None

    @property
    def peak(self):
        import torch
        return torch.cuda.max_memory_allocated()

    @peak.setter
    def peak(self, _):
        """A peak that was read before."""

    @staticmethod
    def forget_peak():
        import torch
        torch.cuda.reset_peak_memory_stats()

    @staticmethod
    def scratch(size):
        """A workspace of TransformerEngine's kernels."""
        import torch
        torch.empty(int(size), dtype=torch.uint8, device="cuda")

    def classify(self, *_):
        """Nothing is counted by class."""

    classify_local = _change = hold = classify


@contextlib.contextmanager
def nothing(*_, **__):
    yield


def world(*_, **__):
    """The ranks that p4d plays."""
    import torch
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    plain_world("nccl")


def play_torch(rows, account, c):
    rows.LEDGER = account, nothing()
    rows.alone = nothing  # p4d answers for other stages
    rows.DEVICE = "meta"  # as torchtitan's trainer does
    split = rows.Job.split

    def materialized(self, built, common):
        split(self, built, common)
        for part in self.parts:
            part.to_empty(device="cuda")
            with self.torch.no_grad():
                part.init_weights(buffer_device=None)
            part.train()

    rows.Job.split = materialized
    return rows.measure(c)


def as_one_kernel(function, args, kwargs):
    """What a compiled helper gives: its results alone are in memory. Shapes come from tensors without memory."""
    import torch
    from torch.utils._pytree import tree_map_only
    twins = []

    def shape_of(t):
        twins.append((torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta"), t))
        return twins[-1][0].requires_grad_(t.requires_grad)

    def made(m):
        for twin, t in twins:
            if m.untyped_storage()._cdata == twin.untyped_storage()._cdata:  # written in place, or a view
                return t.as_strided(m.shape, m.stride(), t.storage_offset() + m.storage_offset())
        return torch.empty_strided(m.shape, m.stride(), dtype=m.dtype, device="cuda")

    args, kwargs = tree_map_only(torch.Tensor, shape_of, (args, kwargs))
    return tree_map_only(torch.Tensor, made, function(*args, **kwargs))


inside = []  # the compiled helpers that run


def one_kernel(helper=None, **_):
    """Takes the place of torch.compile, as in counted_gpu.py: inputs are kept for the backward pass. A helper that another
    one calls is part of that one's kernel."""
    import torch
    if helper is None:
        return one_kernel

    def function(*args, **kwargs):
        inside.append(helper)
        try:
            return helper(*args, **kwargs)
        finally:
            inside.pop()

    class Compiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            ctx.save_for_backward(*[a for a in args if isinstance(a, torch.Tensor)])
            ctx.others = [None if isinstance(a, torch.Tensor) else (a,) for a in args]
            return as_one_kernel(function, args, {})

        @staticmethod
        def backward(ctx, *gradients):
            saved = iter(ctx.saved_tensors)
            args = [next(saved) if o is None else o[0] for o in ctx.others]
            needed = [a is not None and n for a, n in zip(args, ctx.needs_input_grad)]

            def back(args, gradients):
                args = [a.detach().requires_grad_() if n else a for a, n in zip(args, needed)]
                with torch.enable_grad():
                    results = function(*args)
                return torch.autograd.grad(results, [a for a, n in zip(args, needed) if n], gradients)

            found = iter(as_one_kernel(back, (args, gradients), {}))
            return tuple(next(found) if n else None for n in needed)

    def call(*args, **kwargs):
        if inside:
            return helper(*args, **kwargs)
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors) and not kwargs:
            return Compiled.apply(*args)
        with torch.no_grad():
            return as_one_kernel(function, args, kwargs)

    return call


def import_megatron():
    import types
    import torch
    torch.compile = one_kernel  # before Transformer Engine and Megatron look it up
    import te_kernels
    fused = types.ModuleType("fused_weight_gradient_mlp_cuda")
    fused.wgrad_gemm_accum_fp32 = fused.wgrad_gemm_accum_fp16 = lambda *_: None
    sys.modules[fused.__name__] = fused
    te_kernels.install(Account())
    for module in ("megatron.core.distributed", "megatron.core.models.gpt.gpt_layer_specs", "megatron.core.optimizer",
                   "megatron.core.pipeline_parallel"):
        importlib.import_module(module)


def select_as_told(account):
    """A mask selects as many elements as the row's dispatcher was told that it does."""
    import torch
    from p4d_rehearsal.values import Values
    plain = Values.answer_unknown

    def answer_unknown(self, operator, function, arguments, named, device):
        if operator is torch.ops.aten.masked_select:
            return True, torch.empty(int(account.selected), dtype=arguments[0].dtype, device=device)
        return plain(self, operator, function, arguments, named, device)

    Values.answer_unknown = answer_unknown


def play_megatron(rows, account, c):
    rows.LEDGER = account
    if "experts" in c:
        select_as_told(account)
    asked = rows.asked_of(c)
    if os.environ.get("PARITY_STORE"):  # what is reserved depends on the first step, too
        asked["first-micro-batches"] = c["micro-batches"]
    return rows.measure(asked, c["stage"])


def replicated(c, _, model, run):
    """As Accelerator.prepare_model does."""
    import torch
    if c["shard-degree"] == 1:
        return run
    world()
    if run is not model:
        model.forward = run
    return torch.nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])


def quantize(model, kept=("lm_head", "embed_out")):
    """NF4 with double quantization, as load_in_4bit leaves it."""
    import bitsandbytes as bnb
    import torch
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear and name not in kept:
                made = bnb.nn.Linear4bit(child.in_features, child.out_features, bias=child.bias is not None, quant_type="nf4",
                                         compute_dtype=torch.bfloat16, compress_statistics=True, device="meta")
                made.bias = child.bias
                made.weight = bnb.nn.Params4bit(child.weight.data, requires_grad=False, quant_type="nf4",
                                                compress_statistics=True, module=made).to("cuda")
                setattr(parent, name, made)
    model.is_loaded_in_4bit = True


def batch_of(c):
    """As the rows have it, but that a mask masks: transformers looks whether it does."""
    batch = plain_batch(c)
    if "attention_mask" in batch:
        batch["attention_mask"][0, -1] = 0
    return batch


def play_transformers(rows, account, c):
    global plain_batch
    import flat_training
    import kernels_of_cuda
    import sharded_training
    import torch
    import trl_training
    trl_training.Selected = nothing
    torch.autograd.has_torch_function = torch.overrides.has_torch_function
    plain_batch, rows.batch_of = rows.batch_of, batch_of
    rows.replicated, kernels_of_cuda.quantize, kernels_of_cuda.Autocast = replicated, quantize, nothing
    flat_training._as_cuda = sharded_training._quiet_shapes = nothing
    flat_training.common = sharded_training.common = rows

    def deepspeed(_):
        import deepspeed
        return deepspeed

    sharded_training._deepspeed = deepspeed
    rows.LEDGER = account
    return rows.measure(c)


def show_peak(events, most):
    """Prints what was live at the last peak: bytes, how many blocks, and the innermost lines of Python."""
    live, total, peak, at_peak = {}, 0, 0, {}
    for event in events:
        if event["action"] == "alloc":
            live[event["addr"]] = event
            total += event["size"]
        elif event["action"] == "free_completed":
            total -= live.pop(event["addr"], event)["size"]
        if total >= peak:
            peak, at_peak = total, dict(live)
    sums = {}
    for event in at_peak.values():
        frames = [f for f in event.get("frames", ()) if f["filename"].endswith(".py") and not re.search(
            r"p4d_rehearsal|torch/(_|nn/modules|utils)|parity\.py", f["filename"])]
        site = " < ".join("%s:%d" % (Path(f["filename"]).name, f["line"]) for f in frames[:6])
        entry = sums.setdefault((event["size"], site), [0])
        entry[0] += 1
    for (size, site), (count,) in sorted(sums.items(), key=lambda one: -one[0][0] * one[1][0])[:most]:
        print("%15d %4d %s" % (size, count, site))


def ran_out(error):
    """Whether the cause of an exception is that PyTorch ran out of memory: its pipelines raise others from it."""
    import torch
    while error and not isinstance(error, torch.OutOfMemoryError):
        error = error.__cause__
    return error is not None


def play(name, row, out, limit=0):
    """Runs a row and writes the highest memory of the row. limit: bytes that PyTorch may reserve, if the GPU has not all of its
    memory. If that is too little, nothing is written but that it was exhausted."""
    import torch
    rows = sys.modules[MODULES[FILES[name]]]
    if limit:
        torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory, 0)
    most = int(os.environ.get("PARITY_SHOW", 0))
    if most:  # p4d would take the history over
        from p4d_rehearsal import phases
        torch.cuda.init()
        phases.current.account.drain = lambda: None
        torch.cuda.memory._record_memory_history(max_entries=1 << 20, stacks="python")
    try:
        globals()["play_" + FILES[name]](rows, Account(), row)
    except RuntimeError as error:
        if not limit or not ran_out(error):
            raise
        Path(out).write_text(json.dumps({"exhausted": True}))
        return
    if most:
        show_peak(torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()], most)
    stats = torch.cuda.memory_stats()
    Path(out).write_text(json.dumps({key: stats[key + "_bytes.all.peak"] for key in ("allocated", "requested", "reserved")}))


def apart(seconds, function, *arguments):
    """Runs a function in a child, which starts with everything imported: imports take longer than most rows."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        signal.alarm(seconds)
        status = 1
        try:
            function(*arguments)
            status = 0
        except BaseException:  # noqa: BLE001  the others have to be played
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    os.waitpid(child, 0)


def play_rank(name, line, row, size, rank, out, folder, limit=0, number=0):
    """In a child: a world with one real rank, in which p4d answers for the other ranks. number: of a row's worlds."""
    record = os.path.join(folder, "record-%d-%d" % (line, number))
    os.makedirs(record, exist_ok=True)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK="0", P4D_REHEARSAL_RECORD=record,
                      TORCHELASTIC_RESTART_COUNT="%d%03d" % (line, number))  # the store keeps keys of worlds apart by it
    play(name, dict(row, rank=rank), out, limit)


def likely_ranks(row, out):
    """In a child: ranks of DeepSpeed of which one holds most."""
    import make_transformers_memory as rows
    import sharded_training
    Path(out).write_text(json.dumps(sharded_training.ranks(row, [p.numel() for p in rows.made(row).parameters()])))


def runs_with(name, line, row, size, ranks, folder, limit, number):
    """Whether the row's last rank runs if PyTorch may reserve only this many bytes. None: it fails for another reason."""
    out = Path(folder, "limited-%d-%d" % (line, number))
    for rank in ranks:
        last = rank == ranks[-1]
        apart(SECONDS, play_rank, name, line, row, size, rank, str(out) if last else os.devnull, folder, last * limit, number)
    return not json.loads(out.read_text()).get("exhausted") if out.exists() else None


def least(name, line, row, size, ranks, folder, peak):
    """The most bytes with which the row runs out of memory, and the fewest with which it runs, 1 % of its allocations apart."""
    step, number = peak["allocated"] // 100, 0
    fails, runs = peak["allocated"], peak["reserved"]
    while runs - fails > step:
        limit, number = fails + max((runs - fails) // 3, min(step, (runs - fails) // 2)), number + 1
        ran = runs_with(name, line, row, size, ranks, folder, limit, number)
        if ran is None:
            return {}
        fails, runs = (fails, limit) if ran else (limit, runs)
    return {"exhausted": fails, "sufficed": runs}


def play_all(name, folder, lines):
    """Runs rows of a file, one after another."""
    global plain_world
    sys.path.insert(0, str(PARITY))
    import counted_gpu
    import torch
    __import__(MODULES[FILES[name]])
    if FILES[name] == "megatron":
        import_megatron()
    for module in IMPORTED[FILES[name]]:
        importlib.import_module(module)
    plain_world, counted_gpu.world = torch.distributed.init_process_group, world
    torch.distributed.init_process_group = world
    for line in lines:
        row = read_row(name, line)
        out = os.path.join(folder, "peak-%d" % line)
        size, ranks = ranks_of(FILES[name], row)
        if row.get("framework") == "deepspeed":
            apart(SECONDS, likely_ranks, row, out + ".ranks")
            ranks = json.loads(Path(out + ".ranks").read_text()) if os.path.exists(out + ".ranks") else []
        for rank in ranks:
            apart(SECONDS, play_rank, name, line, row, size, rank, "%s.%d" % (out, rank), folder)
        played = [json.loads(Path("%s.%d" % (out, rank)).read_text()) for rank in ranks if os.path.exists("%s.%d" % (out, rank))]
        if "framework" in row:
            played.sort(key=lambda peak: peak["allocated"])
        peak = played[-1] if played and len(played) == len(ranks) else {}
        if peak and os.environ.get("PARITY_LEAST"):
            peak.update(least(name, line, row, size, ranks, folder, peak))
        print(SAYS + json.dumps({"line": line, **peak}), flush=True)


# ---- what starts p4d rehearse ----

def ranks_of(kind, row):
    """The size of the world, and the ranks to play: the last one is the row's. Of torchtitan's pipelines the first stage comes
    before it, which tells the others the shapes that it sends."""
    if kind == "transformers":
        return row["shard-degree"], [0]
    stage = row["dp"] * row["tp"] * row["cp"]
    if kind == "megatron":
        return stage * row["pp"], [row["stage"] * stage + row["tp"] * (row["cp"] - 1)]
    return stage * row["pp"], sorted({0, row["stage"] * stage})


def rehearse(given, name, lines):
    """{"line": ..., "allocated": bytes, ...} of each row as it ends; of a row that failed only the line."""
    with tempfile.TemporaryDirectory(prefix="p4d-parity.") as folder:
        environment = dict(os.environ, TMPDIR=folder, HF_HUB_OFFLINE="1", **LIKE_ROWS, PYTHONDONTWRITEBYTECODE="1",
                           PATH="%s:%s" % (Path(given.python).parent, os.environ.get("PATH", "")))
        if given.show:
            environment["PARITY_SHOW"] = str(given.show)
        if given.store:
            environment["PARITY_STORE"] = "1"
        if given.least:
            environment["PARITY_LEAST"] = "1"
        if given.attention == "cudnn":
            del environment["TORCH_CUDNN_SDPA_DEPRIORITIZED"]
        with subprocess.Popen(
                [given.p4d, "rehearse", "--gpu", GPU, "--gpus-per-node", "8", "--ranks", "0", "--steps", "0", "--timeout", "36000",
                 "--verbose", "--", given.python, __file__, "--play", name, folder, *map(str, lines)], cwd=folder,
                env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors="replace") as running, open(given.log, "a") as log:
            for text in running.stdout:
                if text.startswith(SAYS):
                    yield json.loads(text[len(SAYS):])
                else:
                    log.write(text)


def stored_of(kind, row):
    """A row's memory without cuBLAS's workspace. In Megatron, only stages with a head or experts have one."""
    has_products = kind != "megatron" or int(row["stage"]) == int(row["pp"]) - 1 or "experts" in row
    return int(row["allocated"]) - (WORKSPACE if has_products else 0)


def say(name, row, found):
    """The difference in percent; None where there is none."""
    line = found["line"]
    if "allocated" not in found:
        print("      %s:%d: it failed" % (name, line), flush=True)
        return None
    stored = stored_of(FILES[name], row)
    difference = 100.0 * (found["allocated"] / stored - 1)
    print("      %s:%d: %.1f MiB stored, %.1f rehearsed (%+.2f %%); %.1f asked for, %.1f reserved" % (
        name, line, stored / 2**20, found["allocated"] / 2**20, difference, found["requested"] / 2**20,
        found["reserved"] / 2**20), flush=True)
    return difference


def store(path, row, found, release):
    """Adds a row of the file with what the allocator had given out and reserved at most."""
    fields = ["looked_at", *(k for k in row if k not in ("looked_at", "seed", "phase")), "reserved", "torch", "exhausted", "sufficed"]
    with open(path, "a") as out:
        writer = csv.DictWriter(out, fields, extrasaction="ignore", lineterminator="\n")
        if not out.tell():
            writer.writeheader()
        writer.writerow({**row, **found, "looked_at": "after", "torch": release})


def summed(differences):
    if not differences:
        return "no row"
    return "%d rows, mean %.2f %%, worst %.2f %%" % (len(differences), sum(differences) / len(differences), max(differences))


def compare(given, name, report):
    """The differences of a file's rows without sign."""
    lines = given.line or sample(name, given.count)
    found = {line: None for line in lines}
    for peak in rehearse(given, name, lines):
        row = read_row(name, peak["line"])
        found[peak["line"]] = say(name, row, peak)
        if given.store and "allocated" in peak:
            store(given.store, row, peak, given.release)
    differences = [abs(d) for d in found.values() if d is not None]
    failed = len(found) - len(differences)
    good = differences and not failed and sum(differences) / len(differences) <= BOUND
    report.say("ok" if good else "FAIL", "parity/" + name,
               summed(differences) + ("; %d failed, see %s" % (failed, given.log) if failed else ""))
    return differences


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--p4d", default="./p4d", help="the program to test (default ./p4d)")
    words.add_argument("--folder", default="rehearsal-venvs", help="where the virtual environment and the log are kept")
    words.add_argument("--python", help="take this Python as it is, which has the framework of the rows")
    words.add_argument("--count", type=int, default=3, help="rows per file (default 3)")
    words.add_argument("--file", action="append", choices=sorted(FILES), help="of these files only")
    words.add_argument("--line", type=int, action="append", help="these lines of the file, not a sample")
    words.add_argument("--show", type=int, default=0, help="write so many lines to the log of what was live at the peak")
    words.add_argument("--store", help="add the rows to this file, with what was reserved")
    words.add_argument("--least", action="store_true", help="also find with how little memory each row runs; takes ten times as long")
    words.add_argument("--attention", choices=("rows", "cudnn"), default="rows", help="kernels (default: those of the rows)")
    words.add_argument("--play", nargs="+", metavar=("FILE", "FOLDER"), help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.play:
        play_all(given.play[0], given.play[1], map(int, given.play[2:]))
        return 0
    import run
    folder = Path(given.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    report, differences = run.Report(), []
    environment = run.Environment("today", folder, given.python)
    try:
        given.release = run.version_of(environment.open(), "torch")
        if not given.release.startswith(TORCH):
            raise run.Skipped("the rows are of PyTorch %s, not %s" % (TORCH, given.release))
    except run.Skipped as skipped:
        report.say("skip", "parity", skipped)
        return 0
    given.p4d, given.log = str(Path(given.p4d).resolve()), str(folder / "parity.log")
    Path(given.log).unlink(missing_ok=True)
    for name in given.file or [file for file in FILES if file not in UNEXPLAINED]:
        try:
            given.python = str(environment.python_with(NEEDS[FILES[name]]))
            differences += compare(given, name, report)
        except run.Skipped as skipped:
            report.say("skip", "parity/" + name, skipped)
    print("      all: " + summed(differences))
    return 1 if report.counts["FAIL"] else 0


if __name__ == "__main__":
    sys.exit(main())
