# SPDX-License-Identifier: Apache-2.0
# rehearse: --gpu l40s --steps 0
# needs: transformers==5.13.1 accelerate peft==0.20.0
# want: verdict=pass
# case: full
# rehearse: -- full
# published: reserved_gib=36.199
# case: lora
# rehearse: -- lora r=32 lora_alpha=64
# want: reserved_gib=20.6..20.9
# case: lora-mlp
# rehearse: -- lora r=10 lora_alpha=20 'target_modules=["up_proj","gate_proj","down_proj"]'
# published: reserved_gib=23.002
# case: lora-bd
# rehearse: -- lora r=14 lora_alpha=28 'target_modules=["up_proj","gate_proj","down_proj"]' 'use_bdlora={"target_modules_bd_a":["o_proj","down_proj"],"target_modules_bd_b":["q_proj","v_proj","k_proj","up_proj","gate_proj"],"nblocks":2}'
# published: reserved_gib=22.990
# case: lora-fa
# rehearse: -- lora r=32 lora_alpha=64 --optimizer lora-fa
# want: reserved_gib=18.5..19.1
# case: adalora
# rehearse: -- adalora target_r=32 init_r=64 tinit=200 tfinal=500 total_step=5000
# published: reserved_gib=21.217
# case: adaption-prompt
# rehearse: -- adaption_prompt 'target_modules="self_attn"' adapter_len=100 adapter_layers=28
# published: reserved_gib=20.914
# case: beft
# rehearse: -- beft 'target_modules=["v_proj"]'
# published: reserved_gib=18.787
# case: delora
# rehearse: -- delora r=32
# published: reserved_gib=20.816
# case: gralora
# rehearse: -- gralora
# published: reserved_gib=20.766
# case: ia3
# rehearse: -- ia3 'target_modules=["down_proj","v_proj","k_proj"]' 'feedforward_modules=["down_proj"]'
# published: reserved_gib=21.639
# case: ia3-all
# rehearse: -- ia3 'target_modules=["gate_proj","o_proj","q_proj","k_proj","v_proj","down_proj","up_proj"]' 'feedforward_modules=["up_proj","gate_proj","down_proj"]'
# published: reserved_gib=24.350
# case: ln-tuning
# rehearse: -- ln_tuning 'target_modules=["input_layernorm","norm","post_attention_layernorm"]'
# published: reserved_gib=19.727
# case: loha
# rehearse: -- loha r=32 alpha=64
# published: reserved_gib=22.266
# case: lokr
# rehearse: -- lokr r=32 alpha=64 decompose_factor=4
# published: reserved_gib=21.971
# case: miss
# rehearse: -- miss
# published: reserved_gib=18.879
# case: oft
# rehearse: -- oft r=32 oft_block_size=0
# published: reserved_gib=20.799
# case: p-tuning
# rehearse: -- p_tuning num_virtual_tokens=20 encoder_hidden_size=3072
# published: reserved_gib=19.484
# case: road
# rehearse: -- road 'variant="road_2"'
# published: reserved_gib=21.254
# case: vera
# rehearse: -- vera
# published: reserved_gib=20.137
# case: pvera
# rehearse: -- pvera
# published: reserved_gib=20.654
"""PEFT's comparison of methods on MetaMathQA: Llama 3.2 3B in bf16, 4 texts in a batch, AdamW, no recomputation.

The figures are accelerator_memory_max of huggingface/peft, method_comparison/MetaMathQA/results, of July and August 2026, with
PyTorch 2.13, transformers 5.13 and PEFT 0.19.2.dev0: what PyTorch reserves at the end of the worst of 5,000 steps. The
program empties the cache after every tenth step, and sorts 80 texts by length, longest first, before it makes 20 batches of
them. So the worst step is that of the longest batch, with an empty cache. How long that batch was is not published. LONGEST
is the length at which the row of LoRA (rank 32) comes out; no other row was used to choose it.
LoRA-FA is not held to its figure of 20.71, which is as if inputs of frozen matrices were kept.

Words: the method, options of its configuration as NAME=JSON, --optimizer, --keep-type (no adapter in fp32)."""
import json
import random
import sys

import peft
import peft.optimizers
import torch
import transformers

import checkpoint

LONGEST = 698
SHORT = 64
TARGETS = ["q_proj", "v_proj"]
PROMPTS = ("adaption_prompt", "p_tuning")


def batch(longest):
    """Four texts, LONGEST tokens and less, padded on the right as the comparison does it."""
    choose = random.Random(longest)
    lengths = [longest, longest - longest // 20, longest - longest // 12, longest - longest // 10]
    ids, mask = torch.full((4, longest), 128001), torch.zeros((4, longest), dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.tensor([choose.randrange(128000) for _ in range(length)])
        mask[row, :length] = 1
    made = {"input_ids": ids.to("cuda"), "attention_mask": mask.to("cuda")}
    made["labels"] = made["input_ids"].clone()
    for row, length in enumerate(lengths):
        made["labels"][row, length + 1:] = -100
    return made


def adapted(model, method, options, keep_type):
    kind = peft.PEFT_TYPE_TO_CONFIG_MAPPING[peft.PeftType(method.upper())]
    if method not in PROMPTS:
        options.setdefault("target_modules", TARGETS)
    return peft.get_peft_model(model, kind(task_type="CAUSAL_LM", **options), autocast_adapter_dtype=not keep_type)


def optimizer_of(model, name):
    if name == "lora-fa":
        return peft.optimizers.create_lorafa_optimizer(model, r=32, lora_alpha=64, lr=1e-4, weight_decay=0.1)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)


def step(model, optimizer, longest):
    texts = batch(longest)
    tokens = texts["attention_mask"].sum().item()
    optimizer.zero_grad()
    output = model(**texts, num_items_in_batch=tokens)
    output.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    output.loss.item()
    return output


def main(method, *words):
    options = dict(word.split("=", 1) for word in words if "=" in word)
    options = {name: json.loads(value) for name, value in options.items()}
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_pretrained(checkpoint.saved(checkpoint.llama()), device_map="cuda",
                                                              dtype=torch.bfloat16)
    if method != "full":
        model = adapted(model, method, options, "--keep-type" in words)
    optimizer = optimizer_of(model, "lora-fa" if "lora-fa" in words else "AdamW")
    model.train()
    print("%d trainable parameters" % sum(p.numel() for p in model.parameters() if p.requires_grad), flush=True)
    output = step(model, optimizer, SHORT)
    torch.cuda.empty_cache()
    output = step(model, optimizer, LONGEST)
    print("%.3f GiB reserved" % (torch.cuda.memory_reserved() / 2**30), flush=True)


main(*sys.argv[1:])
