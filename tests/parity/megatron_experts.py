# SPDX-License-Identifier: Apache-2.0
"""Models with experts and latent attention for make_megatron_memory.py --experts.

Routing is balanced, or gives the measured rank `imbalance` times its share of the tokens: the counts that Megatron's
dispatcher reads from the GPU are set instead. Experts are grouped products of TransformerEngine, tokens are dispatched by
all-to-all, permutation is Megatron's own (--moe-permute-fusion off), router and its auxiliary loss in bf16, RoPE of latent
attention not fused.
"""
import numpy as np
import torch

# hidden, ffn, heads, kv heads, head size, experts, a token's, their width, of the shared ones, dense layers, latent ranks
SHAPES = {
    "mixtral-8x7b": (4096, 14336, 32, 8, 128, 8, 2, 14336, 0, 0, None),
    "mixtral-8x22b": (6144, 16384, 48, 8, 128, 8, 2, 16384, 0, 0, None),
    "qwen3-30b-a3b": (2048, 6144, 32, 4, 128, 128, 8, 768, 0, 0, None),
    "qwen3-235b-a22b": (4096, 12288, 64, 4, 128, 128, 8, 1536, 0, 0, None),
    "qwen1.5-moe": (2048, 5632, 16, 16, 128, 60, 4, 1408, 5632, 0, None),
    "deepseek-v2-lite": (2048, 10944, 16, 16, 128, 64, 6, 1408, 2816, 1, (0, 512)),
    "moonlight": (2048, 11264, 16, 16, 128, 64, 6, 1408, 2816, 1, (0, 512)),
    "deepseek-v2": (5120, 12288, 128, 128, 128, 160, 6, 1536, 3072, 1, (1536, 512)),
    "deepseek-v3": (7168, 18432, 128, 128, 128, 256, 8, 2048, 2048, 3, (1536, 512)),
    "deepseek-v3-narrow": (7168, 18432, 64, 64, 128, 384, 8, 2048, 2048, 1, (1536, 512)),  # Kimi K2's
}
OPTIONS = ["experts", "experts-per-token", "expert-ffn", "shared-ffn", "dense-layers", "ep", "etp", "imbalance", "qk-norm",
           "q-lora-rank", "kv-lora-rank", "rope-head-dim", "v-head-dim"]
