# SPDX-License-Identifier: Apache-2.0
"""torchtitan's models with experts for make_torch_memory.py --experts.

Routing is balanced, or gives the measured rank `imbalance` times its share of the tokens: the counts that the dispatcher
reads from the GPU are set instead. Tokens are dispatched by all-to-all, torchtitan's standard.
"""
MODELS = [("qwen3", "30B-A3B", "qwen3_30b_a3b"), ("qwen3", "235B-A22B", "qwen3_30b_a3b"), ("deepseek_v3", "16B", "deepseek_v3_16b"),
          ("deepseek_v3", "236B", "deepseek_v3_671b"), ("deepseek_v3", "671B", "deepseek_v3_671b")]
ASKED = ["ep", "imbalance"]
OF_MODEL = ["experts", "experts-per-token", "expert-ffn", "shared-ffn", "dense-layers", "q-lora-rank", "kv-lora-rank", "rope-head-dim",
            "v-head-dim"]


def pick(r, c, seed):
    """c: a configuration of a model without experts."""
    c["family"], c["flavor"], _ = r.choice(MODELS)
    c.update(tp=1, cp=1, pp=1, vpp=1, stage=0)
    c["layers"] = r.choice([1, 2, 3, 4, 6])
    c["seq-len"] = r.choice([2048, 4096, 4096, 8192, 16384])
    c["shard-degree"] = r.choice([2, 4, 8, 16, 32, 64, 128, 256, 512])
    c["dp"] = c["shard-degree"] * r.choice([1, 1, 1, 2])
    c["ep"] = r.choice([e for e in (1, 1, 2, 4, 8, 16, 32, 64) if c["shard-degree"] % e == 0])
    if seed >= 60:
        beside(r, c, seed)
    c["imbalance"] = r.choice([1, 1, 1, 1.25, 1.5, 2]) if c["ep"] > 1 else 1
    return c


def beside(r, c, seed):
    """Other kinds of parallelism: tensor, context, pipelines, or two of them; from seed 70 on all three, and many chunks."""
    kind = r.choice(["tp", "tp", "cp", "pp", "pp", "tp cp", "tp pp", "cp pp"] if seed < 70 else ["tp cp pp", "tp cp pp", "pp"])
    shards, copies = r.choice([2, 4, 8, 16, 32, 64]), r.choice([1, 1, 1, 2])
    c["tp"] = r.choice([2, 4, 8]) if "tp" in kind else 1
    c["cp"] = r.choice([2, 4, 8]) if "cp" in kind else 1
    if "pp" in kind:
        c["pp"], c["vpp"] = r.choice([2, 2, 4]), r.choice([1, 1, 2] if seed < 70 else [4, 5] if kind == "pp" else [1, 1, 2])
        c["layers"] = c["pp"] * c["vpp"] * r.choice([1, 1, 2])
        c["micro-batches"] = c["pp"] * r.choice([1, 2])
        c["stage"] = r.randrange(c["pp"])
    c["shard-degree"], c["dp"] = shards * c["cp"], shards * copies
    ranks = c["shard-degree"] * c["tp"]
    c["ep"] = r.choice([e for e in (1, 2, 4, 8, 16, 32, 64) if ranks % e == 0])


def possible(c):
    experts = {"qwen3": 128}.get(c["family"], {"16B": 64, "236B": 160}.get(c["flavor"], 256))
    heads = 4 if c["family"] == "qwen3" else 16
    return experts % c["ep"] == 0 and c["seq-len"] * c["micro-batch"] // c["cp"] <= 16384 and heads % c["tp"] == 0


def counts(c):
    """What the host would read of the counts of tokens."""
    from torchtitan.models.common.token_dispatcher import AllToAllTokenDispatcher

    def told(self, mine, others, ranks):
        copies = c["tokens"] * self.top_k
        return others.reshape(-1), [copies // ranks] * ranks, [int(copies * c["imbalance"]) // ranks] * ranks

    AllToAllTokenDispatcher._sync_token_count_exchange = told


def of_model(model):
    block, attention = model.layers[-1], model.layers[0].attention
    dense = [b.feed_forward for b in model.layers if b.feed_forward is not None]
    experts = block.moe.routed_experts.inner_experts
    shared = block.moe.shared_experts
    latent = hasattr(attention, "kv_lora_rank")
    kv = attention.n_heads if latent else attention.n_kv_heads or attention.n_heads
    return {"hidden": model.dim, "ffn": dense[0].w1.out_features if dense else experts.hidden_dim, "heads": attention.n_heads,
            "kv-heads": kv, "head-dim": attention.qk_nope_head_dim if latent else attention.head_dim, "vocab": model.vocab_size,
            "tied": "on" if model.enable_weight_tying else "off", "qk-norm": "off" if latent or not attention.qk_norm else "on",
            "experts": experts.num_experts, "experts-per-token": block.moe.router.top_k, "expert-ffn": experts.hidden_dim,
            "shared-ffn": shared.w1.out_features if shared else 0, "dense-layers": len(dense),
            "q-lora-rank": attention.q_lora_rank if latent else 0, "kv-lora-rank": attention.kv_lora_rank if latent else 0,
            "rope-head-dim": attention.qk_rope_head_dim if latent else 0, "v-head-dim": attention.v_head_dim if latent else 0}
