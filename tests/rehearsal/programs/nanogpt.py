# SPDX-License-Identifier: Apache-2.0
# torch: 2.4 today
# case: alone
# rehearse: --gpu h100-80gb
# want: verdict=pass phase=backward
# case: ddp
# rehearse: --nodes 2 --gpus-per-node 4 --ranks first,last
# want: verdict=pass
# case: float16
# rehearse: --gpu a100-40gb -- --dtype=float16
# want: verdict=pass
# case: too-large
# 400 x 512 x 16384 logits, in bf16 and in fp32, and the gradient of the latter: 31 GiB, beside activations of 16 GiB
# rehearse: --gpu a100-40gb -- --batch_size=400
# want: verdict=reject reason="it requested"
"""A GPT as people write it into one train.py: settings at the top that --name=value changes, a GradScaler, a schedule,
weights tied, decay for matrices only, accumulated gradients, DistributedDataParallel where torchrun started it."""
import ast
import inspect
import math
import os
import sys
import time
from contextlib import nullcontext

import torch
import torch.nn as nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

n_layer, n_head, n_embd, block_size, vocab_size = 6, 8, 512, 512, 16384
batch_size, gradient_accumulation_steps, max_iters = 8, 4, 50
learning_rate, weight_decay, grad_clip, warmup_iters = 6e-4, 1e-1, 1.0, 10
dtype = "bfloat16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "float16"
compile = 0
for word in sys.argv[1:]:
    name, value = word[2:].split("=")
    globals()[name] = type(globals()[name])(value if isinstance(globals()[name], str) else ast.literal_eval(value))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.out = nn.Linear(n_embd, n_embd, bias=False)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (z.view(b, t, n_head, c // n_head).transpose(1, 2) for z in self.qkv(x).split(n_embd, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2, self.attn = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd), Attention()
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h, self.ln_f = nn.ModuleList([Block() for _ in range(n_layer)]), nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


ddp = int(os.environ.get("RANK", -1)) != -1
device = "cuda"
master = True
if ddp:
    init_process_group(backend="nccl")
    device = "cuda:%s" % os.environ["LOCAL_RANK"]
    torch.cuda.set_device(device)
    master = int(os.environ["RANK"]) == 0
    assert gradient_accumulation_steps % int(os.environ["WORLD_SIZE"]) == 0 or gradient_accumulation_steps < 8
torch.manual_seed(1337 + int(os.environ.get("RANK", 0)))
torch.backends.cuda.matmul.allow_tf32 = True
autocast = torch.amp.autocast(device_type="cuda", dtype=getattr(torch, dtype)) if dtype != "float32" else nullcontext()
data = torch.randint(0, vocab_size, (1 << 20,), dtype=torch.int32)


def get_batch():
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i:i + block_size].long() for i in ix])
    y = torch.stack([data[i + 1:i + 1 + block_size].long() for i in ix])
    return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)


model = GPT().to(device)
scaler = torch.amp.GradScaler("cuda", enabled=dtype == "float16")
matrices = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
fused = {"fused": True} if "fused" in inspect.signature(torch.optim.AdamW).parameters else {}
optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}],
                              lr=learning_rate, betas=(0.9, 0.95), **fused)
if compile:
    model = torch.compile(model)
if ddp:
    model = DDP(model, device_ids=[int(os.environ["LOCAL_RANK"])])

x, y = get_batch()
for iteration in range(max_iters):
    began = time.time()
    lr = learning_rate * min(1.0, (iteration + 1) / warmup_iters) * 0.5 * (1 + math.cos(math.pi * iteration / max_iters))
    for group in optimizer.param_groups:
        group["lr"] = lr
    for micro in range(gradient_accumulation_steps):
        if ddp:
            model.require_backward_grad_sync = micro == gradient_accumulation_steps - 1
        with autocast:
            logits, loss = model(x, y)
            loss = loss / gradient_accumulation_steps
        x, y = get_batch()
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if master:
        print("iter %d: loss %.4f, %.0f ms" % (iteration, loss.item(), 1000 * (time.time() - began)))
if ddp:
    destroy_process_group()
