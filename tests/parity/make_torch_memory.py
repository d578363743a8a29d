#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of one rank of torchtitan, from its own code, for tests/estimator/framework/test_torch_memory.c.

    pip install torch==2.15.* numpy && pip install --no-deps torchtitan==0.3.0 spmd_types==0.2.3 torch_checkpointing \\
        torchdata tyro datasets tensorboard   # and what these import
    for seed in 2 5 10 21; do tests/parity/make_torch_memory.py --seed $seed --count 60; done   # one file, of one header
    for seed in 21 22 62 63 71; do tests/parity/make_torch_memory.py --experts --seed $seed --count 40; done    # torch_experts.csv
    tests/parity/make_torch_memory.py --compare tests/data/torch_memory.csv

torchtitan's model, parallelize function, loss and optimizer, and PyTorch's FSDP2, run on fake tensors that are counted
(fake_gpu.py). Nothing needs a GPU or a driver. A row is one rank of a random configuration; the same seed gives the same
rows. The peak is that of a step after the first, which has created the optimizer's moments; forward, backward and step
are the peaks of its phases. looked_at: whether p4d's formulas were written with the row in view (before) or compared with
it only (after). Attention is PyTorch's fused one, layers are cut from published models, compiled ones (--compile on) are
compiled by torch.compile itself, up to Triton (inductor_code.py).

