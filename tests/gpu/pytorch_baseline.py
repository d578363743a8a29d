#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same Llama, batch and precision in PyTorch (compiled, fused AdamW, attention by SDPA): tokens per second and memory
on one GPU, to be held against `p4d-train --device cuda`.

bf16 parameters and activations, fp32 master weights, moments and gradients, as p4d-train has them. With --parity DIR the
losses of its steps are what matters: the model that it begins with (config.json, model.safetensors) and the data
(tokens.bin: one global batch, so that each step sees the same) are left in DIR for `p4d-train --init-from DIR --data
DIR/tokens.bin`, the losses in DIR/losses, a line for each step.
"""
import argparse
import ctypes
import json
import os
import statistics
import struct
import sys
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    sys.exit("pytorch_baseline: needs PyTorch (pip install torch)")

# hidden, ffn, layers, heads, KV heads, vocabulary, tied
MODELS = {
    "llama3.2-1b": (2048, 8192, 16, 32, 8, 128256, True),
    "llama3.2-3b": (3072, 8192, 28, 24, 8, 128256, True),
    "llama3-8b": (4096, 14336, 32, 32, 8, 128256, False),
    "tiny": (64, 128, 2, 4, 2, 257, False),
}

KERNELS = {
    "cudnn": [SDPBackend.CUDNN_ATTENTION],
    "flash": [SDPBackend.FLASH_ATTENTION],
    "best": [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION],
}


def rotate(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)


class Layer(nn.Module):
    def __init__(self, hidden, ffn, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, hidden // heads
        self.attention_norm, self.ffn_norm = nn.RMSNorm(hidden, eps=1e-5), nn.RMSNorm(hidden, eps=1e-5)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * self.d, bias=False)
        self.output = nn.Linear(heads * self.d, hidden, bias=False)
        self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, cosine, sine):
        batch, length, _ = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, -1, self.d).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        x = x + self.output(o.transpose(1, 2).reshape(batch, length, -1))
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, hidden, ffn, layers, heads, kv_heads, vocab, tied, length):
        super().__init__()
        self.embedding = nn.Embedding(vocab, hidden)
        self.layers = nn.ModuleList(Layer(hidden, ffn, heads, kv_heads) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, eps=1e-5)
        self.head = nn.Linear(hidden, vocab, bias=False)
        if tied:
            self.head.weight = self.embedding.weight
        d = hidden // heads
        angle = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(0, d, 2).float() / d))
        self.register_buffer("cosine", angle.cos(), persistent=False)
        self.register_buffer("sine", angle.sin(), persistent=False)
        self.loss = self.cross_entropy

    def cross_entropy(self, x, labels):
        return F.cross_entropy(self.head(self.norm(x)).float().flatten(0, 1), labels.flatten())

    def forward(self, tokens, labels):
        x = self.embedding(tokens)
        cosine, sine = self.cosine.to(x.dtype), self.sine.to(x.dtype)
        for layer in self.layers:
            x = layer(x, cosine, sine)
        return self.loss(x, labels)

    def compile_parts(self):
        """One layer, which serves for all, and the loss: a minute less than the whole, and as fast."""
        for layer in self.layers:
            layer.compile()
        self.loss = torch.compile(self.cross_entropy)

    def released(self):
        """Its weights by the names that transformers gives them."""
        yield "model.embed_tokens", self.embedding.weight
        yield "model.norm", self.norm.weight
        if self.head.weight is not self.embedding.weight:
            yield "lm_head", self.head.weight
        for i, layer in enumerate(self.layers):
            at = f"model.layers.{i}."
            kv = layer.kv_heads * layer.d
            q, k, v = layer.qkv.weight.split((layer.heads * layer.d, kv, kv))
            gate, up = layer.gate_up.weight.chunk(2)
            yield from (
                (at + "input_layernorm", layer.attention_norm.weight),
                (at + "post_attention_layernorm", layer.ffn_norm.weight),
                (at + "self_attn.q_proj", q),
                (at + "self_attn.k_proj", k),
                (at + "self_attn.v_proj", v),
                (at + "self_attn.o_proj", layer.output.weight),
                (at + "mlp.gate_proj", gate),
                (at + "mlp.up_proj", up),
                (at + "mlp.down_proj", layer.down.weight),
            )


def bytes_of(tensor):
    tensor = tensor.detach().cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def write_model(model, shape, length, folder):
    hidden, ffn, layers, heads, kv_heads, vocab, tied = shape
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "max_position_embeddings": length,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
    }
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    header, at = {}, 0
    for name, weight in model.released():
        end = at + 2 * weight.numel()
        header[name + ".weight"] = {"dtype": "BF16", "shape": list(weight.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, weight in model.released():
            file.write(bytes_of(weight))


def write_tokens(tokens, folder):
    """As llm.c has them: 256 words of header, then 32 bits each."""
    header = [20240801, 7, tokens.numel()] + 253 * [0]
    with open(os.path.join(folder, "tokens.bin"), "wb") as file:
        file.write(struct.pack("<256i", *header) + bytes_of(tokens.int()))


class Master:
    """fp32 copies that the optimizer works on, and fp32 sums of the gradients of micro-batches."""

    def __init__(self, model, fused):
        self.parameters = list(model.parameters())
        self.copies = [p.detach().float().clone().requires_grad_() for p in self.parameters]
        for copy in self.copies:
            copy.grad = torch.zeros_like(copy)
        matrices = [copy for copy in self.copies if copy.dim() > 1]
        others = [copy for copy in self.copies if copy.dim() == 1]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=fused)

    def collect(self):
        for parameter, copy in zip(self.parameters, self.copies):
            copy.grad += parameter.grad
            parameter.grad = None

    def step(self):
        torch.nn.utils.clip_grad_norm_(self.copies, 1.0)
        self.optimizer.step()
        for parameter, copy in zip(self.parameters, self.copies):
            parameter.data.copy_(copy.data)
            copy.grad.zero_()


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--model", choices=MODELS, default="llama3.2-1b")
    args.add_argument("--seq-len", type=int, default=4096)
    args.add_argument("--micro-batch", type=int, default=4)
    args.add_argument("--global-batch", type=int, default=16)
    args.add_argument("--steps", type=int, default=8)
    args.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to see that it runs, not how fast")
    args.add_argument("--attention", choices=KERNELS, default="best", help="best: cudnn, else flash")
    args.add_argument("--compile", choices=("parts", "whole", "off"), default="parts", help="parts: a layer, and the loss")
    args.add_argument("--layers", type=int, help="fewer than the model has")
    args.add_argument("--parity", metavar="DIR", help="leave model, data and losses there")
    args = args.parse_args()
    cuda = args.device == "cuda"
    if cuda and not torch.cuda.is_available():
        sys.exit("pytorch_baseline: PyTorch sees no GPU; --device cpu --model tiny tries the program out")
    if args.global_batch % args.micro_batch:
        sys.exit("pytorch_baseline: --global-batch is not a multiple of --micro-batch")

    torch.manual_seed(1)
    hidden, ffn, layers, heads, kv_heads, vocab, tied = MODELS[args.model]
    shape = hidden, ffn, args.layers or layers, heads, kv_heads, vocab, tied
    model = Llama(*shape, args.seq_len)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    model = model.to(args.device).bfloat16()
    parts = args.global_batch // args.micro_batch
    stream = torch.randint(vocab, (args.global_batch * args.seq_len + 1,))
    if args.parity:
        os.makedirs(args.parity, exist_ok=True)
        write_model(model, shape, args.seq_len, args.parity)
        write_tokens(stream, args.parity)
    tokens = stream.unfold(0, args.seq_len + 1, args.seq_len).view(parts, args.micro_batch, -1).to(args.device)
    master = Master(model, fused=cuda)
    run = torch.compile(model) if args.compile == "whole" else model
    if args.compile == "parts":
        model.compile_parts()
    seconds, losses = [], []
    if cuda:
        chosen = sdpa_kernel(KERNELS[args.attention], set_priority=True)
        chosen.__enter__()  # for as long as `chosen` lives
    for _ in range(args.steps):
        began = time.perf_counter()
        loss = 0.0
        for part in tokens:
            one = run(part[:, :-1], part[:, 1:]) / parts
            one.backward()
            master.collect()
            loss = loss + one.detach()
        master.step()
        loss = loss.item()  # waits for the GPU
        losses.append(loss)
        seconds.append(time.perf_counter() - began)
    if args.parity:
        with open(os.path.join(args.parity, "losses"), "w") as file:
            file.writelines(f"{one}\n" for one in losses)
    measured = seconds[len(seconds) // 2 :]  # the first ones compile
    print(
        json.dumps(
            {
                "model": args.model,
                "torch": torch.__version__,
                "gpu": torch.cuda.get_device_name() if cuda else None,
                "seq_len": args.seq_len,
                "micro_batch": args.micro_batch,
                "global_batch": args.global_batch,
                "loss": loss,
                "tokens_per_second": args.global_batch * args.seq_len / statistics.median(measured),
                "allocated_bytes": torch.cuda.max_memory_allocated() if cuda else None,
                "reserved_bytes": torch.cuda.max_memory_reserved() if cuda else None,
            }
        )
    )


if __name__ == "__main__":
    main()
