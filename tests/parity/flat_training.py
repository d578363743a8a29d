# SPDX-License-Identifier: Apache-2.0
"""Two steps of training with FSDP1 (FullyShardedDataParallel) as accelerate prepares it, for
make_transformers_memory.py: a flat parameter for each unit."""
import types

import counted_gpu
import make_transformers_memory as common


def _as_cuda():
    """FSDP1 asks whether parameters are still to be made, and is given new names of collectives."""
    import torch
    import torch.distributed as dist
    torch.Tensor.is_meta = property(lambda tensor: False)
    for name in ("all_gather_single", "reduce_scatter_single"):
        setattr(dist, name, lambda *_, **__: None)


def _prepared(c, model):
    """What Accelerator.prepare_model makes of a model."""
    import accelerate.accelerator
    import torch
    from accelerate.utils import DistributedType, DynamoBackend
    plugin = accelerate.utils.FullyShardedDataParallelPlugin(
        fsdp_version=1, auto_wrap_policy="transformer_based_wrap",
        sharding_strategy="FULL_SHARD" if c["reshard-after-forward"] == "on" else "SHARD_GRAD_OP",
        backward_prefetch="BACKWARD_PRE" if c["backward-prefetch"] == "on" else "NO_PREFETCH",
        forward_prefetch=c.get("forward-prefetch") == "on", use_orig_params=c["orig-params"] == "on", cpu_ram_efficient_loading=False)
    plugin.set_mixed_precision("bf16")
    if c["finetune"] != "full":  # Trainer._fsdp_qlora_plugin_updates
        from peft.utils.other import fsdp_auto_wrap_policy
        plugin.auto_wrap_policy = fsdp_auto_wrap_policy(model)
    accelerate.accelerator.get_mixed_precision_context_manager = lambda *_: torch.autocast("cuda", torch.bfloat16)
    self = types.SimpleNamespace(
        state=types.SimpleNamespace(fsdp_plugin=plugin, dynamo_plugin=types.SimpleNamespace(backend=DynamoBackend.NO)),
        mixed_precision="bf16", native_amp=True, autocast_handler=None, fp8_backend=None, is_main_process=False,
        device=torch.device("cuda", 0), device_placement=True, distributed_type=DistributedType.FSDP, multi_device=False,
        is_fsdp2=False, parallelism_config=None, _models=[], verify_device_map=lambda _: False, delayed_fp8_autocast=False)
    return accelerate.Accelerator.prepare_model(self, model)


def train(c, ledger):
    import torch
    counted_gpu.world(0, c["shard-degree"])
    _as_cuda()
    model = common.trainable(c)
    model = _prepared(c, model)
    common.all_built(ledger)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = common.optimizer_of(c, trained)
    common.follow_phases(ledger, model)
    for micro_batches in (1, c["micro-batches"]):
        ledger.forget_peak()
        for i in range(micro_batches):
            ledger.phase = "forward"
            items = torch.zeros((), dtype=torch.long, device="cuda")
            with model.no_sync() if i < micro_batches - 1 else torch.enable_grad():  # Accelerator.accumulate
                loss = model(**common.batch_of(c), num_items_in_batch=items).loss
                ledger.phase = "backward"
                torch.autograd.backward(loss)
            del loss
        ledger.phase = "optimizer"
        for p in trained:
            if p.grad is not None:
                ledger.classify(p.grad, "gradients")
        model.clip_grad_norm_(1.0)
        optimizer.step()
        common.classify_states(ledger, optimizer)
        optimizer.zero_grad(set_to_none=True)
    return model, model, optimizer