--show 'flavor=8B ...' runs one configuration and lists what is live at its peak.
"""
import argparse
import csv
import importlib
import importlib.metadata
import json
import os
import random
import signal
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.update(TORCHDYNAMO_DISABLE="1", WANDB_DISABLED="true")
import fake_gpu
import inductor_code
import torchtitan_experts as sparse

MODELS = [  # family, flavor, the configuration that it starts from
    ("llama3", "debugmodel", "llama3_debugmodel"), ("llama3", "1B", "llama3_8b"), ("llama3", "3B", "llama3_8b"),
    ("llama3", "8B", "llama3_8b"), ("llama3", "70B", "llama3_70b"), ("llama3", "405B", "llama3_70b"),
    ("qwen3", "0.6B", "qwen3_0_6b"), ("qwen3", "1.7B", "qwen3_1_7b"), ("qwen3", "4B", "qwen3_14b"),
    ("qwen3", "8B", "qwen3_14b"), ("qwen3", "14B", "qwen3_14b"), ("qwen3", "32B", "qwen3_32b")]
ASKED = ["family", "flavor", "layers", "seq-len", "micro-batch", "micro-batches", "dp", "shard-degree", "tp", "cp", "pp",
         "vpp", "stage", "recompute", "chunked-loss", "compile"]
OF_MODEL = ["hidden", "ffn", "heads", "kv-heads", "head-dim", "vocab", "tied", "qk-norm"]
RESULTS = ["phase", "allocated", "forward", "backward", "step", "parameters", "gradients", "optimizer", "gathered"]
DEVICE = "cuda"  # where the model is built
MOST = 400 << 30  # larger ones say nothing new


def pick(r, seed):
    family, flavor, _ = r.choice(MODELS)
    tp = r.choice([1, 1, 1, 2, 4, 8])
    shards = r.choice([2, 4, 8, 16, 32, 64, 128, 512])
    copies = r.choice([1, 1, 1, 2, 4])
    c = dict(family=family, flavor=flavor, layers=r.choice([1, 2, 3, 4, 6, 8]), tp=tp, cp=1, pp=1, vpp=1, stage=0)
    c["seq-len"] = r.choice([2048, 4096, 8192, 8192, 16384, 32768])
    c["micro-batch"] = r.choice([1, 1, 2, 4])
    c["micro-batches"] = r.choice([1, 1, 2])
    c["dp"], c["shard-degree"] = shards * copies, shards
    c["recompute"] = r.choice(["none", "selective", "full"])
    c["chunked-loss"] = r.choice(["on", "off"])
    kind = r.choice([1, 1, 5, 10]) if seed >= 20 else seed  # of all kinds
    if seed >= 40:  # all at once, and batches of any size
        kind = r.choice([1, 5, 10, 15])
        c["micro-batch"], c["micro-batches"] = r.randrange(1, 9), r.choice([1, 2, 3, 4])
        c["tp"] = r.choice([1, 2, 4, 8])
    if kind >= 10:  # pipelines
        c["pp"], c["vpp"] = r.choice([2, 2, 4]), r.choice([1, 1, 2])
        c["layers"] = c["pp"] * c["vpp"] * r.choice([1, 2, 3])
        c["micro-batches"] = c["pp"] * r.choice([1, 2])
        c["stage"] = r.randrange(c["pp"])
    if kind in (5, 15) or 5 <= kind < 10:  # context parallelism
        c["cp"] = r.choice([2, 4, 8])
        c["shard-degree"], c["dp"] = shards * c["cp"], shards * copies
    return c


def possible(c):
    heads = {"debugmodel": 16, "0.6B": 8, "1.7B": 8}.get(c["flavor"], 8)
    tied = c["flavor"] in ("1B", "3B", "0.6B", "1.7B", "4B")
    return heads % c["tp"] == 0 and c["seq-len"] * c["micro-batch"] <= 65536 and not (tied and c["pp"] > 1)


def trainer_config(c):
    """torchtitan's configuration of a published model, and the package of its family."""
    package = importlib.import_module(f"torchtitan.models.{c['family']}")
    registry = importlib.import_module(f"torchtitan.models.{c['family']}.config_registry")
    from torchtitan.components.loss import ChunkedLossWrapper, CrossEntropyLoss
    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
    import torchtitan.models.common.attention as attention
    import torchtitan.models.common.config_utils as utils
    for module in (utils, package):  # 0.3 asks for compiled attention
        module.get_attention_config = lambda _: attention.ScaledDotProductAttention.Config()
    name = next(config for family, flavor, config in MODELS + sparse.MODELS if (family, flavor) == (c["family"], c["flavor"]))
    config = getattr(registry, name)()
    config.model_spec = package.model_registry(c["flavor"], attn_backend="sdpa")
    p, t = config.parallelism, config.training
    p.tensor_parallel_degree, p.context_parallel_degree, p.pipeline_parallel_degree = c["tp"], c["cp"], c["pp"]
    p.expert_parallel_degree = c.get("ep", 1)
    p.data_parallel_shard_degree = c["shard-degree"] // c["cp"]
    p.data_parallel_replicate_degree = c["dp"] * c["cp"] // c["shard-degree"]
    p.spmd_backend = "partial_dtensor" if c["cp"] > 1 else "spmd_types"
    t.local_batch_size, t.seq_len, t.disable_cuda_graphs = c["micro-batch"], c["seq-len"], True
    if c["pp"] > 1:
        t.local_batch_size *= c["micro-batches"]
        p.pipeline_parallel_microbatch_size = c["micro-batch"]
        p.pipeline_parallel_schedule = "Interleaved1F1B" if c["vpp"] > 1 else "1F1B"
        p.pipeline_parallel_first_stage_less_layers = p.pipeline_parallel_last_stage_less_layers = 0
        p.pipeline_parallel_layers_per_stage = c["layers"] // (c["pp"] * c["vpp"])
    config.compile.enable = c.get("compile") == "on"
    config.activation_checkpoint = {"none": None, "selective": SelectiveAC.Config(preserve_rng_state=False),
                                    "full": FullAC.Config(preserve_rng_state=False)}[c["recompute"]]
    if not isinstance(config.loss, ChunkedLossWrapper.Config):
        config.loss = ChunkedLossWrapper.Config(loss_fn=config.loss)
    config.loss.loss_fn.global_vocab_size = config.model_spec.model.vocab_size
    if c["chunked-loss"] == "off":
        config.loss = config.loss.loss_fn
    return config


