#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of one GPU that runs transformers' modules, from their own code, for test_transformers_memory.c.

    pip install torch==2.15.* transformers==5.23.* peft accelerate bitsandbytes deepspeed==0.19.8
    for seed in 1 2 3 4 5 6; do tests/parity/make_transformers_memory.py --seed $seed; done
    for seed in 1 2 3; do tests/parity/make_transformers_memory.py --seed $seed --framework deepspeed; done
    M=mixtral,qwen3_moe,olmoe,qwen2_moe,deepseek_v2,deepseek_v3                                 # transformers_experts.csv
    for seed in 11 12; do for f in ddp fsdp; do tests/parity/make_transformers_memory.py --experts --models $M \\
        --seed $seed --count 25 --framework $f; done; done   # and 21 to 24 with deepspeed
    for f in "ddp --seed 31 --count 24" "fsdp --seed 32 --count 20" "deepspeed --seed 33 --count 20" "deepspeed --seed 34 --count 24"; do
        tests/parity/make_transformers_memory.py --experts --models gpt_oss --framework $f; done
    for m in "mixtral,qwen3_moe,deepseek_v2,deepseek_v3 --seed 25" "gpt_oss --seed 35"; do
        tests/parity/make_transformers_memory.py --experts --framework deepspeed --partitioned --resident --count 8 --models $m; done
    for m in "ddp --seed 41 --count 24" "fsdp --seed 42 --count 16" "deepspeed --seed 43 --count 14"; do     # transformers_hybrids.csv
        tests/parity/make_transformers_memory.py --hybrids --models bamba,granitemoehybrid,nemotron_h --framework $m; done
    for m in "qwen3_next --framework ddp --seed 51" "qwen3_next --framework fsdp --seed 52"; do
        tests/parity/make_transformers_memory.py --hybrids --count 12 --models $m; done
    for m in "qwen3_next --framework deepspeed --seed 53 --count 8" "bamba,granitemoehybrid,nemotron_h --framework ddp --seed 74 --count 10" \\
        "nemotron_3 --framework ddp --seed 61 --count 6" "nemotron_3 --framework fsdp --seed 62 --count 5" \\
        "nemotron_3 --framework deepspeed --resident --seed 63 --count 6" "jamba --framework ddp --seed 55 --count 10" "jamba --framework fsdp --seed 56 --count 10" "jamba --framework deepspeed --seed 57 --count 5"; do
        tests/parity/make_transformers_memory.py --hybrids --models $m; done
    for f in "ddp --seed 91 --count 24" "deepspeed --seed 92 --count 16" "fsdp --seed 93 --count 10"; do
        tests/parity/make_transformers_memory.py --dropout --framework $f; done                 # transformers_dropout.csv
    for seed in 221 222 223; do tests/parity/make_transformers_memory.py --evaluation --framework fsdp --seed $seed; done
    tests/parity/make_transformers_memory.py --evaluation --flat --framework fsdp --seed 341 --count 14
    for seed in 211 213 214; do tests/parity/make_transformers_memory.py --evaluation --framework deepspeed \\
        --seed $seed --count 16 $([ $seed = 214 ] || echo --dropout); done                     # transformers_evaluation.csv, too
    for seed in 301 302 303 304 305 306; do tests/parity/make_transformers_memory.py --flat --framework fsdp --seed $seed --count 30; done
    tests/parity/make_transformers_memory.py --flat --experts --models mixtral,qwen3_moe,olmoe --framework fsdp --seed 331 --count 12
    for seed in 321 322; do tests/parity/make_transformers_memory.py --kept --framework fsdp --seed $seed --count 16; done   # transformers_units.csv
    tests/parity/make_transformers_memory.py --overlapped --framework deepspeed --seed 401 --count 24    # transformers_overlap.csv
    tests/parity/make_transformers_memory.py --flat --ahead --framework fsdp --seed 411 --count 16    # transformers_ahead.csv
    for m in "ddp --seed 67 --count 8" "fsdp --seed 68 --count 6" "deepspeed --resident --seed 69 --count 6"; do   # without qwen3_next's
        tests/parity/make_transformers_memory.py --hybrids --lora --models bamba,granitemoehybrid,qwen3_next --framework $m; done
    for m in "ddp --seed 64 --count 10" "fsdp --seed 66 --count 6" "deepspeed --resident --seed 65 --count 6"; do
        tests/parity/make_transformers_memory.py --hybrids --evaluation --framework $m; done   # transformers_hybrids_evaluation.csv
    M=arcee,hunyuan_v1_dense,apertus,ernie4_5                                # transformers_families.csv, not all in ten minutes
    for m in "ddp --seed 701 --count 16" "fsdp --seed 702 --count 8" "deepspeed --seed 703 --count 6"; do
        tests/parity/make_transformers_memory.py --models $M --framework $m; done
    tests/parity/make_transformers_memory.py --models ernie4_5,apertus --framework ddp --seed 704 --count 10     # the former's
    M=granitemoe,hunyuan_v1_moe,ernie4_5_moe,phimoe
    for m in "ddp --seed 14 --count 10" "fsdp --seed 15 --count 5" "deepspeed --resident --seed 16 --count 4"; do
        tests/parity/make_transformers_memory.py --experts --models $M --framework $m; done
    tests/parity/make_transformers_memory.py --experts --models hunyuan_v1_moe --framework ddp --seed 17 --count 3
    for m in "ddp --seed 18" "fsdp --seed 19" "deepspeed --seed 20"; do                       # transformers_hybrids.csv
        tests/parity/make_transformers_memory.py --hybrids --models lfm2 --count 6 --framework $m; done
    for m in "ddp --seed 501 --count 18" "fsdp --seed 502 --count 9" "deepspeed --seed 503 --count 9" "ddp --seed 521 --count 12"; do
        tests/parity/make_transformers_memory.py --loss trl-fused --framework $m; done         # transformers_trl.csv, trl==1.16.0
    for m in "ddp --seed 511 --count 18" "fsdp --seed 512 --count 9" "deepspeed --seed 513 --count 9" "ddp --seed 522 --count 12"; do
        tests/parity/make_transformers_memory.py --loss trl --framework $m; done               # and trl==1.10.0; not all end in ten minutes
    for m in "ddp --seed 601 --count 6" "deepspeed --seed 602 --count 4"; do                                 # transformers_classes.csv:
        tests/parity/make_transformers_memory.py --parts --models gemma3 --framework $m; done               # transformers==4.57.1
    for m in "ddp --seed 611 --count 16" "deepspeed --models gemma3,llava,paligemma --seed 612 --count 6"; do
        tests/parity/make_transformers_memory.py --parts --framework $m; done                  # and transformers==4.51.3
    tests/parity/make_transformers_memory.py --compare tests/data/transformers_memory.csv