DISPATCH = ["token-dispatcher", "expert-capacity", "pad-experts", "mtp-layers"]
MODULES = ["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]


def pick(r, dense):
    """dense: a random configuration without experts, whose layout and batch are kept where they work."""
    c = dict(dense)
    model = r.choice(list(SHAPES))
    names = ("hidden", "ffn", "heads", "kv-heads", "head-dim", "experts", "experts-per-token", "expert-ffn", "shared-ffn")
    c.update(zip(names, SHAPES[model]))
    dense_layers, latent = SHAPES[model][-2:]
    c["qk-norm"] = "on" if model.startswith("qwen3") else "off"
    c["q-lora-rank"], c["kv-lora-rank"] = latent or (0, 0)
    c["rope-head-dim"], c["v-head-dim"] = (64, 128) if latent else (0, 0)
    c.update(tied="off", activation="swiglu", norm="rmsnorm", swiglu="fused")
    c["vocab"] = {"m": 32000, "q": 151936, "d": 129280}[model[0]]
    c["tp"] = r.choice([t for t in (1, 1, 1, 2, 2, 4, 8) if c["kv-heads"] % t == 0])
    c["cp"] = r.choice((1, 1, 1, 1, 2, 4))
    c["cp-comm"] = "p2p"
    c["sequence-parallel"] = "on" if c["tp"] > 1 else "off"
    c["pp"] = r.choice((1, 1, 2, 2, 4))
    c["vpp"] = r.choice((1, 1, 2)) if c["pp"] > 1 else 1
    c["layers"] = c["pp"] * c["vpp"] * r.choice((1, 2, 2, 3) if c["pp"] * c["vpp"] > 1 else (2, 3, 4))
    c["dense-layers"] = min(dense_layers, c["layers"] - 1)
    c["micro-batches"] = c["pp"] * r.choice((1, 2, 3))
    c["micro-batch"] = r.choice((1, 1, 1, 2))
    c["seq-len"] = r.choice([s for s in (2048, 4096, 4096, 8192, 16384, 32768)
                             if c["micro-batch"] * s // c["cp"] <= 16384 and s // c["cp"] >= 1024])
    c["ep"] = r.choice([e for e in (1, 2, 4, 8, 16, 32, 64) if c["experts"] % e == 0 and c["experts"] // e <= 64])
    c["etp"] = r.choice([t for t in (1, 1, 1, 2, 4) if t <= c["tp"] and c["expert-ffn"] % t == 0])
    c["dp"] = r.choice((1, 2, 4))
    while c["dp"] * c["cp"] * c["tp"] % (c["ep"] * c["etp"]):
        c["dp"] *= 2
    c["imbalance"] = r.choice((1, 1, 1, 1.25, 1.5, 2))
    c["recompute"] = r.choice(("none", "none", "none", "full", "full", "moe", "selective"))
    c["recompute-method"], c["recompute-layers"] = "uniform", 1
    c["overlap-dp"] = "off"
    return c


def pick_modules(r, c):
    """What is recomputed instead: one to three modules; and shared experts beside the exchange of tokens."""
    fits = dict(core_attn=True, layernorm=True, mla_up_proj=c["kv-lora-rank"], mlp=c["dense-layers"], moe=True,
                moe_act=True, shared_experts=c["shared-ffn"])
    c["recompute"] = r.choice(("selective", "selective", "selective", "selective", "none"))
    chosen = set(r.sample([m for m in MODULES if fits[m]], r.choice((1, 1, 2, 3))))
    if "moe" in chosen:
        chosen -= {"moe_act", "shared_experts"}
    c["recompute-modules"] = "+".join(sorted(chosen)) if c["recompute"] == "selective" else "none"
    overlaps = c["shared-ffn"] and not chosen & {"shared_experts", "moe"} and r.random() < 0.3
    c["shared-overlap"] = "on" if overlaps else "off"
    return c


def pick_dispatch(r, c):
    """How tokens reach their experts, how many of them are dropped, and layers that predict further tokens."""
    c["token-dispatcher"] = r.choice(("all-gather", "all-gather", "all-to-all"))
    c["expert-capacity"] = r.choice((0, 0, 1, 1.25, 2))
    padded = c["expert-capacity"] and c["token-dispatcher"] == "all-to-all" and r.random() < 0.6
    c["pad-experts"] = "on" if padded else "off"
    c["imbalance"] = 1 if padded else c["imbalance"]
    c["mtp-layers"] = r.choice((0, 0, 1, 1, 2))
    c["cp"] = 1 if c["mtp-layers"] else c["cp"]  # labels are shifted over the ring by point-to-point messages
    while c["dp"] * c["cp"] * c["tp"] % (c["ep"] * c["etp"]):
        c["dp"] *= 2
    return c


def received(c):
    """Of the share that a balanced router would give this rank's experts."""
    most = c.get("expert-capacity") or c["imbalance"]
    return min(c["imbalance"] if c["ep"] > 1 else 1, most)


def arguments(c):
    """Of TransformerConfig."""
    found = dict(
        num_moe_experts=c["experts"], moe_router_topk=c["experts-per-token"], moe_ffn_hidden_size=c["expert-ffn"],
        moe_shared_expert_intermediate_size=c["shared-ffn"] or None, expert_model_parallel_size=c["ep"],
        expert_tensor_parallel_size=c["etp"], moe_grouped_gemm=True,
        moe_router_load_balancing_type="aux_loss", moe_aux_loss_coeff=1e-3, qk_layernorm=c["qk-norm"] == "on",
        moe_token_dispatcher_type={"all-to-all": "alltoall", "all-gather": "allgather"}[c.get("token-dispatcher", "all-to-all")],
        moe_expert_capacity_factor=c.get("expert-capacity") or None,
        moe_pad_expert_input_to_capacity=c.get("pad-experts") == "on", mtp_num_layers=c.get("mtp-layers") or None,
        moe_shared_expert_overlap=c.get("shared-overlap") == "on",
        moe_layer_freq=[int(i >= c["dense-layers"]) for i in range(c["layers"])])
    if c["kv-lora-rank"]:
        found.update(
            multi_latent_attention=True, q_lora_rank=c["q-lora-rank"] or None, kv_lora_rank=c["kv-lora-rank"],
            qk_head_dim=c["head-dim"], qk_pos_emb_head_dim=c["rope-head-dim"], v_head_dim=c["v-head-dim"],
            qk_layernorm=True, apply_rope_fusion=False)
    return found


def balance(ledger, c):
    """What the dispatcher would read from the GPU."""
    from megatron.core.transformer.moe import token_dispatcher
    balance_exchange(ledger, c, token_dispatcher.MoEAlltoAllTokenDispatcher)
    balance_gather(ledger, c, token_dispatcher.MoEAllGatherTokenDispatcher)


def balance_gather(ledger, c, dispatcher):
    finish = dispatcher.dispatch_postprocess

    def dispatch_postprocess(self, tokens, probs):
        share, rest = divmod(tokens.size(0) * self.router_topk, self.config.num_moe_experts)
        of_expert = share + (np.asarray(self.local_expert_indices) < rest)
        mine = (of_expert * received(c)).astype(int)
        ledger.selected = int(mine.sum())
        permuted, _, chosen = finish(self, tokens, probs)
        return permuted, mine, chosen

    dispatcher.dispatch_postprocess = dispatch_postprocess


def balance_exchange(ledger, c, dispatcher):
    start, real = dispatcher.__init__, dispatcher.preprocess

    def init(self, *args, **kwargs):
        start(self, *args, **kwargs)
        chunks = np.arange(self.num_experts * self.tp_size)
        self.sort_input_by_local_experts = chunks.reshape(-1, self.num_local_experts).T.ravel()
        self.restore_output_by_local_experts = chunks.reshape(self.num_local_experts, -1).T.ravel()

    def preprocess(self, routing_map):
        if self.drop_and_pad:  # every number is known before
            real(self, routing_map)
            return np.full(self.num_local_experts, self.capacity * self.tp_size * self.ep_size)
        sent = routing_map.size(0) * self.config.moe_router_topk
        self.num_out_tokens = ledger.selected = sent
        share, rest = divmod(sent, self.num_experts)
        of_expert = share + (np.arange(self.num_experts) < rest)
        mine = of_expert[self.local_expert_indices[0]:self.local_expert_indices[-1] + 1]
        mine = (mine * received(c)).astype(int)
        self.input_splits = of_expert.reshape(self.ep_size, -1).sum(axis=1)
        self.output_splits = np.full(self.ep_size, mine.sum())
        self.output_splits_tp = np.full(self.tp_size, mine.sum() * self.ep_size)
        self.num_global_tokens_per_local_expert = np.tile(mine, (self.tp_size * self.ep_size, 1))
        return mine * self.ep_size * self.tp_size

    dispatcher.__init__, dispatcher.preprocess = init, preprocess
    dispatcher._maybe_dtoh_and_synchronize = lambda self, point, counts=None: counts
