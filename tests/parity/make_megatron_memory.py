#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of one rank of Megatron-Core, from its own code, for tests/estimator/framework/test_megatron_memory.c.

    pip install torch==2.15.* einops pybind11 && pip install --no-deps megatron-core==0.16.1
    pip download --no-deps transformer-engine==2.11.0 && unzip -d TE transformer_engine-*.whl
    export PYTHONPATH=TE
    for seed in 1 2 3 4 5 6 7 8 9 10; do
        tests/parity/make_megatron_memory.py --seed $seed --count 50   # one file, of one header; a row takes a second
    done
    tests/parity/make_megatron_memory.py --seed 11 --count 8
    tests/parity/make_megatron_memory.py --experts --seed 1 --count 45     # tests/data/megatron_experts.csv
    tests/parity/make_megatron_memory.py --experts --seed 2 --count 74
    tests/parity/make_megatron_memory.py --experts --seed 3 --count 100
    tests/parity/make_megatron_memory.py --experts --seed 4 --count 90
    tests/parity/make_megatron_memory.py --experts --modules --seed 12 --count 160
    tests/parity/make_megatron_memory.py --experts --modules --seed 13 --count 45
    tests/parity/make_megatron_memory.py --experts --modules --seed 97 --count 6    # the sixth alone
    tests/parity/make_megatron_memory.py --experts --dispatch --seed 23 --count 60
    tests/parity/make_megatron_memory.py --experts --dispatch --seed 24 --count 60
    tests/parity/make_megatron_memory.py --fp8 --seed 21 --count 40        # tests/data/megatron_fp8.csv
    tests/parity/make_megatron_memory.py --fp8 --seed 22 --count 90
    tests/parity/make_megatron_memory.py --experts --fp8 --seed 31 --count 30  # tests/data/megatron_fp8_experts.csv
    tests/parity/make_megatron_memory.py --options --seed 51 --count 25    # tests/data/megatron_options.csv
    tests/parity/make_megatron_memory.py --options --seed 52 --count 60
    tests/parity/make_megatron_memory.py --unfused --seed 61 --count 14    # tests/data/megatron_unfused.csv
    tests/parity/make_megatron_memory.py --unfused --seed 62 --count 16
    pip download --no-deps --no-binary :all: mamba-ssm==2.3.2.post1    # its Python, beside TE's on PYTHONPATH
    tests/parity/make_megatron_memory.py --hybrids --seed 41 --count 30    # tests/data/megatron_hybrids.csv
    tests/parity/make_megatron_memory.py --hybrids --seed 42 --count 60
    tests/parity/make_megatron_memory.py --experts --hybrids --seed 43 --count 24  # tests/data/megatron_hybrid_experts.csv
    tests/parity/make_megatron_memory.py --experts --hybrids --delta-nets --seed 44 --count 30  # tests/data/megatron_delta_nets.csv; fla of
                                                                                                # flash-linear-attention, too
    tests/parity/make_megatron_memory.py --compare tests/data/megatron_memory.csv

Megatron's model, DDP buffers, distributed optimizer and pipeline schedule, and TransformerEngine's Python, run
through training steps on a GPU that only counts (counted_gpu.py) with kernels that only allocate (te_kernels.py).
Nothing needs a GPU or a driver. A row is one stage of a random configuration; the same seed gives the same rows.
The peak is that of a step after the first, which has created the optimizer's moments. looked_at: whether p4d's formulas were
written with the row in view (before: seed 1, 50 configurations), or compared with it only (after: the other 450). Formulas were
mended with 8 configurations of seeds 2, 3, 5 and 6 in view (MENDED_WITH), so 58 were looked at in all. Those 8 are not stored:
seed 11 stands in for them, drawn and measured after the last change of a formula.

