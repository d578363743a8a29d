# SPDX-License-Identifier: Apache-2.0
"""Further options of dense models for make_megatron_memory.py --options.

Norms of queries and keys, the attention mask of the data loader, fewer key/value heads than tensor-parallel ranks, and
pipelines whose embedding and loss count as layers, with chunks that have no others.
"""
OPTIONS = ["qk-norm", "attention-mask", "account-for-embedding", "account-for-loss"]
SEEN = 51  # the seed whose configurations were looked at before


def pick(r, c):
    """c: a random configuration of a dense model."""
    c["qk-norm"] = r.choice(("on", "on", "off"))
    c["attention-mask"] = r.choice(("on", "off"))
    if r.random() < 0.4:
        fewer_heads(r, c)
    c["account-for-embedding"] = c["account-for-loss"] = "off"
    if c["pp"] > 1 and r.random() < 0.6:
        count_ends(r, c)
    return c


def fewer_heads(r, c):
    """Several ranks have the same key/value head."""
    c["tp"] = r.choice([t for t in (2, 4, 8) if c["heads"] % t == 0])
    c["kv-heads"] = r.choice([k for k in (1, 2, 4) if k < c["tp"] and c["heads"] % k == 0])
    c["cp-comm"] = "p2p" if c["cp-comm"] == "a2a" else c["cp-comm"]
    c["sequence-parallel"] = r.choice(("on", "on", "off"))


def count_ends(r, c):
    chunks = c["pp"] * c["vpp"]
    c["account-for-embedding"], c["account-for-loss"] = r.choice((("on", "on"), ("on", "on"), ("on", "off"), ("off", "on")))
    ends = (c["account-for-embedding"] == "on") + (c["account-for-loss"] == "on")
    c["layers"] = chunks * r.choice((1, 2, 2, 3)) - ends
    if c["layers"] < 1:
        c["layers"] += chunks
    c["recompute-method"], c["recompute-layers"] = "uniform", 1


UNFUSED = ["attention", "dropout"]
UNFUSED_SEEN = 61


def pick_unfused(r, c):
    """Attention in separate kernels, which Transformer Engine does not run with context parallelism."""
    c["attention"], c["dropout"] = "unfused", r.choice(("on", "off", "off"))
    c["cp"], c["cp-comm"] = 1, "p2p"
    c["micro-batch"] = r.choice((1, 1, 2, 4))
    c["seq-len"] = r.choice([s for s in (512, 1024, 2048, 4096, 8192, 16384) if c["micro-batch"] * s <= 16384])
    return c


def arguments(c):
    """Of Megatron-Core's configuration."""
    from megatron.core.transformer.enums import AttnBackend
    dropout = 0.1 if c["dropout"] == "on" else 0.0
    return dict(attention_backend=AttnBackend.unfused, hidden_dropout=dropout, attention_dropout=dropout)


def softmax_and_dropout_of_cuda(ledger):
    """SoftMax.cu's product of the gradient and the result; a mask of a byte beside what is left of dropout."""
    import torch
    import torch.nn.functional as F
    backward = torch.ops.aten._softmax_backward_data.default

    def dropout(x, p=0.5, training=True, inplace=False):
        return torch.native_dropout(x, p, True)[0] if training and p > 0 else x

    F.dropout = dropout
    ledger.workspace = lambda operation, args: args[1].numel() * args[1].element_size() if operation is backward else 0