transformers' models, PEFT's adapters, bitsandbytes' 4-bit layers, accelerate's mixed precision, FSDP and DeepSpeed's
engine run through two training steps on a GPU that only counts (counted_gpu.py, kernels_of_cuda.py). Nothing needs a
GPU or a driver. The same seed gives the same rows, but for 1 to 5, which an earlier pick() drew. Seeds from 70 on vary the published sizes. The peak is that of the second step; the first has created the
optimizer's states. With ZeRO 1 and 2 ranks hold different amounts: a row is that of the largest of a few that may hold most. looked_at: whether p4d's formulas were written with the row in view (before), mended with it (while),
or compared with it only (after).

optimizer-foreach=on in --show: AdamW that is not fused. Of 'gemma3_text' with ZeRO-2, seed 503, p4d counts a third less: masks of sliding
windows that are shorter than the sequence, which has nothing to do with the loss; that row is not in transformers_trl.csv.

--show 'model-type=llama layers=2 ...' runs one configuration and lists what is live at its peak.
"""
import argparse
import contextlib
import csv
import json
import math
import os
import random
import signal
import sys
import warnings

warnings.filterwarnings("ignore")
os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error", DS_ACCELERATOR="cuda", DS_BUILD_OPS="0", USE_HUB_KERNELS="0")
import counted_gpu
import kernels_of_cuda
import transformers_classes as parts
import transformers_experts as sparse
import transformers_hybrids as hybrid

SHAPE = ("hidden", "ffn", "heads", "kv-heads", "head-dim", "vocab", "tied", "layers")
MODELS = {  # as published; the last number is that of layers
    "llama": [(2048, 8192, 32, 8, 64, 128256, "on", 16), (4096, 14336, 32, 8, 128, 128256, "off", 32),
              (4096, 11008, 32, 32, 128, 32000, "off", 32), (3072, 8192, 24, 8, 128, 128256, "on", 28),
              (2048, 5632, 32, 4, 64, 32000, "off", 22), (8192, 28672, 64, 8, 128, 128256, "off", 80)],
    "mistral": [(4096, 14336, 32, 8, 128, 32768, "off", 32), (5120, 32768, 32, 8, 128, 131072, "off", 40)],
    "qwen2": [(3584, 18944, 28, 4, 128, 152064, "off", 28), (896, 4864, 14, 2, 64, 151936, "on", 24),
              (1536, 8960, 12, 2, 128, 151936, "on", 28)],
    "qwen3": [(4096, 12288, 32, 8, 128, 151936, "off", 36), (1024, 3072, 16, 8, 128, 151936, "on", 28),
              (2560, 9728, 32, 8, 128, 151936, "on", 36)],
    "gemma": [(2048, 16384, 8, 1, 256, 256000, "on", 18), (3072, 24576, 16, 16, 256, 256000, "on", 28)],
    "gemma2": [(2304, 9216, 8, 4, 256, 256000, "on", 26), (3584, 14336, 16, 8, 256, 256000, "on", 42)],
    "gemma3_text": [(1152, 6912, 4, 1, 256, 262144, "on", 26), (2560, 10240, 8, 4, 256, 262208, "on", 34)],
    "phi3": [(3072, 8192, 32, 32, 96, 32064, "off", 32), (5120, 17920, 40, 10, 128, 100352, "off", 40)],
    "phi": [(2560, 10240, 32, 32, 80, 51200, "off", 32), (2048, 8192, 32, 32, 64, 51200, "off", 24)],
    "olmo": [(4096, 11008, 32, 32, 128, 50304, "off", 32)],
    "olmo2": [(4096, 11008, 32, 32, 128, 100352, "off", 32), (2048, 8192, 16, 16, 128, 100352, "off", 16)],
    "smollm3": [(2048, 11008, 16, 4, 128, 128256, "on", 36)],
    "granite": [(2048, 8192, 32, 8, 64, 49155, "on", 40), (4096, 12800, 32, 8, 128, 49155, "on", 40)],
    "starcoder2": [(3072, 12288, 24, 2, 128, 49152, "on", 30), (4608, 18432, 36, 4, 128, 49152, "on", 32)],
    "gpt_neox": [(2048, 8192, 8, 8, 256, 50304, "off", 16), (4096, 16384, 32, 32, 128, 50432, "off", 32)],
    "opt": [(2048, 8192, 32, 32, 64, 50272, "on", 24), (4096, 16384, 32, 32, 128, 50272, "on", 32)],
    "falcon": [(4544, 18176, 71, 1, 64, 65024, "on", 32)],
    "mpt": [(4096, 16384, 32, 32, 128, 50432, "on", 32)],
    "bloom": [(1024, 4096, 16, 16, 64, 250880, "on", 24), (4096, 16384, 32, 32, 128, 250880, "on", 30)],
    "stablelm": [(2048, 5632, 32, 32, 64, 100352, "off", 24), (2560, 6912, 32, 32, 80, 50304, "off", 32)],
    "cohere": [(8192, 22528, 64, 64, 128, 256000, "on", 40)],
    "cohere2": [(4096, 14336, 32, 8, 128, 256000, "on", 32)],
    "nemotron": [(3072, 9216, 24, 8, 128, 256000, "off", 32)],
    "gpt2": [(768, 3072, 12, 12, 64, 50257, "on", 12), (1600, 6400, 25, 25, 64, 50257, "on", 48)],
    "gptj": [(4096, 16384, 16, 16, 256, 50400, "off", 28)],
    "glm4": [(4096, 13696, 32, 2, 128, 151552, "off", 40)],
    # a vision model's vocabulary is its labels; its length, patches of 16 x 16 of an image
    "bert": [(768, 3072, 12, 12, 64, 30522, "on", 12), (1024, 4096, 16, 16, 64, 30522, "on", 24)],
    "vit": [(768, 3072, 12, 12, 64, 1000, "off", 12), (1024, 4096, 16, 16, 64, 1000, "off", 24)],
}
LATER = {  # drawn only where --models names them, so that seeds give the rows that they gave
    "arcee": [(2560, 18432, 20, 4, 128, 128004, "off", 36)],
    "hunyuan_v1_dense": [(4096, 14336, 32, 8, 128, 128167, "on", 32)],
    "apertus": [(4096, 21504, 32, 8, 128, 131072, "off", 32), (8192, 43008, 64, 8, 128, 131072, "off", 80)],
    "ernie4_5": [(1024, 3072, 16, 2, 128, 103424, "on", 18)],
}
CLASSES = {"bert": "AutoModelForMaskedLM", "vit": "AutoModelForImageClassification", **parts.CLASSES}
ENCODERS = {"bert", "vit"}  # of which only full fine-tuning is run
# p4d's names of what is not its own row of architectures.def
AS_P4D = {"hunyuan_v1_dense": ("hunyuan", "", ""), "ernie4_5": ("ernie4.5", "", ""), "gemma3_text": ("gemma3", "", ""), "gpt_neox": ("gpt-neox", "", ""), "mistral": ("llama", "", ""),
          "qwen2": ("llama", "qkv", ""), "qwen3": ("llama", "", "on"), "smollm3": ("llama", "", "")}
OPTIONS = ["model-type", "architecture", "bias", "qk-norm", *SHAPE, "seq-len", "micro-batch", "micro-batches", "framework", "shard-degree", "zero-stage",
           "offload", "finetune", "lora-rank", "lora-targets", "adapter-dtype", "param-dtype", "autocast", "optimizer",
           "recompute", "attention", "packing"]
UNITS = ["fsdp-version", "backward-prefetch", "reshard-after-forward", "orig-params"]
BUCKETS = ["zero-bucket", "overlap-dp"]
AHEAD = ["forward-prefetch"]
RESULTS = ["phase", "allocated", "parameters", "gradients", "states", "activations"]
EAGER_ONLY = {"gemma2", "bloom", "gptj", "mpt"}  # of these, transformers has no other attention here
NO_KV_HEADS = {"gpt_neox", "opt", "mpt", "bloom", "gpt2", "gptj"}


def named_by_p4d(kind):
    return dict(zip(("architecture", "bias", "qk-norm"), {**AS_P4D, **sparse.AS_P4D, **hybrid.AS_P4D, **parts.AS_P4D}.get(kind, (kind, "", ""))))


def pick(r, framework, kinds, lora=False):
    """One random configuration, by p4d's names of options."""
    c = {"model-type": r.choice(kinds)}
    c.update(named_by_p4d(c["model-type"]))
    if c["model-type"] in sparse.MODELS:
        dense, of_experts = sparse.sizes(r, c["model-type"])
        c.update(of_experts)
        c.update(zip(SHAPE, dense))
    elif c["model-type"] in hybrid.MODELS:
        dense, of_states = r.choice(hybrid.MODELS[c["model-type"]])
        c.update((k, v) for k, v in zip(hybrid.OPTIONS[1:], of_states) if v)
        c.update(dict.fromkeys(sparse.SHAPE, 0), **hybrid.EXPERTS.get(c["model-type"], {}))
        c.update(zip(SHAPE, dense))
    else:
        c.update(zip(SHAPE, r.choice({**MODELS, **LATER, **parts.MODELS}[c["model-type"]])))
    # half of them short, where the ends of the model decide
    c["layers"] = min(c["layers"], r.choice((2, 3, 4, 4, 6, 8, 12, 16)))
    if c["model-type"] in hybrid.MODELS:
        c["layer-pattern"] = hybrid.pattern(r, c)
    if c.get("dense-layers"):
        c["dense-layers"] = min(c["dense-layers"], c["layers"] - 1)
    c["seq-len"] = r.choice((512, 1024, 2048, 2048, 4096, 4096, 8192, 16384))
    sizes = (1, 1, 2, 4, 8)
    if c["model-type"] in ENCODERS:
        c["seq-len"] = 512 if c["model-type"] == "bert" else r.choice((196, 196, 576))
        sizes = (8, 16, 32, 64)
    c["micro-batch"] = r.choice([b for b in sizes if b * c["seq-len"] <= 32768])
    c["micro-batches"] = r.choice((1, 1, 2))
    c["framework"] = framework
    c["shard-degree"] = r.choice((1, 1, 1, 8)) if c["framework"] == "ddp" else r.choice((2, 4, 8, 16, 64))
    c["zero-stage"] = r.choice((0, 1, 2, 2, 3, 3, 3)) if c["framework"] == "deepspeed" else 0
    c["offload"] = r.choice(("none", "none", "optimizer")) if c["zero-stage"] >= 2 else "none"
    c["finetune"] = r.choice(("full", "full", "lora", "lora", "qlora")) if c["framework"] == "ddp" else "full"
    if c["finetune"] == "qlora" and c["model-type"] in ("gpt2", "falcon"):
        c["finetune"] = "lora"  # their layers are classes of their own, which kernels_of_cuda does not replace
    if c["framework"] != "ddp" and r.random() < 0.3:
        c["finetune"] = "lora"
    if c["model-type"] in ENCODERS or c["model-type"] in hybrid.MODELS:
        c["finetune"] = "lora" if lora else "full"
    adapters = c["finetune"] != "full"
    c["lora-rank"] = r.choice((8, 16, 32, 64, 128)) if adapters else 0
    c["lora-targets"] = r.choice(("all-linear", "all-linear", "attention")) if adapters else "none"
    if adapters and (c["model-type"] == "gpt2" or c["model-type"] in hybrid.MODELS):
        c["lora-targets"] = "all-linear"  # c_proj is a name of attention's and of the feed-forward part's
    c["adapter-dtype"] = r.choice(("fp32", "fp32", "bf16")) if adapters else "none"
    c["param-dtype"] = r.choice(("bf16", "bf16", "fp32"))
    c["autocast"] = "on" if c["param-dtype"] == "fp32" or r.random() < 0.6 else "off"
    if c["framework"] != "ddp":
        c["autocast"] = "off"
        c["param-dtype"] = "bf16" if c["framework"] == "deepspeed" or adapters and r.random() < 0.7 else "fp32"
    elif c["finetune"] == "qlora" and c["param-dtype"] == "fp32":
        c["autocast"] = "on"
    if c["framework"] == "deepspeed" and adapters:
        c["adapter-dtype"] = "bf16"  # the engine casts the whole model
    elif c["finetune"] == "qlora" or c["param-dtype"] == "fp32" and adapters or c["framework"] == "fsdp" and adapters:
        c["adapter-dtype"] = "fp32"  # PEFT makes adapters in the type of the layer's own weights, or in fp32
    c["optimizer"] = "adamw"
    if c["framework"] == "ddp":
        c["optimizer"] = r.choice(("adamw", "adamw", "adamw", "adamw-8bit", "sgd", "adafactor"))
    elif c["framework"] == "fsdp":
        c["optimizer"] = r.choice(("adamw", "adamw", "adamw", "sgd"))
    c["recompute"] = r.choice(("none", "full", "full"))
    c["attention"] = "eager" if c["model-type"] in EAGER_ONLY | sparse.EAGER_ONLY else "sdpa"
    if c["attention"] == "eager" and c["seq-len"] > 4096:
        c["seq-len"] = 4096
    if c["attention"] == "sdpa" and c["seq-len"] <= 2048 and c["model-type"] not in ENCODERS:
        c["attention"] = r.choice(("sdpa", "sdpa", "sdpa", "eager"))
    c["packing"] = r.choice(("on", "on", "off")) if c["micro-batch"] > 1 and c["model-type"] != "vit" else "on"
    if c["model-type"] in hybrid.MODELS:
        c["packing"], c["attention"] = "on", "sdpa"
    return c