def of_model(model):
    if any(layer.moe is not None for layer in model.layers):
        return sparse.of_model(model)
    block = model.layers[0]
    attention = block.attention
    kv = attention.n_kv_heads or attention.n_heads
    return {"hidden": model.dim, "ffn": block.feed_forward.w1.out_features, "heads": attention.n_heads, "kv-heads": kv,
            "head-dim": attention.head_dim or model.dim // attention.n_heads, "vocab": model.vocab_size,
            "tied": "on" if model.enable_weight_tying else "off", "qk-norm": "on" if attention.qk_norm else "off"}


def alone(c, facts, ledger):
    """Other stages of a pipeline: the tensors that they send and receive are told, and transfers are done."""
    import torch
    import torch.distributed as dist
    from counted_gpu import Finished
    from torch.distributed.pipelining import PipelineStage
    rows, length = c["micro-batch"], c["seq-len"] // c["cp"]
    columns = facts["vocab"] // c["tp"] if c["chunked-loss"] == "off" else facts["hidden"]
    ledger.quiet += 1
    first = torch.empty(rows, length, dtype=torch.long, device="cuda")
    sent = torch.empty(rows, length // c["tp"], facts["hidden"], dtype=torch.bfloat16, device="cuda")
    last = torch.empty(rows, length, columns, dtype=torch.bfloat16, device="cuda")
    ledger.quiet -= 1
    init = PipelineStage.__init__

    def told(self, module, index, stages, device, **kwargs):
        kwargs.update(input_args=sent.requires_grad_() if index else first,
                      output_args=last.requires_grad_() if index == stages - 1 else sent.requires_grad_())
        init(self, module, index, stages, device, **kwargs)

    PipelineStage.__init__ = told
    dist.batch_isend_irecv = lambda operations: [Finished() for _ in operations]


class Job:
    """One rank: its parts of the model, loss and optimizer."""

    def __init__(self, c, ledger):
        import torch
        from torchtitan.distributed import ParallelDims, utils
        self.c, self.ledger, self.torch, self.utils = c, ledger, torch, utils
        config = self.config = trainer_config(c)
        self.dims = ParallelDims.from_config(config.parallelism, c["dp"] * c["tp"] * c["cp"] * c["pp"])
        utils.set_spmd_backend(config.parallelism.spmd_backend)
        self.dims.build_mesh()
        model = config.model_spec.model
        model.update_from_config(config=config)
        few = min(c["layers"], len(model.layers))  # of experts one at least, and those before it
        dense = sum(layer.feed_forward is not None for layer in model.layers)
        model.layers = model.layers[max(0, dense - few + 1):][:few] if dense < len(model.layers) else model.layers[:few]
        c["layers"] = len(model.layers)
        c["tokens"] = c["micro-batch"] * c["seq-len"] // c["cp"] // c["tp"]
        sparse.counts(c)
        self.facts = of_model(model)

    def build(self):
        from torchtitan.components.loss import ChunkedLossWrapper
        torch, config = self.torch, self.config
        with torch.device(DEVICE):
            built = config.model_spec.model.build()
        self.loss = config.loss.build(compile_config=config.compile)
        common = dict(parallel_dims=self.dims, training=config.training, parallelism=config.parallelism,
                      compile_config=config.compile, ac_config=config.activation_checkpoint, dump_folder="")
        self.split(built, common)
        for part in self.parts:
            if part.enable_weight_tying:  # as init_states() does: parallelize made two parameters of one
                part.tok_embeddings.weight = part.lm_head.weight
        if isinstance(self.loss, ChunkedLossWrapper):
            for part in self.parts:
                if part.lm_head is not None:
                    self.loss.set_lm_head(part.lm_head)
                    part._skip_lm_head = True
        self.optimizer = config.optimizer.build(model_parts=self.parts)
        if config.model_spec.post_optimizer_build_fn:
            config.model_spec.post_optimizer_build_fn(self.optimizer, self.parts, self.dims)

    def split(self, built, common):
        spec = self.config.model_spec
        if self.c["pp"] == 1:
            self.parts = [spec.parallelize_fn(built, **common)]
            return
        alone(self.c, self.facts, self.ledger)
        self.schedule, self.parts, self.first, self.last = spec.pipelining_fn(
            built, **common, device=self.torch.device("cuda"), model_config=spec.model,
            parallelize_fn=spec.parallelize_fn, loss_fn=self.loss)

    def classify(self):
        for part in self.parts:
            for tensor in [*part.parameters(), *part.buffers()]:
                self.ledger.classify_local(tensor, "parameters")

    def pipeline(self, context):
        torch, c = self.torch, self.c
        self.ledger.phase = "forward"
        tokens = [torch.zeros(c["micro-batch"], c["seq-len"] // c["cp"], dtype=torch.long, device="cuda")
                  for _ in range(c["micro-batches"])]
        losses = [] if self.last else None
        with context():
            self.schedule.step(
                arg_mbs=[(t,) for t in tokens] if self.first else None, kwarg_mbs=[{} for _ in tokens],
                target_mbs=[torch.zeros_like(t) for t in tokens] if self.last else None, losses=losses,
                loss_kwargs={"global_valid_tokens": torch.ones((), device="cuda")}, return_outputs=False)

    def passes(self, context):
        torch, c = self.torch, self.c
        if c["pp"] > 1:
            return self.pipeline(context)
        for _ in range(c["micro-batches"]):
            self.ledger.phase = "forward"
            tokens = torch.zeros(c["micro-batch"], c["seq-len"] // c["cp"], dtype=torch.long, device="cuda")
            labels, count = torch.zeros_like(tokens), torch.ones((), device="cuda")
            with context():
                predicted = self.parts[0](tokens)
                loss, _ = self.loss(predicted, labels, count)
                del predicted
                self.ledger.phase = "backward"
                loss.backward()
            del loss

    def step(self):
        ledger, torch, c = self.ledger, self.torch, self.c
        context = self.utils.get_spmd_context(parallel_dims=self.dims, spmd_typechecking=False)
        self.optimizer.zero_grad(set_to_none=True)
        self.passes(context)
        ledger.phase = "step"
        self.utils.clip_grad_norm_([p for part in self.parts for p in part.parameters()],
                                   self.config.training.max_norm, foreach=True, pp_mesh=None, ep_enabled=c.get("ep", 1) > 1)
        self.optimizer.step()
        for one in self.optimizer.optimizers:
            for states in one.state.values():
                for state in states.values():
                    if isinstance(state, torch.Tensor):
                        ledger.classify_local(state, "optimizer")


class Peaks(dict):
    """The most of each phase, beside the ledger's own."""

    def watch(self, ledger):
        change = ledger._change

        def changed(size, kind):
            change(size, kind)
            if ledger.total > self.get(ledger.phase, 0):
                self[ledger.phase] = ledger.total

        ledger._change = changed


def measure(c, show=0):
    import torch
    ledger, fake = LEDGER
    if c.get("compile") == "on":
        inductor_code.install()
    ledger.sites = bool(show)
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    per_stage = c["dp"] * c["tp"] * c["cp"]
    dist.init_process_group("fake", store=FakeStore(), rank=c["stage"] * per_stage, world_size=per_stage * c["pp"])
    peaks = Peaks()
    job = Job(c, ledger)
    with fake, ledger, torch.autograd.set_multithreading_enabled(False):
        job.build()
        job.classify()
        job.step()
        ledger.forget_peak()
        peaks.watch(ledger)
        job.step()
    classes = ledger.peak_classes
    if show:
        sizes = {}
        for size, kind, site in ledger.peak_live:
            entry = sizes.setdefault((kind, site), [0, 0])
            entry[0] += size
            entry[1] += 1
        for (kind, site), (size, count) in sorted(sizes.items(), key=lambda item: -item[1][0])[:show]:
            print(f"{size / 2**20:10.2f} {count:4d} {kind:12s} {site}")
        print({k: round(v / 2**20, 2) for k, v in classes.items() if v})
    return dict(job.facts, layers=c["layers"], phase=ledger.peak_phase, allocated=ledger.peak,
                **{k: peaks.get(k, 0) for k in ("forward", "backward", "step")},
                **{k: classes.get(k, 0) for k in ("parameters", "gradients", "optimizer", "gathered")})


def forked(c, seconds=900):
    """Runs measure in a child, which starts with everything imported. None where it fails."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(seconds)
        try:
            text = json.dumps(measure(c))
        except BaseException as error:  # noqa: BLE001
            print(f"{type(error).__name__}: {error} {c}", file=sys.stderr, flush=True)
            text = ""
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def prepare():
    global LEDGER
    LEDGER = fake_gpu.install()
    inductor_code.load()
    for family in ("llama3", "qwen3", "deepseek_v3"):
        importlib.import_module(f"torchtitan.models.{family}.config_registry")


def number_of(word):
    return int(word) if word.isdigit() else float(word) if word.replace(".", "").isdigit() else word


def configuration(text):
    c = dict(family="llama3", flavor="8B", layers=2, tp=1, cp=1, pp=1, vpp=1, stage=0, dp=8, recompute="none")
    c.update({"seq-len": 8192, "micro-batch": 1, "micro-batches": 1, "chunked-loss": "on", "compile": "off"})
    c.update({k: number_of(v) for k, v in (word.split("=") for word in text.split())})
    c.setdefault("imbalance", 1)
    c.setdefault("shard-degree", c["dp"] * c["cp"])
    return c


def compare(path, stride):
    """How many rows of a file this code does not reproduce."""
    wrong = 0
    with open(path) as file:
        for line, row in enumerate(csv.DictReader(file)):
            if line % stride:
                continue
            measured = forked({k: number_of(row[k]) for k in ASKED + sparse.ASKED if k in row})
            if not measured or any(str(measured[k]) != row[k] for k in RESULTS):
                print(f"line {line + 2}: {measured}")
                wrong += 1
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--compile", choices=("off", "on"), default="off", help="layers and loss by torch.compile")
    parser.add_argument("--experts", action="store_true", help="draw from models with experts")
    parser.add_argument("--show", help="one configuration, as in the header line")
    parser.add_argument("--lines", type=int, default=60)
    parser.add_argument("--compare", help="measure the rows of a file again")
    parser.add_argument("--stride", type=int, default=1, help="every so many of them")
    a = parser.parse_args()
    prepare()
    if a.show is not None:
        print(measure(configuration(a.show), show=a.lines))
        return
    if a.compare:
        sys.exit(compare(a.compare, a.stride))
    import torch
    versions = dict(torch=torch.__version__.split("+")[0], torchtitan=importlib.metadata.version("torchtitan"))
    plain = [k for k in ASKED if k != "compile" or a.compile == "on"]
    asked, facts = (plain + sparse.ASKED, OF_MODEL + sparse.OF_MODEL) if a.experts else (plain, OF_MODEL)
    out = csv.DictWriter(sys.stdout, ["looked_at", "seed", *versions, *asked, *facts, *RESULTS], lineterminator="\n",
                         extrasaction="ignore")
    out.writeheader()
    r = random.Random(a.seed)
    rows = 0
    while rows < a.count:
        c = dict(sparse.pick(r, pick(r, 1), a.seed) if a.experts else pick(r, a.seed), compile=a.compile)
        if not (sparse if a.experts else sys.modules[__name__]).possible(c):
            continue
        rows += 1
        row = forked(c)
        if row and row["allocated"] < MOST:
            out.writerow(dict(looked_at="before" if a.seed in (1, 51, 61) else "after", seed=a.seed, **versions, **{**c, **row}))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
