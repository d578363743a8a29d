# SPDX-License-Identifier: Apache-2.0
"""transformers' models with experts, latent attention and sinks of attention for make_transformers_memory.py --experts.

Experts run as grouped products, as the release has it unless told otherwise; how tokens are routed changes no size there.
"""
SHAPE = ("experts", "experts-per-token", "expert-ffn", "shared-ffn", "dense-layers", "q-lora-rank", "kv-lora-rank", "rope-head-dim",
         "v-head-dim")
# hidden, ffn, heads, kv heads, head size, vocabulary, tied, layers; then the above
MODELS = {
    "mixtral": [((4096, 14336, 32, 8, 128, 32000, "off", 32), (8, 2, 14336, 0, 0)),
                ((6144, 16384, 48, 8, 128, 32768, "off", 56), (8, 2, 16384, 0, 0))],
    "qwen3_moe": [((2048, 6144, 32, 4, 128, 151936, "off", 48), (128, 8, 768, 0, 0)),
                  ((4096, 12288, 64, 4, 128, 151936, "off", 94), (128, 8, 1536, 0, 0))],
    "olmoe": [((2048, 1024, 16, 16, 128, 50304, "off", 16), (64, 8, 1024, 0, 0))],
    "qwen2_moe": [((2048, 5632, 16, 16, 128, 151936, "off", 24), (60, 4, 1408, 5632, 0))],
    "deepseek_v2": [((2048, 10944, 16, 16, 128, 102400, "off", 27), (64, 6, 1408, 2816, 1, 0, 512, 64, 128)),
                    ((5120, 12288, 128, 128, 128, 102400, "off", 60), (160, 6, 1536, 3072, 1, 1536, 512, 64, 128))],
    "deepseek_v3": [((2048, 11264, 16, 16, 128, 163840, "off", 27), (64, 6, 1408, 2816, 1, 0, 512, 64, 128)),  # Moonlight
                    ((7168, 18432, 128, 128, 128, 129280, "off", 61), (256, 8, 2048, 2048, 3, 1536, 512, 64, 128))],
    "gpt_oss": [((2880, 2880, 64, 8, 64, 201088, "off", 24), (32, 4, 2880, 0, 0)),
                ((2880, 2880, 64, 8, 64, 201088, "off", 36), (128, 4, 2880, 0, 0))],
    "granitemoe": [((1536, 512, 24, 8, 64, 49155, "on", 32), (40, 8, 512, 0, 0)), ((1024, 512, 16, 8, 64, 49155, "on", 24), (32, 8, 512, 0, 0))],
    "hunyuan_v1_moe": [((4096, 3072, 32, 8, 128, 128167, "on", 32), (64, 8, 3072, 3072, 0))],
    "ernie4_5_moe": [((2560, 12288, 20, 4, 128, 103424, "on", 28), (64, 6, 1536, 3072, 1))],
    "phimoe": [((4096, 6400, 32, 8, 128, 32064, "off", 32), (16, 2, 6400, 0, 0))],
}
AS_P4D = {"mixtral": ("llama", "", ""), "qwen3_moe": ("llama", "", "on"), "olmoe": ("llama", "", "wide"), "qwen2_moe": ("llama", "qkv", ""),
          "deepseek_v2": ("llama", "", ""), "deepseek_v3": ("llama", "", ""), "gpt_oss": ("gpt-oss", "", ""),
          "granitemoe": ("granite", "", ""), "hunyuan_v1_moe": ("hunyuan", "", ""), "ernie4_5_moe": ("ernie4.5", "", ""), "phimoe": ("phimoe", "", "")}
EAGER_ONLY = {"gpt_oss"}


def sizes(r, kind):
    """Of a random published model, as p4d names them."""
    dense, sparse = r.choice(MODELS[kind])
    return dense, dict(zip(SHAPE, (sparse + (0,) * len(SHAPE))[:len(SHAPE)]))


def configured(c, d):
    """d: what all configurations of transformers have; changed to this one's."""
    kind = c["model-type"]
    d["num_experts_per_tok"] = c["experts-per-token"]
    if kind == "mixtral":
        d.update(num_local_experts=c["experts"], sliding_window=None)
    elif kind in ("gpt_oss", "granitemoe", "phimoe"):
        d.update(num_local_experts=c["experts"])
        if kind == "phimoe":
            d.update(attention_bias=True, lm_head_bias=True)
    elif kind == "hunyuan_v1_moe":
        d.update(num_experts=c["experts"], moe_topk=c["experts-per-token"])
        d.pop("num_experts_per_tok")
    elif kind == "ernie4_5_moe":
        d.update(moe_num_experts=c["experts"], moe_k=c["experts-per-token"], moe_intermediate_size=c["expert-ffn"],
                 moe_num_shared_experts=c["shared-ffn"] // c["expert-ffn"], moe_layer_start_index=c["dense-layers"])
        d.pop("num_experts_per_tok")
        d.pop("head_dim")
    elif kind in ("qwen3_moe", "qwen2_moe"):
        d.update(num_experts=c["experts"], moe_intermediate_size=c["expert-ffn"], norm_topk_prob=kind == "qwen3_moe")
        if kind == "qwen2_moe":
            d.update(shared_expert_intermediate_size=c["shared-ffn"])
            d.pop("head_dim")
    elif kind == "olmoe":
        d.update(num_experts=c["experts"], intermediate_size=c["expert-ffn"])
        d.pop("head_dim")
    else:
        d.pop("head_dim")
        groups = dict(n_group=1, topk_group=1)
        if c["q-lora-rank"]:
            groups = dict(n_group=8, topk_group=4 if kind == "deepseek_v3" else 3)
        limited = "group_limited_greedy" if c["q-lora-rank"] else "greedy"
        d.update(n_routed_experts=c["experts"], moe_intermediate_size=c["expert-ffn"], q_lora_rank=c["q-lora-rank"] or None,
                 n_shared_experts=c["shared-ffn"] // c["expert-ffn"], first_k_dense_replace=c["dense-layers"],
                 kv_lora_rank=c["kv-lora-rank"], qk_nope_head_dim=c["head-dim"], qk_rope_head_dim=c["rope-head-dim"],
                 v_head_dim=c["v-head-dim"], **groups, **(dict(topk_method=limited) if kind == "deepseek_v2" else {}))
    return d
