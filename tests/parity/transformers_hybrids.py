# SPDX-License-Identifier: Apache-2.0
"""transformers' hybrid models for make_transformers_memory.py --hybrids, with the kernels that they look for.

The modeling files take mamba-ssm's, causal-conv1d's and flash-linear-attention's functions where these are installed: here
their own Python, whose Triton kernels do nothing (state_kernels.py). Without them transformers computes with PyTorch's
operations and holds far more, which is not what such a model is trained with.
"""
OPTIONS = ["layer-pattern", "state-size", "state-heads", "state-head-dim", "state-groups", "state-chunk", "state-rank", "expert-every"]
# hidden, ffn, heads, kv heads, head size, vocabulary, tied, layers; states, heads, head, groups, chunk
MODELS = {
    "bamba": [((4096, 14336, 32, 8, 128, 128256, "off", 32), (128, 128, 64, 1, 256)),
              ((2048, 8192, 16, 4, 128, 128256, "off", 32), (64, 64, 64, 1, 256))],
    "granitemoehybrid": [((2048, 8192, 32, 8, 64, 100352, "on", 40), (128, 64, 64, 1, 256)),
                         ((1536, 4096, 12, 4, 128, 100352, "on", 32), (128, 48, 64, 1, 256))],
    "nemotron_h": [((4096, 21504, 32, 8, 128, 131072, "off", 52), (128, 128, 64, 8, 128)),
                   ((4480, 15680, 40, 8, 128, 131072, "off", 56), (128, 128, 80, 8, 128))],
    "nemotron_3": [((2688, 1856, 32, 2, 128, 131072, "off", 52), (128, 64, 64, 8, 128))],
    "jamba": [((4096, 14336, 32, 8, 128, 65536, "off", 32), (16, 8192, 1, 1, 0, 256)),
              ((2048, 8192, 16, 8, 128, 65536, "off", 32), (16, 4096, 1, 1, 0, 128))],
    "lfm2": [((1024, 4608, 16, 8, 64, 65536, "on", 16), ()), ((2048, 8192, 32, 8, 64, 65536, "on", 16), ())],
    "qwen3_next": [((2048, 5120, 16, 2, 256, 151936, "off", 48), (128, 32, 128, 16, 64))],
}
AS_P4D = {"bamba": ("bamba", "", ""), "granitemoehybrid": ("granite-hybrid", "", ""), "nemotron_h": ("nemotron-h", "", ""),
          "nemotron_3": ("nemotron-h", "", ""), "jamba": ("jamba", "", ""), "lfm2": ("lfm2", "", ""), "qwen3_next": ("qwen3-next", "", "on")}
NAMES = {"nemotron_3": "nemotron_h"}  # what transformers calls them
EXPERTS = {"nemotron_3": {"experts": 128, "experts-per-token": 6, "expert-ffn": 1856, "shared-ffn": 3712}, "jamba": {"experts": 16, "experts-per-token": 2, "expert-ffn": 0, "expert-every": 2}, "qwen3_next": {"experts": 512, "experts-per-token": 10, "expert-ffn": 512, "shared-ffn": 512}}
LETTERS = {"bamba": "MMM*", "granitemoehybrid": "MMM*", "nemotron_h": "MM--*", "nemotron_3": "EMEME*", "jamba": "SSS*", "lfm2": "CC*", "qwen3_next": "GGG*"}


def pattern(r, c):
    """Of all layers."""
    letters = LETTERS[c["model-type"]]
    drawn = [r.choice(letters) for _ in range(c["layers"])]
    drawn[r.randrange(c["layers"])] = letters[0]
    if c["model-type"] == "jamba":  # one at most, as its configuration says which
        drawn = [letters[0] if letter == "*" and "*" in drawn[:i] else letter for i, letter in enumerate(drawn)]
    return "".join(drawn)


def configured(c, d):
    """d: what all configurations of transformers have; changed to this one's."""
    kind, inner = c["model-type"], c.get("state-heads", 0) * c.get("state-head-dim", 0)
    names = {"*": "full_attention", "-": "mlp", "E": "moe"}
    if kind == "lfm2":
        d.pop("head_dim")
        d.update(layer_types=["full_attention" if letter == "*" else "conv" for letter in c["layer-pattern"]], block_auto_adjust_ff_dim=False)
        return d
    types = [names.get(letter, "linear_attention") for letter in c["layer-pattern"]]
    mamba = dict(mamba_n_heads=c["state-heads"], mamba_d_head=c["state-head-dim"], mamba_n_groups=c["state-groups"],
                 mamba_d_state=c["state-size"], mamba_expand=inner // c["hidden"], mamba_chunk_size=c.get("state-chunk"))
    if kind == "bamba":
        d.pop("head_dim")
        d.update(mamba, attn_layer_indices=[i for i, letter in enumerate(c["layer-pattern"]) if letter == "*"])
    elif kind == "granitemoehybrid":
        d.pop("head_dim")
        d.update(mamba, layer_types=types, num_local_experts=0, shared_intermediate_size=d.pop("intermediate_size"),
                 embedding_multiplier=12, residual_multiplier=0.22, logits_scaling=8)
    elif kind == "jamba":
        d.pop("head_dim")
        attends = [i for i, letter in enumerate(c["layer-pattern"]) if letter == "*"]
        d.update(mamba_d_state=c["state-size"], mamba_expand=inner // c["hidden"], mamba_dt_rank=c["state-rank"],
                 attn_layer_period=c["layers"], attn_layer_offset=attends[0] if attends else c["layers"] + 1,
                 num_experts=c["experts"], num_experts_per_tok=c["experts-per-token"], expert_layer_period=2, expert_layer_offset=1)
    elif kind in ("nemotron_h", "nemotron_3"):
        if kind == "nemotron_3":
            d.update(n_routed_experts=c["experts"], num_experts_per_tok=c["experts-per-token"], moe_intermediate_size=c["expert-ffn"],
                     moe_shared_expert_intermediate_size=c["shared-ffn"], n_group=1, topk_group=1)
        d.update(layer_types=types, mamba_num_heads=c["state-heads"], mamba_head_dim=c["state-head-dim"], n_groups=c["state-groups"],
                 ssm_state_size=c["state-size"], chunk_size=c["state-chunk"])
    else:
        d.update(layer_types=types, num_experts=c["experts"], num_experts_per_tok=c["experts-per-token"],
                 moe_intermediate_size=c["expert-ffn"], shared_expert_intermediate_size=c["shared-ffn"],
                 linear_num_value_heads=c["state-heads"], linear_value_head_dim=c["state-head-dim"],
                 linear_num_key_heads=c["state-groups"], linear_key_head_dim=c["state-size"])
    return d