--show 'hidden=4096 ...' runs one configuration and lists what is live at its peak.
"""
import argparse
import csv
import json
import os
import random
import signal
import sys
import warnings

warnings.filterwarnings("ignore")
import counted_gpu
import megatron_experts
import megatron_hybrids
import megatron_options
import te_quantizers

SHAPES = [  # hidden, ffn, heads, kv heads, head size: small ones to the width of 405B
    (1024, 4096, 16, 16, 64), (1536, 6144, 12, 4, 128), (2048, 8192, 32, 8, 64), (2048, 5632, 16, 16, 128),
    (2560, 10240, 20, 20, 128), (3072, 8192, 24, 8, 128), (3584, 18944, 28, 4, 128), (4096, 14336, 32, 8, 128),
    (4096, 11008, 32, 32, 128), (4096, 16384, 32, 32, 128), (5120, 13824, 40, 40, 128), (5120, 27648, 40, 8, 128),
    (6144, 24576, 48, 8, 128), (7168, 20480, 56, 8, 128), (8192, 28672, 64, 8, 128), (8192, 22016, 64, 64, 128),
    (12288, 49152, 96, 96, 128), (12288, 33792, 96, 8, 128), (16384, 53248, 128, 8, 128),
]
VOCABULARIES = [32000, 50257, 65024, 128256, 131072, 151936, 256000]
MENDED_WITH = {2: (14, 27), 3: (7, 32), 5: (30,), 6: (1, 36, 42)}  # seed: numbers of configurations
HYBRIDS_SEEN = {41: range(30), 42: (2, 3, 33, 34, 39)}
EXPERTS_SEEN = {2: (27,), 12: (9, 39, 86, 87, 99)}  # with experts: of the seeds after the first, those that were looked at before
RESULTS = ["stage", "phase", "allocated", "parameters", "gradients", "optimizer"]
OPTIONS = ["layers", "hidden", "ffn", "heads", "kv-heads", "head-dim", "vocab", "tied", "activation", "norm",
           "seq-len", "micro-batch", "micro-batches", "dp", "tp", "sequence-parallel", "cp", "cp-comm", "pp", "vpp",
           "recompute", "recompute-method", "recompute-layers", "grad-dtype", "optimizer-sharding", "cross-entropy",
           "swiglu", "overlap-dp"]


def pick(r):
    """One random configuration, by p4d's names of options."""
    c = dict(zip(("hidden", "ffn", "heads", "kv-heads", "head-dim"), r.choice(SHAPES)))
    c["tp"] = r.choice([t for t in (1, 1, 2, 2, 4, 4, 8, 8) if c["kv-heads"] % t == 0])
    c["cp"] = r.choice((1, 1, 1, 2, 4, 8))
    c["pp"] = r.choice((1, 1, 1, 2, 2, 3, 4, 4, 8))
    c["dp"] = r.choice((1, 1, 2, 2, 4))
    heads, groups = c["heads"] // c["tp"], c["kv-heads"] // c["tp"]
    exchanges = ["p2p", "all-gather"] + ["a2a"] * (heads % c["cp"] == 0 and groups % c["cp"] == 0)
    c["cp-comm"] = r.choice(exchanges) if c["cp"] > 1 else "p2p"
    c["sequence-parallel"] = "on" if c["tp"] > 1 and r.random() < 0.8 else "off"
    c["vpp"] = r.choice((1, 1, 2, 3)) if c["pp"] > 1 else 1
    c["layers"] = c["pp"] * c["vpp"] * r.choice((1, 2, 2, 3) if c["pp"] * c["vpp"] > 4 else (1, 2, 3, 4, 6))
    unit = c["pp"] if c["vpp"] > 1 else 1
    c["micro-batches"] = unit * r.randint(1, max(2, 10 // unit))
    if c["vpp"] > 1:
        c["micro-batches"] = c["pp"] * r.choice((1, 2, 2, 3) if c["pp"] < 8 else (2,))
    c["micro-batch"] = r.choice((1, 1, 1, 2, 4))
    c["seq-len"] = r.choice([s for s in (2048, 4096, 8192, 16384, 32768, 65536, 131072)
                             if c["micro-batch"] * s // c["cp"] <= 65536 and s // c["cp"] >= 512])
    c["vocab"] = r.choice(VOCABULARIES)
    c["tied"] = "on" if r.random() < 0.15 else "off"
    c["activation"] = r.choice(("swiglu", "swiglu", "swiglu", "gelu", "relu2"))
    c["norm"] = "rmsnorm" if c["activation"] == "swiglu" else "layernorm"
    c["recompute"] = r.choice(("none", "none", "none", "selective", "mlp", "full", "full"))
    c["recompute-method"], c["recompute-layers"] = "uniform", 1
    chunk = c["layers"] // (c["pp"] * c["vpp"])
    if c["recompute"] == "full" and r.random() < 0.5:
        c["recompute-method"] = r.choice(("uniform", "block"))
        c["recompute-layers"] = r.randint(1, chunk)
        while c["recompute-method"] == "uniform" and chunk % c["recompute-layers"]:
            c["recompute-layers"] -= 1
    c["grad-dtype"] = r.choice(("fp32", "fp32", "bf16"))
    c["optimizer-sharding"] = "on" if r.random() < 0.8 else "off"
    c["cross-entropy"] = r.choice(("fused", "fused", "unfused"))
    c["swiglu"] = "unfused" if c["activation"] == "swiglu" and r.random() < 0.2 else "fused"
    c["overlap-dp"] = r.choice(("off", "off", "on"))
    return c


def transformer_config(c):
    import torch
    import torch.nn.functional as F
    from megatron.core.activations import squared_relu
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
    on = lambda option: c[option] == "on"
    gated = c["activation"] == "swiglu"
    recompute = {}
    if c["recompute"] == "full":
        recompute = dict(recompute_granularity="full", recompute_method=c["recompute-method"],
                         recompute_num_layers=c["recompute-layers"])
    elif c["recompute"] != "none":
        modules = {"selective": "core_attn", "mlp": "mlp", "layernorm": "layernorm", "moe": "moe"}
        named = c.get("recompute-modules", "none")
        recompute = dict(recompute_granularity="selective", recompute_modules=(
            [modules[c["recompute"]]] if named == "none" else named.split("+")))
    experts = megatron_experts.arguments(c) if "experts" in c else {}
    experts |= megatron_hybrids.arguments(c) if "layer-pattern" in c else {}
    precision = te_quantizers.arguments(c) if "fp8-recipe" in c else {}
    unfused = megatron_options.arguments(c) if "attention" in c else {}
    kind = MLATransformerConfig if "multi_latent_attention" in experts else TransformerConfig
    return kind(**{**dict(
        num_layers=c["layers"], hidden_size=c["hidden"], ffn_hidden_size=c["ffn"],
        num_attention_heads=c["heads"], num_query_groups=c["kv-heads"], kv_channels=c["head-dim"],
        tensor_model_parallel_size=c["tp"], pipeline_model_parallel_size=c["pp"],
        virtual_pipeline_model_parallel_size=c["vpp"] if c["vpp"] > 1 else None,
        context_parallel_size=c["cp"], sequence_parallel=on("sequence-parallel"),
        cp_comm_type={"p2p": "p2p", "a2a": "a2a", "all-gather": "all_gather"}[c["cp-comm"]],
        bf16=True, params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16,
        normalization="RMSNorm" if c["norm"] == "rmsnorm" else "LayerNorm", add_bias_linear=False,
        hidden_dropout=0.0, attention_dropout=0.0, gated_linear_unit=gated,
        activation_func={"swiglu": F.silu, "gelu": F.gelu, "relu2": squared_relu}[c["activation"]],
        bias_activation_fusion=gated and c["swiglu"] == "fused", bias_dropout_fusion=False,
        apply_rope_fusion=True, masked_softmax_fusion=True, gradient_accumulation_fusion=True,
        cross_entropy_loss_fusion=c["cross-entropy"] != "unfused",
        cross_entropy_fusion_impl="te" if c["cross-entropy"] == "fused" else "native",
        overlap_p2p_comm=c["vpp"] > 1, batch_p2p_comm=c["vpp"] == 1, deallocate_pipeline_outputs=True,
        account_for_embedding_in_pipeline_split=c.get("account-for-embedding") == "on",
        account_for_loss_in_pipeline_split=c.get("account-for-loss") == "on",
        perform_initialization=False, qk_layernorm=c.get("qk-norm") == "on", **recompute), **experts, **precision, **unfused})


def build(c, ledger):
    """Model chunks in their DDP wrappers, and the optimizer."""
    import torch
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import (
        get_gpt_decoder_block_spec, get_gpt_layer_with_transformer_engine_spec, get_gpt_mtp_block_spec)
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer.module import Float16Module
    config = transformer_config(c)
    unit = 128 * c["tp"]
    chunks = []
    for i in range(c["vpp"]):
        virtual = dict(vp_stage=i) if c["vpp"] > 1 else {}
        first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, **virtual)
        last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, **virtual)
        padded = -(-c["vocab"] // unit) * unit
        if "layer-pattern" in c:
            model = megatron_hybrids.model(c, config, padded, first, last)
        else:
            layers = (get_gpt_decoder_block_spec(config, True, normalization=config.normalization, **virtual)
                      if "experts" in c else get_gpt_layer_with_transformer_engine_spec(qk_layernorm=c.get("qk-norm") == "on"))
            further = get_gpt_mtp_block_spec(config, layers, True, **virtual) if config.mtp_num_layers else None
            model = GPTModel(
                config, layers, padded, c["seq-len"], pre_process=first, post_process=last, parallel_output=True,
                share_embeddings_and_output_weights=c["tied"] == "on", position_embedding_type="rope",
                mtp_block_spec=further, **virtual)
        for parameter in model.parameters():
            tensor_parallel.set_defaults_if_not_set_tensor_model_parallel_attributes(parameter)
        chunks.append(Float16Module(config, model.cuda()))
    overlap, sharded = c["overlap-dp"] == "on", c["optimizer-sharding"] == "on"
    ddp = DistributedDataParallelConfig(
        grad_reduce_in_fp32=c["grad-dtype"] == "fp32", use_distributed_optimizer=sharded,
        fp8_param_gather=c.get("fp8-param-gather") == "on",
        overlap_grad_reduce=overlap, overlap_param_gather=overlap and sharded, check_for_nan_in_grad=False,
        reuse_grad_buf_for_mxfp8_param_ag=te_quantizers.gathers_beside_gradients(c),
        bucket_size=max(40000000, 1000000 * c["dp"] * c["cp"]) if overlap else None)
    chunks = [DistributedDataParallel(config, ddp, m, disable_bucketing=i > 0) for i, m in enumerate(chunks)]
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-4, bf16=True, params_dtype=torch.bfloat16,
                        use_distributed_optimizer=sharded, overlap_param_gather=overlap and sharded,
                        clip_grad=1.0, **te_quantizers.optimizer_arguments(c)), chunks, use_gloo_process_groups=False)
    config.no_sync_func = [m.no_sync for m in chunks] if c["vpp"] > 1 else chunks[0].no_sync
    config.grad_scale_func = optimizer.scale_loss
    if overlap:
        config.grad_sync_func = [m.start_grad_sync for m in chunks] if c["vpp"] > 1 else chunks[0].start_grad_sync
    for m in chunks:
        for buffer in m.buffers + m.expert_parallel_buffers:
            ledger.classify(buffer.grad_data, "gradients")
    return config, chunks, optimizer


def classify_states(ledger, optimizer):
    import torch
    for one in getattr(optimizer, "chained_optimizers", [optimizer]):
        for group in one.optimizer.param_groups:
            for master in group["params"]:
                ledger.classify(master, "optimizer")
        for states in one.optimizer.state.values():
            for state in states.values():
                if isinstance(state, torch.Tensor):
                    ledger.classify(state, "optimizer")


def follow_phases(ledger, chunks):
    """Forward, loss, head (its backward pass), backward, and what is between passes."""
    from megatron.core.pipeline_parallel import schedules
    backward_step = schedules.backward_step
    ends = [m.module.module for m in chunks if m.module.module.post_process]

    def backward(*args, **kwargs):
        ledger.phase = "backward"
        out = args[1]
        if getattr(out[0] if isinstance(out, list) else out, "p4d_loss", False):
            ledger.phase = "head"
        result = backward_step(*args, **kwargs)
        ledger.phase = "between"
        return result

    def head_starts(_, inputs):
        ledger.phase = "loss"
        if inputs[0].requires_grad:
            inputs[0].register_hook(lambda _: setattr(ledger, "phase", "backward"))

    schedules.backward_step = backward
    for model in ends:
        model.output_layer.register_forward_pre_hook(head_starts)


def attention_mask_of(c, model):
    """As get_batch() of pretrain_gpt.py brings it: to the chunks with the embedding and the loss."""
    import torch
    from megatron.core.utils import get_attr_wrapped_model, get_batch_on_this_cp_rank
    ends = [get_attr_wrapped_model(model, end) for end in ("pre_process", "post_process")]
    if c.get("attention-mask") != "on" or not any(ends):
        return None
    whole = torch.empty(c["micro-batch"], 1, c["seq-len"], c["seq-len"], dtype=torch.bool, device="cuda")
    batch = {"attention_mask": whole}
    del whole
    return get_batch_on_this_cp_rank(batch)["attention_mask"]


def train(c, ledger, config, chunks, optimizer):
    """Two steps: the first creates what stays, the second is measured. The first has one micro-batch for each stage, or as many
    as first-micro-batches says."""
    import torch
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.pipeline_parallel import get_forward_backward_func
    config.finalize_model_grads_func = finalize_model_grads
    rows, length = c["micro-batch"], c["seq-len"] // c["cp"]

    def sum_of_losses(mask):
        def function(output):
            loss = torch.sum(output.view(-1).float() * mask.view(-1))
            tokens = mask.sum().to(torch.int)
            loss.p4d_loss = True
            return loss, tokens, {"lm loss": torch.cat([loss.detach().view(1), tokens.view(1)])}
        return function

    def forward_step(_, model):
        ledger.phase = "forward"
        tokens = torch.zeros(rows, length, dtype=torch.long, device="cuda")
        labels, positions = torch.zeros_like(tokens), torch.zeros_like(tokens)
        mask = torch.ones(rows, length, device="cuda")
        attention_mask = attention_mask_of(c, model)
        return model(tokens, positions, attention_mask, labels=labels), sum_of_losses(mask)

    run = get_forward_backward_func()
    virtual = c["vpp"] > 1
    for micro_batches in (c.get("first-micro-batches", c["pp"] if virtual else 1), c["micro-batches"]):
        ledger.forget_peak()
        ledger.phase = "forward"
        for m in chunks:
            m.zero_grad_buffer()
        optimizer.zero_grad()
        losses = run(forward_step_func=forward_step, data_iterator=[iter(())] * c["vpp"] if virtual else iter(()),
                     model=chunks if virtual else chunks[0], num_microbatches=micro_batches,
                     seq_length=c["seq-len"], micro_batch_size=rows, forward_only=False)
        ledger.phase = "optimizer"
        optimizer.step()
        del losses
        classify_states(ledger, optimizer)


def measure(c, stage, show=False):
    """One rank, in a process of its own."""
    from megatron.core import parallel_state, tensor_parallel
    ledger = LEDGER
    ledger.sites = show
    te_quantizers.on_gpu(c.get("gpu"))
    per_stage = c["tp"] * c["cp"] * c["dp"]
    # the last rank of a ring of keys and values holds most: it attends to all of them
    counted_gpu.world(stage * per_stage + c["tp"] * (c["cp"] - 1), per_stage * c["pp"])
    parallel_state.initialize_model_parallel(
        c["tp"], c["pp"], c["vpp"] if c["vpp"] > 1 else None, context_parallel_size=c["cp"],
        expert_model_parallel_size=c.get("ep", 1), expert_tensor_parallel_size=c.get("etp"), create_gloo_process_groups=False)
    tensor_parallel.model_parallel_cuda_manual_seed(1)
    import torch
    if "experts" in c:
        megatron_experts.balance(ledger, c)
    with ledger, torch.autograd.set_multithreading_enabled(False):
        config, chunks, optimizer = build(c, ledger)
        ledger.by_class["parameters"] = ledger.by_class.pop("build", 0)
        for entry in ledger.live.values():
            entry[2] = "parameters" if entry[2] == "build" else entry[2]
        classify_states(ledger, optimizer)
        follow_phases(ledger, chunks)
        train(c, ledger, config, chunks, optimizer)
    classes = ledger.peak_classes
    result = dict(stage=stage, phase=ledger.peak_phase, allocated=ledger.peak,
                  **{k: classes.get(k, 0) for k in ("parameters", "gradients", "optimizer")})
    if show:
        sizes = {}
        for size, kind, site in ledger.peak_live:
            entry = sizes.setdefault((kind, site), [0, 0])
            entry[0] += size
            entry[1] += 1
        for (kind, site), (size, count) in sorted(sizes.items(), key=lambda item: -item[1][0])[:show]:
            print(f"{size:15d} {count:4d} {kind:12s} {site}")
        print(classes, ledger.events)
    return result


def forked(c, stage, seconds=300):
    """Runs measure in a child, which starts with everything imported. None where it fails."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(seconds)
        try:
            text = json.dumps(measure(c, stage))
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


def prepare(hybrids):
    """Imports all of it on the counted GPU."""
    global LEDGER
    LEDGER = counted_gpu.install()
    import types
    import te_kernels
    fused = types.ModuleType("fused_weight_gradient_mlp_cuda")  # Apex: adds a weight's gradient in place
    fused.wgrad_gemm_accum_fp32 = fused.wgrad_gemm_accum_fp16 = lambda *_: None
    sys.modules[fused.__name__] = fused
    te_kernels.install(LEDGER)
    if hybrids:
        import state_kernels
        state_kernels.install()
    import contextlib
    import megatron.core.tensor_parallel.random as randomness
    import megatron.core.models.gpt.gpt_layer_specs  # noqa: F401
    import megatron.core.optimizer  # noqa: F401
    import megatron.core.pipeline_parallel  # noqa: F401
    import megatron.core.distributed  # noqa: F401
    megatron_options.softmax_and_dropout_of_cuda(LEDGER)
    randomness._get_cuda_rng_state = randomness._set_cuda_rng_state = lambda *_, **__: None
    randomness.CudaRNGStatesTracker.add = lambda *_: None
    randomness.CudaRNGStatesTracker.fork = lambda *_: contextlib.nullcontext()


def value_of(text):
    return int(text) if text.isdigit() else float(text) if text.replace(".", "").isdigit() else text


def configuration(text, experts, hybrids):
    c = pick(random.Random(0))
    if experts:
        c = megatron_experts.pick(random.Random(0), c)
        c.update(ep=1, etp=1, imbalance=1)
    if hybrids:
        c = megatron_hybrids.pick(random.Random(0), c)
    c.update({"cp": 1, "pp": 1, "vpp": 1, "tp": 1, "dp": 1, "cp-comm": "p2p", "sequence-parallel": "off"})
    c.update({k: value_of(v) for k, v in (word.split("=") for word in text.split())})
    return c


# Columns that not every row of a file was drawn with: 0 there means that the configuration does not have them.
LATER = ["recompute-modules", "shared-overlap"] + megatron_experts.DISPATCH


def asked_of(row):
    """The configuration of a stored row."""
    names = (OPTIONS + megatron_experts.OPTIONS + megatron_hybrids.OPTIONS + LATER + megatron_options.OPTIONS
             + megatron_options.UNFUSED + te_quantizers.OPTIONS)
    return {k: value_of(str(row[k])) for k in names if k in row and not (k in LATER and str(row[k]) == "0")}


def compare(path, stride):
    """How many rows of a file this code does not reproduce."""
    wrong = 0
    with open(path) as file:
        for number, row in enumerate(csv.DictReader(file)):
            if number % stride:
                continue
            measured = forked(asked_of(row), int(row["stage"]))
            if not measured or any(str(measured[k]) != row[k] for k in RESULTS):
                print(f"line {number + 2}: {measured}")
                wrong += 1
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--experts", action="store_true", help="models with experts, and latent attention")
    parser.add_argument("--modules", action="store_true", help="with --experts: modules that are recomputed")
    parser.add_argument("--dispatch", action="store_true", help="with --experts: dispatchers, capacities, layers for further tokens")
    parser.add_argument("--hybrids", action="store_true", help="Megatron-Core's MambaModel; needs mamba-ssm's Python")
    parser.add_argument("--delta-nets", action="store_true", help="with --experts --hybrids: Qwen3-Next")
    parser.add_argument("--fp8", action="store_true", help="products in FP8, and precision-aware optimizers")
    parser.add_argument("--options", action="store_true", help="QK norm, attention masks, copied key/value heads, counted ends")
    parser.add_argument("--unfused", action="store_true", help="unfused attention, with and without dropout")
    parser.add_argument("--few-stages", action="store_true", help="the first, the last and one between, else all")
    parser.add_argument("--show", help="options of one configuration, as in the header line")
    parser.add_argument("--compare", help="measure the rows of a file again")
    parser.add_argument("--stride", type=int, default=1, help="every so many of them")
    parser.add_argument("--stage", type=int, default=0)
    parser.add_argument("--lines", type=int, default=60)
    a = parser.parse_args()
    prepare(a.hybrids)
    if a.show is not None:
        print(measure(configuration(a.show, a.experts, a.hybrids), a.stage, show=a.lines))
        return
    if a.compare:
        sys.exit(compare(a.compare, a.stride))
    options = OPTIONS + megatron_experts.OPTIONS if a.experts else OPTIONS
    if a.hybrids:
        options = options + megatron_hybrids.OPTIONS
    if a.modules:
        options = options + ["recompute-modules", "shared-overlap"]
    if a.dispatch:
        options = options + megatron_experts.DISPATCH
    if a.fp8:
        options = options + te_quantizers.OPTIONS
    if a.options:
        options = options + megatron_options.OPTIONS
    if a.unfused:
        options = options + megatron_options.UNFUSED
    out = csv.DictWriter(sys.stdout, ["looked_at", "seed"] + options + RESULTS, lineterminator="\n")
    out.writeheader()
    r = random.Random(a.seed)
    for number in range(a.count):
        c = pick(r)
        while (a.fp8 or a.unfused) and (c["pp"] > 4 or c["layers"] > 12):  # more of either shows nothing more
            c = pick(r)
        seen = number in (HYBRIDS_SEEN if a.hybrids else EXPERTS_SEEN if a.experts else {}).get(a.seed, ())
        if a.experts:
            c = megatron_experts.pick(r, c)
        if a.delta_nets:
            c["delta-nets"] = 1
        if a.hybrids:
            c = megatron_hybrids.pick(r, c)
        if a.modules:
            c = megatron_experts.pick_modules(r, c)
        if a.dispatch:
            c = megatron_experts.pick_dispatch(r, c)
        if a.fp8:
            c = te_quantizers.pick(r, c)
        if a.options:
            c = megatron_options.pick(r, c)
        if a.unfused:
            c = megatron_options.pick_unfused(r, c)
        middle = r.randrange(1, c["pp"] - 1) if c["pp"] > 2 else 0
        if number in MENDED_WITH.get(a.seed, ()) and not a.experts and not a.fp8 and not a.options:
            continue
        for stage in sorted({0, middle, c["pp"] - 1}) if a.few_stages else range(c["pp"]):
            row = forked(c, stage)
            if row:
                out.writerow(dict(looked_at="before" if a.seed in (1, te_quantizers.SEEN, megatron_options.SEEN, megatron_options.UNFUSED_SEEN) or seen else "after", seed=a.seed, **c, **row))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
