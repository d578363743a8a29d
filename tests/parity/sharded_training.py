# SPDX-License-Identifier: Apache-2.0
"""Two steps of training on one rank of many, for make_transformers_memory.py: FSDP2 as accelerate prepares it, and
DeepSpeed's ZeRO engine."""
import os
import types

import counted_gpu
import make_transformers_memory as common


def ranks(c, sizes):
    """Ranks of which one holds most. With ZeRO 1 and 2 they keep whole gradients of what their parts touch, from when
    the first is there; sizes: of all parameters."""
    if c["framework"] != "deepspeed" or c["zero-stage"] not in (1, 2) or c["finetune"] != "full":
        return [0]
    world = c["shard-degree"]
    part = -(-sum(sizes) // (2 * world)) * 2
    touched, begins, at = [0] * world, [None] * world, 0
    for size in sizes:
        for rank in range(at // part, (at + size - 1) // part + 1):
            touched[rank] += size
            begins[rank] = at if begins[rank] is None else begins[rank]
        at += size
    some = [r for r in range(world) if touched[r]]
    latest = max(some, key=lambda r: (touched[r], r))
    # stage 1 has most before other gradients have left
    first = max(some, key=lambda r: (touched[r] - begins[r], -r)) if c["zero-stage"] == 1 and c.get("overlap-dp") != "on" else some[-1]
    return sorted({0, first, latest})


def _world(c):
    counted_gpu.world(c.get("rank", 0), c["shard-degree"])


def _quiet_shapes(ledger):
    """DTensor finds the shapes of results with whole tensors that nobody keeps."""
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    def quiet(function):
        def call(*args, **kwargs):
            ledger.fused += 1
            try:
                return function(*args, **kwargs)
            finally:
                ledger.fused -= 1
        return call

    for name in ("_propagate_tensor_meta_non_cached", "propagate_op_sharding_non_cached"):
        setattr(ShardingPropagator, name, quiet(getattr(ShardingPropagator, name)))


def train_fsdp(c, ledger):
    import accelerate.utils  # its _prepare_fsdp2 casts by FSDP's policy alone, without autocast
    import torch
    from accelerate.utils.fsdp_utils import fsdp2_prepare_model
    from torch.distributed.device_mesh import init_device_mesh
    _world(c)
    _quiet_shapes(ledger)
    model = common.trainable(c)
    plugin = accelerate.utils.FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False,
        reshard_after_forward=c.get("reshard-after-forward") != "off")
    plugin.set_mixed_precision("bf16")
    accelerator = types.SimpleNamespace(
        state=types.SimpleNamespace(fsdp_plugin=plugin), mixed_precision="bf16", is_main_process=False,
        device=torch.device("cuda", 0), torch_device_mesh={("all",): init_device_mesh("cuda", (c["shard-degree"],))},
        parallelism_config=types.SimpleNamespace(fsdp_dim_names=("all",)))
    model = fsdp2_prepare_model(accelerator, model)
    # what is left of the whole model was only on the way here
    common.all_built(ledger)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = common.optimizer_of(c, trained)
    common.follow_phases(ledger, model)
    for micro_batches in (1, c["micro-batches"]):
        ledger.forget_peak()
        for i in range(micro_batches):
            ledger.phase = "forward"
            model.set_requires_gradient_sync(i == micro_batches - 1)  # Accelerator.no_sync, as the Trainer calls it
            items = torch.zeros((), dtype=torch.long, device="cuda")
            loss = model(**common.batch_of(c), num_items_in_batch=items).loss
            ledger.phase = "backward"
            torch.autograd.backward(loss)
            del loss
            for p in trained:
                if p.grad is not None:
                    ledger.classify(p.grad.to_local(), "gradients")
        ledger.phase = "optimizer"
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        for states in optimizer.state.values():
            for state in states.values():
                if isinstance(state, torch.Tensor):
                    ledger.classify(getattr(state, "_local_tensor", state), "optimizer")
        optimizer.zero_grad(set_to_none=True)
    return model, model, optimizer


def _deepspeed(c):
    """The engine reads the environment, and asks other ranks for what a counted GPU does not have."""
    os.environ.update(LOCAL_RANK="0", RANK=str(c.get("rank", 0)), WORLD_SIZE=str(c["shard-degree"]), DS_BUILD_OPS="0")
    import sys
    import torch
    nothing, zero = (lambda *_, **__: None), (lambda *_, **__: 0)
    for name in ("memory_reserved", "max_memory_reserved", "reset_max_memory_allocated", "reset_max_memory_cached",
                 "memory_cached", "max_memory_cached"):
        setattr(torch.cuda, name, zero)
    torch.cuda.memory_stats = lambda *_: {}
    torch.cuda.mem_get_info = lambda *_: (80 << 30, 80 << 30)
    torch.cuda.get_rng_state = lambda *_: torch.zeros(16, dtype=torch.uint8)
    torch.Tensor.is_pinned = lambda *_, **__: True
    torch.distributed.broadcast_object_list = nothing
    import deepspeed
    for module in [m for n, m in sys.modules.items() if n.startswith("deepspeed") and m]:
        for name in ("assert_ints_same_as_other_ranks", "assert_lst_len_same_as_other_ranks"):
            if hasattr(module, name):
                setattr(module, name, nothing)
        if hasattr(module, "is_invalid_grad_norm"):
            module.is_invalid_grad_norm = lambda *_, **__: False
    return deepspeed


def train_deepspeed(c, ledger):
    import torch
    _world(c)
    deepspeed = _deepspeed(c)
    stage = c["zero-stage"]
    zero = dict(stage=stage)  # the rest as DeepSpeed has it by default
    if "overlap-dp" in c:
        zero.update(overlap_comm=c["overlap-dp"] == "on", reduce_bucket_size=c["zero-bucket"])
    if c["offload"] != "none":
        zero["offload_optimizer"] = dict(device="cpu", pin_memory=True)
    if "params" in c["offload"]:
        zero["offload_param"] = dict(device="cpu", pin_memory=True)
    settings = dict(train_micro_batch_size_per_gpu=c["micro-batch"], gradient_accumulation_steps=c["micro-batches"],
                    bf16=dict(enabled=True), zero_optimization=zero, gradient_clipping=1.0,
                    zero_allow_untested_optimizer=True, zero_force_ds_cpu_optimizer=False, steps_per_print=10**9)
    model = common.trainable(c)
    optimizer = common.optimizer_of(c, [p for p in model.parameters() if p.requires_grad])
    engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings,
                                                   dist_init_required=False)
    common.all_built(ledger)
    for p in model.parameters():
        ledger.classify(p.data, "parameters")
    common.follow_phases(ledger, model)
    for step in range(2):
        ledger.forget_peak()
        for _ in range(c["micro-batches"]):
            ledger.phase = "forward"
            loss = engine(**common.batch_of(c)).loss
            ledger.phase = "backward"
            engine.backward(loss)
            del loss
            ledger.phase = "optimizer"
            engine.step()
    return engine, engine, optimizer