FREE = ("llama", "qwen3", "gemma3_text", "olmo2", "smollm3", "granite", "cohere2", "nemotron", "arcee", "hunyuan_v1_dense", "ernie4_5")  # any head size and sharing


def varied(r, c):
    """The same with sizes that nobody has published: heads, vocabularies, tied or not, batches, offloading."""
    c["vocab"] = r.randrange(8000, 262144)
    c["ffn"] = c["ffn"] * r.choice((2, 3, 4, 5)) // 4 // 8 * 8
    if c["model-type"] == "mpt":  # has a whole ratio
        c["ffn"] = max(1, c["ffn"] // c["hidden"]) * c["hidden"]
    if c["model-type"] == "bloom":  # has no other
        c["ffn"] = 4 * c["hidden"]
    if c["model-type"] in FREE:
        c["heads"] = r.choice((8, 12, 16, 24, 32))
        c["kv-heads"] = r.choice([k for k in (1, 2, 4, 8, c["heads"]) if c["heads"] % k == 0])
        c["head-dim"] = r.choice((64, 96, 128, 256))
        c["tied"] = r.choice(("on", "off"))
        if c["model-type"] in ("olmo2", "granite"):
            c["head-dim"] = c["hidden"] // c["heads"] // 8 * 8
            c["hidden"] = c["heads"] * c["head-dim"]
    c["seq-len"] = r.choice((1000, 2048, 4096, 8192, 16384, 32768))
    if c["attention"] == "eager":
        c["seq-len"] = min(c["seq-len"], 2048)
    if c["model-type"] == "bert":
        c["seq-len"] = r.choice((128, 384, 512))
    elif c["model-type"] == "vit":
        c["seq-len"] = r.choice((196, 256, 1024))
    c["micro-batch"] = r.choice([b for b in range(1, 9) if b * c["seq-len"] <= 32768])
    c["micro-batches"] = r.choice((1, 2, 4))
    if c["micro-batch"] == 1:
        c["packing"] = "on"
    if c["zero-stage"] == 3:
        c["offload"] = r.choice(("none", "optimizer", "optimizer+params"))
    return c


def kept(_, c):
    """FSDP2 whose parameters stay gathered after the forward pass."""
    c.update({"fsdp-version": 2, "reshard-after-forward": "off"})
    return c


def flattened(r, c):
    """The same with FSDP1, as accelerate prepares it: mixed precision, and what is trained in fp32."""
    c.update({"fsdp-version": 1, "autocast": "on", "backward-prefetch": r.choice(("on", "on", "off")),
              "reshard-after-forward": r.choice(("on", "on", "on", "off")), "orig-params": r.choice(("on", "off"))})
    if c["finetune"] == "full":
        c["param-dtype"] = "fp32"
    return c


def overlapped(r, c):
    """ZeRO 1 and 2 that reduce a bucket of gradients while another one is filled, after any number of micro-batches."""
    c.update({"zero-bucket": r.choice((500000000, 500000000, 200000000, 50000000)), "overlap-dp": "on",
              "micro-batches": r.choice((1, 1, 2, 4))})
    return c


def configured(c):
    """transformers' configuration of the model."""
    import transformers
    kind = c["model-type"]
    d = dict(hidden_size=c["hidden"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
             intermediate_size=c["ffn"], vocab_size=c["vocab"], tie_word_embeddings=c["tied"] == "on",
             max_position_embeddings=max(c["seq-len"], 2048), pad_token_id=0, bos_token_id=1, eos_token_id=2)
    if kind not in NO_KV_HEADS:
        d["num_key_value_heads"] = c["kv-heads"]
        d["head_dim"] = c["head-dim"]
    if kind in sparse.MODELS:
        d = sparse.configured(c, d)
    if kind in hybrid.MODELS:
        d = hybrid.configured(c, d)
    if kind in ("phi", "stablelm", "falcon", "olmo", "phi3", "apertus"):
        d.pop("head_dim", None)
    if kind == "opt":
        d["ffn_dim"] = d.pop("intermediate_size")
        d["word_embed_proj_dim"] = c["hidden"]
    elif kind == "falcon":
        d.pop("num_key_value_heads"), d.pop("intermediate_size")
        d.update(multi_query=True, new_decoder_architecture=False, parallel_attn=True, bias=False, ffn_hidden_size=c["ffn"])
    elif kind == "mpt":
        d = dict(d_model=c["hidden"], n_layers=c["layers"], n_heads=c["heads"], vocab_size=c["vocab"],
                 max_seq_len=max(c["seq-len"], 2048), expansion_ratio=c["ffn"] // c["hidden"])
    elif kind == "bloom":
        d = dict(hidden_size=c["hidden"], n_layer=c["layers"], n_head=c["heads"], vocab_size=c["vocab"])
    elif kind == "bert":
        d.pop("num_key_value_heads"), d.pop("head_dim")
        d["max_position_embeddings"] = 512
    elif kind == "vit":
        d = dict(hidden_size=c["hidden"], num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
                 intermediate_size=c["ffn"], num_labels=c["vocab"], image_size=16 * math.isqrt(c["seq-len"]))
    elif kind in ("gpt2", "gptj"):
        d = dict(n_embd=c["hidden"], n_layer=c["layers"], n_head=c["heads"], n_inner=c["ffn"], vocab_size=c["vocab"],
                 n_positions=max(c["seq-len"], 2048), tie_word_embeddings=c["tied"] == "on")
        if kind == "gptj":
            d["rotary_dim"] = 64
    elif kind == "nemotron":
        d["hidden_act"] = "relu2"
    elif kind == "mistral":
        d["sliding_window"] = None
    elif kind == "qwen2":
        d.pop("head_dim")
    elif kind == "starcoder2":
        d.pop("head_dim")
        d["use_bias"] = True
    if kind in parts.MODELS:
        config = parts.configured(kind, d)
    else:
        config = transformers.AutoConfig.for_model(hybrid.NAMES.get(kind, kind), **d)
    config.use_cache = False
    config._attn_implementation = c["attention"]
    return config


def made(c):
    import torch
    import transformers
    dtype = torch.float32 if c["param-dtype"] == "fp32" and c["finetune"] != "qlora" else torch.bfloat16
    config = configured(c)
    config.dtype = dtype
    with torch.device("cuda"):
        of = getattr(transformers, CLASSES.get(c["model-type"], "AutoModelForCausalLM"))
        model = of._from_config(config, torch_dtype=dtype) if c["model-type"] in parts.MODELS else of.from_config(config, dtype=dtype)
    if c["model-type"] == "apertus":  # makes numbers of its activations with torch.tensor, which are not on the device yet
        model.to("cuda")
    model.train()
    return model


def with_adapters(c, model):
    """As peft's recipes do: 4-bit layers, the rest in fp32 if asked for, adapters."""
    import peft
    import torch
    if c["finetune"] == "qlora":
        kernels_of_cuda.quantize(model)
        for p in model.parameters():
            p.requires_grad_(False)
            if c["param-dtype"] == "fp32" and p.dtype == torch.bfloat16:  # prepare_model_for_kbit_training
                p.data = p.data.float()
    names = "all-linear"
    if c["lora-targets"] == "attention":
        names = sorted({n.rsplit(".", 1)[-1] for n, m in model.named_modules()
                        if any(w in n for w in ("attn", "attention")) and getattr(m, "weight", None) is not None
                        and m.weight.dim() == 2 and not any(True for _ in m.children()) and "norm" not in n})
    return peft.get_peft_model(
        model, peft.LoraConfig(r=c["lora-rank"], lora_alpha=2 * c["lora-rank"], lora_dropout=0.1 if c.get("lora-dropout") == "on" else 0.0, target_modules=names,
                               task_type="CAUSAL_LM"), autocast_adapter_dtype=c["adapter-dtype"] == "fp32")


def optimizer_of(c, parameters):
    import torch
    if c["optimizer"] == "adamw-8bit":
        import bitsandbytes
        return bitsandbytes.optim.AdamW8bit(parameters, lr=1e-4)
    if c["optimizer"] == "adafactor":
        import transformers
        return transformers.optimization.Adafactor(parameters, lr=1e-4, relative_step=False, scale_parameter=False)
    if c["optimizer"] == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4)
    if c.get("optimizer-foreach") == "on":
        return torch.optim.AdamW(parameters, lr=1e-4, fused=False, foreach=True)
    return torch.optim.AdamW(parameters, lr=1e-4, fused=c["offload"] == "none", foreach=None if c["offload"] == "none" else False)


def batch_of(c):
    import torch
    rows, length = c["micro-batch"], c["seq-len"]
    if c["model-type"] == "vit":
        side = 16 * math.isqrt(length)
        return dict(pixel_values=torch.empty(rows, 3, side, side, device="cuda"),
                    labels=torch.zeros(rows, dtype=torch.long, device="cuda"))
    ids = torch.zeros(rows, length, dtype=torch.long, device="cuda")
    batch = dict(input_ids=ids, labels=torch.zeros_like(ids))
    if c["packing"] == "off" or c["model-type"] in parts.MODELS:
        batch["attention_mask"] = torch.ones_like(ids)
    if c["model-type"] in ("gemma3", "paligemma"):
        batch["token_type_ids"] = torch.zeros_like(ids)
    return batch


def classify_states(ledger, optimizer):
    import torch
    for states in optimizer.state.values():
        for state in states.values():
            if isinstance(state, torch.Tensor):
                ledger.classify(state, "optimizer")


def follow_phases(ledger, model):
    import transformers.loss.loss_utils as losses
    original = losses.LOSS_MAPPING["ForCausalLM"]

    def loss(*args, **kwargs):
        ledger.phase = "loss"
        return original(*args, **kwargs)

    losses.LOSS_MAPPING["ForCausalLM"] = loss


def all_built(ledger):
    ledger.by_class["parameters"] = ledger.by_class.pop("build", 0)
    for entry in ledger.live.values():
        entry[2] = "parameters" if entry[2] == "build" else entry[2]


def trainable(c):
    """The model of a configuration with its adapters, recomputed if asked for."""
    model = made(c)
    if c.get("chunked-loss", "off") != "off":
        import trl_training
        trl_training.prepare(c, model)
    if c["finetune"] != "full":
        model = with_adapters(c, model)
    if c["recompute"] == "full":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if c["finetune"] != "full":
            model.enable_input_require_grads()
    return model


def replicated(c, ledger, model, run):
    """DistributedDataParallel: buckets beside the gradients (reducer.cpp)."""
    if c["shard-degree"] > 1:
        ledger.hold(sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad), "gradients")
    return run


def train_plain(c, ledger):
    """One copy per GPU, as the Trainer and accelerate run it."""
    import accelerate.utils
    import torch
    model = trainable(c)
    all_built(ledger)
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.register_post_accumulate_grad_hook(lambda p: ledger.classify(p.grad, "gradients"))
    optimizer = optimizer_of(c, trained)
    follow_phases(ledger, model)
    run = model
    if c["autocast"] == "on":  # accelerator.py, prepare_model
        run = accelerate.utils.convert_outputs_to_fp32(torch.autocast("cuda", torch.bfloat16)(model.forward))
    run = replicated(c, ledger, model, run)
    for micro_batches in (1, c["micro-batches"]):
        ledger.forget_peak()
        for _ in range(micro_batches):
            ledger.phase = "forward"
            items = {} if c["model-type"] == "qwen2_vl" else {"num_items_in_batch": torch.zeros((), dtype=torch.long, device="cuda")}
            loss = run(**batch_of(c), **items).loss
            ledger.phase = "backward"
            torch.autograd.backward(loss)  # Tensor.backward would suspend Autocast
            del loss
        ledger.phase = "optimizer"
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        classify_states(ledger, optimizer)
        optimizer.zero_grad(set_to_none=True)
    return model, run, optimizer


def evaluate(c, ledger, model, run, optimizer):
    """The most in evaluation, as the Trainer's prediction_step runs it (transformers 5.23: without a cache of keys and values)."""
    import torch
    model.eval()
    rows = dict(c, **{"micro-batch": c["eval-micro-batch"]})
    for _ in range(2):
        ledger.forget_peak()
        with torch.no_grad():
            result = run(**batch_of(rows))
            loss = result.loss.mean().detach()
            del result, loss
    return ledger.peak


def measure(c, show=0):
    """In a process of its own."""
    import torch
    ledger = LEDGER
    ledger.sites = show
    if c["framework"] == "ddp":
        train = train_plain
    elif c["framework"] == "fsdp" and c.get("fsdp-version") == 1:
        import flat_training
        train = flat_training.train
    elif c["framework"] == "fsdp":
        import sharded_training
        train = sharded_training.train_fsdp
    else:
        import sharded_training
        train = sharded_training.train_deepspeed
    import trl_training
    ledger.selected = trl_training.tokens_of(c)
    with ledger, kernels_of_cuda.Autocast(), trl_training.Selected(), torch.autograd.set_multithreading_enabled(False):
        trained = train(c, ledger)
        at_most = ledger.peak, ledger.peak_phase, ledger.peak_classes, ledger.peak_live
        evaluation = evaluate(c, ledger, *trained) if "eval-micro-batch" in c else None
        ledger.peak, ledger.peak_phase, ledger.peak_classes, ledger.peak_live = at_most
    classes = ledger.peak_classes
    result = dict(phase=ledger.peak_phase, allocated=ledger.peak, parameters=classes.get("parameters", 0),
                  gradients=classes.get("gradients", 0), states=classes.get("optimizer", 0))
    result["activations"] = ledger.peak - sum(result[k] for k in ("parameters", "gradients", "states"))
    if evaluation:
        result["evaluation"] = evaluation
    if show:
        sizes = {}
        for size, kind, site in ledger.peak_live:
            entry = sizes.setdefault((kind, site), [0, 0])
            entry[0], entry[1] = entry[0] + 1, entry[1] + size
        for (kind, site), (count, size) in sorted(sizes.items(), key=lambda item: -item[1][1])[:show]:
            print(f"{size:>14} {count:>4} x {kind:<12} {site}")
    return result


def ranks(c):
    import sharded_training
    with LEDGER:
        return sharded_training.ranks(c, [p.numel() for p in made(c).parameters()])


def largest(c):
    """Of the rank that holds most. None where one failed."""
    some = forked(c, run=ranks) if c["framework"] == "deepspeed" else [0]
    results = [forked(dict(c, rank=r)) for r in some or []]
    return max(results, key=lambda r: r["allocated"]) if results and all(results) else None


def forked(c, limit=600, run=measure):
    """In a child: configurations leave nothing behind. None where the child failed."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        signal.alarm(limit)
        status = 1
        try:
            os.write(into, json.dumps(run(c)).encode())
            status = 0
        except BaseException as error:  # the parent has to go on
            import traceback
            where = traceback.extract_tb(error.__traceback__)[-1]
            print(f"{type(error).__name__}: {str(error)[:300]} ({where.filename}:{where.lineno}): {c}", file=sys.stderr)
        os._exit(status)
    os.close(into)
    with os.fdopen(out) as file:
        text = file.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else None


def prepare(states=False):
    global LEDGER
    LEDGER = counted_gpu.install()
    if states:
        import state_kernels
        state_kernels.install()
    kernels_of_cuda.install(LEDGER)


def number(word):
    return int(word) if word.isdigit() else word


def configuration(text):
    c = dict(zip(OPTIONS, ["llama", "llama", "", "", *MODELS["llama"][1], 4096, 1, 1, "ddp", 1, 0, "none", "full", 0, "none", "none", "bf16",
                           "off", "adamw", "none", "sdpa", "on"]))
    given = dict(word.split("=") for word in text.split())
    if "model-type" in given:
        c.update(named_by_p4d(given["model-type"]))
        if given["model-type"] in hybrid.MODELS:
            dense, of_states = hybrid.MODELS[given["model-type"]][0]
            c.update(dict.fromkeys(sparse.SHAPE, 0), **hybrid.EXPERTS.get(given["model-type"], {}))
            c.update((k, v) for k, v in zip(hybrid.OPTIONS[1:], of_states) if v)
            c.update(zip(SHAPE, dense))
        elif given["model-type"] in sparse.MODELS:
            dense, of_experts = sparse.MODELS[given["model-type"]][0]
            c.update(zip(sparse.SHAPE, (of_experts + (0,) * len(sparse.SHAPE))[:len(sparse.SHAPE)]))
            c.update(zip(SHAPE, dense))
        else:
            c.update(zip(SHAPE, {**MODELS, **LATER, **parts.MODELS}[given["model-type"]][0]))
    c.update({k: number(v) for k, v in given.items()})
    return c


def compare(path, stride):
    """How many rows of a file this code does not reproduce."""
    wrong = 0
    with open(path) as file:
        for line, row in enumerate(csv.DictReader(file)):
            if line % stride:
                continue
            measured = largest({k: number(row[k]) for k in row if k in OPTIONS or k in sparse.SHAPE or k in hybrid.OPTIONS or k in ["lora-dropout", "eval-micro-batch", "chunked-loss", *UNITS, *BUCKETS, *AHEAD]})
            if not measured or any(str(measured[k]) != row[k] for k in RESULTS + ["evaluation"] if k in row):
                print(f"line {line + 2}: {measured}")
                wrong += 1
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--models", help="types to draw from; else all decoders")
    parser.add_argument("--experts", action="store_true", help="draw from models with experts")
    parser.add_argument("--hybrids", action="store_true", help="draw from models whose layers have a state; mamba_ssm and fla are on PYTHONPATH")
    parser.add_argument("--parts", action="store_true", help="draw from classes with a loss of their own (transformers_classes.py)")
    parser.add_argument("--framework", choices=("ddp", "deepspeed", "fsdp"), default="ddp")
    parser.add_argument("--dropout", action="store_true", help="adapters alone, whose inputs are dropped out")
    parser.add_argument("--flat", action="store_const", const=flattened, dest="units", help="FSDP1")
    parser.add_argument("--kept", action="store_const", const=kept, dest="units", help="FSDP2 that does not reshard after the forward pass")
    parser.add_argument("--ahead", action="store_true", help="FSDP1 gathers ahead of forward passes, too")
    parser.add_argument("--overlapped", action="store_true", help="ZeRO 1 and 2 with overlap_comm")
    parser.add_argument("--loss", choices=("trl", "trl-fused"), help="TRL's loss (trl_training.py)")
    parser.add_argument("--evaluation", action="store_true", help="also in micro-batches of its own, at most 16 times as large")
    parser.add_argument("--partitioned", action="store_true", help="all parameters with ZeRO 1 and 2 alone")
    parser.add_argument("--lora", action="store_true", help="adapters on all linear layers of models whose layers have a state")
    parser.add_argument("--resident", action="store_true", help="nothing on the host, whose memory is real: large experts are more than there is")
    parser.add_argument("--show", help="options of one configuration, as in the header line")
    parser.add_argument("--compare", help="measure the rows of a file again")
    parser.add_argument("--stride", type=int, default=1, help="every so many of them")
    parser.add_argument("--lines", type=int, default=60)
    a = parser.parse_args()
    prepare(a.hybrids and a.models != "lfm2")  # LFM2 is trained with PyTorch's convolution
    if a.framework == "deepspeed":
        import deepspeed  # once, and not in each child
    if a.show is not None:
        print(measure(configuration(a.show), show=a.lines))
        return
    if a.compare:
        sys.exit(compare(a.compare, a.stride))
    options = OPTIONS + list(sparse.SHAPE) if a.experts or a.hybrids else OPTIONS
    options = options + hybrid.OPTIONS if a.hybrids else options
    options = options + ["lora-dropout"] if a.dropout else options
    options = options + ["eval-micro-batch"] if a.evaluation else options
    options = options + UNITS if a.units else options
    options = options + BUCKETS if a.overlapped else options
    options = options + AHEAD if a.ahead else options
    options = options + ["chunked-loss"] if a.loss else options
    options = options + parts.OPTIONS if a.parts else options
    results = RESULTS + ["evaluation"] if a.evaluation else RESULTS
    out = csv.DictWriter(sys.stdout, ["looked_at", "seed"] + options + results, lineterminator="\n")
    out.writeheader()
    r = random.Random(a.seed)
    kinds = sorted(parts.MODELS if a.parts else set(hybrid.MODELS) - {"lfm2"} if a.hybrids else sparse.MODELS if a.experts else set(MODELS) - ENCODERS)
    kinds = a.models.split(",") if a.models else kinds
    for _ in range(a.count):
        c = pick(r, a.framework, kinds, a.lora)
        while a.dropout and c["finetune"] == "full" or a.overlapped and c["zero-stage"] not in (1, 2) or a.resident and c["offload"] != "none" or a.partitioned and (
                c["finetune"] != "full" or c["zero-stage"] not in (1, 2)):
            c = pick(r, a.framework, kinds, a.lora)
        if a.dropout:
            c["lora-dropout"] = "on"
        if a.seed >= 70:
            c = varied(r, c)
        if a.parts:
            c = parts.drawn(r, c)
        if a.units:
            c = a.units(r, c)
        if a.ahead:
            c["forward-prefetch"] = "on"
        if a.loss:
            c["chunked-loss"] = a.loss
        if a.overlapped:
            c = overlapped(r, c)
        if a.evaluation:
            c["eval-micro-batch"] = c["micro-batch"] * r.choice((1, 2, 4, 8, 16))
        row = largest(c)
        if row:
            out.writerow(dict(looked_at={1: "before", 2: "while"}.get(a.seed, "after"), seed=a.seed, **c, **row))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
