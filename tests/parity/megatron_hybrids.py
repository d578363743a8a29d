# SPDX-License-Identifier: Apache-2.0
"""Hybrid models for make_megatron_memory.py --hybrids: Megatron-Core's MambaModel, layers of one block each.

Mamba-2 is mamba-ssm's own code (state_kernels.py); experts are those of megatron_experts.py. The GPT model's gated delta nets
(Qwen3-Next) run with flash-linear-attention's own code (fla of its repository, beside mamba_ssm on PYTHONPATH).
"""
SHAPES = {  # hidden, ffn, heads, kv heads, state heads, head, states
    "nemotron-h-8b": (4096, 21504, 32, 8, 128, 64, 128),
    "nemotron-h-4b": (3072, 12288, 32, 8, 112, 64, 128),
    "nemotron-h-56b": (8192, 32768, 64, 8, 256, 64, 256),
    "nemotron-nano-9b-v2": (4480, 15680, 40, 8, 128, 80, 128),
    "nemotron-nano-12b-v2": (5120, 20480, 40, 8, 128, 80, 128),
}
OPTIONS = ["layer-pattern", "state-size", "state-heads", "state-head-dim", "state-groups"]


def delta_nets(r, c):
    """Qwen3-Next: three of four layers are gated delta nets, all have experts."""
    c.update({"hidden": 2048, "ffn": 5120, "heads": 16, "kv-heads": 2, "head-dim": 256, "experts": 512, "experts-per-token": 10,
              "expert-ffn": 512, "shared-ffn": 512, "dense-layers": 0, "qk-norm": "on", "q-lora-rank": 0, "kv-lora-rank": 0,
              "rope-head-dim": 0, "v-head-dim": 0, "state-heads": 32, "state-head-dim": 128, "state-size": 128, "state-groups": 16,
              "activation": "swiglu", "vocab": 151936, "recompute": r.choice(("none", "none", "moe", "selective"))})
    c["pp"] = r.choice((1, 1, 2))
    c["layers"] = 4 * c["pp"]
    c["layer-pattern"] = "GGG*"
    c["tp"] = r.choice((1, 1, 2))
    c["sequence-parallel"] = "on" if c["tp"] > 1 else "off"
    c["etp"], c["ep"] = 1, r.choice((8, 16, 32))
    c["imbalance"], c["optimizer-sharding"] = r.choice((1, 1, 1.25)), "on"
    c["micro-batches"] = c["pp"] * r.choice((1, 2))
    while c["dp"] * c["tp"] % c["ep"]:
        c["dp"] *= 2
    return c


def with_experts(r, c):
    """Nemotron 3 Nano: its experts, whose layers take the place of the others with a feed-forward part."""
    c.update(experts=128, ffn=1856, heads=32, hidden=2688)
    c.update({"kv-heads": 2, "state-heads": 64, "state-head-dim": 64, "state-size": 128, "experts-per-token": 6, "expert-ffn": 1856,
              "shared-ffn": 3712, "dense-layers": 0, "qk-norm": "off", "q-lora-rank": 0, "kv-lora-rank": 0, "rope-head-dim": 0,
              "v-head-dim": 0, "recompute": r.choice(("none", "none", "moe", "selective"))})
    c["layer-pattern"] = c["layer-pattern"].replace("-", "E")
    c["tp"] = r.choice((1, 1, 2))
    c["sequence-parallel"] = "on" if c["tp"] > 1 else "off"
    c["etp"] = r.choice((1, c["tp"]))
    c["ep"] = r.choice((2, 4, 8, 16))
    c["imbalance"] = r.choice((1, 1, 1.25, 1.5))
    c["optimizer-sharding"] = "on"
    while c["dp"] * c["tp"] % (c["ep"] * c["etp"]):
        c["dp"] *= 2
    return c


def pick(r, dense):
    """dense: a random configuration, whose layout and batch are kept where they work."""
    c = dict(dense)
    shape = SHAPES[r.choice(list(SHAPES))]
    c.update(zip(("hidden", "ffn", "heads", "kv-heads"), shape))
    c["head-dim"] = 128
    c.update(zip(("state-heads", "state-head-dim", "state-size"), shape[4:]))
    c["state-groups"] = 8
    c.update(tied="off", activation="relu2", norm="rmsnorm", swiglu="fused", vocab=131072, cp=1, vpp=1)
    c["cp-comm"], c["overlap-dp"] = "p2p", "off"
    c["tp"] = r.choice((1, 1, 2, 4, 8))
    c["sequence-parallel"] = "on" if c["tp"] > 1 and r.random() < 0.8 else "off"
    c["pp"] = r.choice((1, 1, 1, 2, 2, 4))
    each = r.choice((2, 3, 4, 6) if c["pp"] == 1 else (2, 3, 4))
    c["layers"] = c["pp"] * each
    c["layer-pattern"] = "".join(r.choice("MMMM---*") for _ in range(c["layers"]))
    if "M" not in c["layer-pattern"]:
        c["layer-pattern"] = "M" + c["layer-pattern"][1:]
    c["micro-batches"] = c["pp"] * r.choice((1, 2, 3))
    c["micro-batch"] = r.choice((1, 1, 1, 2))
    c["seq-len"] = r.choice([s for s in (2048, 4096, 8192, 16384, 32768) if c["micro-batch"] * s <= 32768])
    c["recompute"] = r.choice(("none", "none", "none", "selective"))  # MambaModel has no other, and ignores "full"
    c["recompute-method"], c["recompute-layers"] = "uniform", 1
    if "experts" in c and r.random() < c.pop("delta-nets", 0):
        return delta_nets(r, c)
    return with_experts(r, c) if "experts" in c else c


def arguments(c):
    """Of TransformerConfig."""
    if "G" in c["layer-pattern"]:
        return dict(experimental_attention_variant="gated_delta_net", attention_output_gate=True, qk_layernorm=True,
                    linear_attention_freq=[int(letter == "G") for letter in c["layer-pattern"] * (c["layers"] // len(c["layer-pattern"]))],
                    linear_key_head_dim=c["state-size"], linear_value_head_dim=c["state-head-dim"],
                    linear_num_key_heads=c["state-groups"], linear_num_value_heads=c["state-heads"],
                    moe_shared_expert_gate=True, rotary_interleaved=False)
    return dict(mamba_state_dim=c["state-size"], mamba_head_dim=c["state-head-dim"], mamba_num_groups=c["state-groups"],
                mamba_num_heads=c["state-heads"], is_hybrid_model=True)


def model(c, config, vocabulary, first, last):
    if "G" in c["layer-pattern"]:
        from megatron.core.models.gpt import GPTModel
        from megatron.core.models.gpt.experimental_attention_variant_module_specs import (
            get_transformer_block_with_experimental_attention_variant_spec)
        return GPTModel(config, get_transformer_block_with_experimental_attention_variant_spec(config), vocabulary, c["seq-len"],
                        pre_process=first, post_process=last, parallel_output=True, position_embedding_type="rope",
                        share_embeddings_and_output_weights=c["tied"] == "on", rotary_percent=0.25)
    from megatron.core.models.mamba import MambaModel
    from megatron.core.models.mamba.mamba_layer_specs import mamba_stack_spec
    return MambaModel(config, mamba_stack_spec, vocabulary, c["seq-len"], pre_process=first, post_process=last,
                      hybrid_override_pattern=c["layer-pattern"], parallel_output=True,
                      share_embeddings_and_output_weights=c["tied"] == "on")
