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
# rehearse: -- lora r=32 lora_alpha=64 lora-fa
# published: reserved_gib=20.713
# case: lora-64
# rehearse: -- lora r=64 lora_alpha=128
# published: reserved_gib=21.004
# case: lora-rank-stabilized
# rehearse: -- lora r=64 lora_alpha=64 use_rslora=true
# published: reserved_gib=21.012
# case: lora-dora
# rehearse: -- lora r=32 lora_alpha=64 use_dora=true
# published: reserved_gib=22.848
# case: lora-mica
# rehearse: -- lora r=32 lora_alpha=64 'init_lora_weights="mica"'
# published: reserved_gib=20.717
# case: adalora
# rehearse: -- adalora target_r=32 init_r=64 tinit=200 tfinal=500 total_step=5000
# published: reserved_gib=21.217
# case: adaption-prompt
# rehearse: -- adaption_prompt 'target_modules="self_attn"' adapter_len=100 adapter_layers=28
# published: reserved_gib=20.914
# case: beft
# rehearse: -- beft 'target_modules=["v_proj"]'
# published: reserved_gib=18.787
# case: c3a
# rehearse: -- c3a block_size=64
# published: reserved_gib=20.545
# case: deft
# rehearse: -- deft r=32 alpha=128 'decomposition_method="relu"'
# published: reserved_gib=21.998
# case: deft-para
# rehearse: -- deft r=32 'decomposition_method="qr"' para=true
# published: reserved_gib=20.037
# case: delora
# rehearse: -- delora r=32
# published: reserved_gib=20.816
# case: fourierft
# rehearse: -- fourierft n_frequency=1000 scaling=300
# published: reserved_gib=22.033
# case: glora
# rehearse: -- glora r=8 'config_A_B="lora"' 'config_C="lora"' 'config_D_E="constant"'
# published: reserved_gib=20.055
# case: glora-vectors
# rehearse: -- glora r=8 'config_A_B="vector"' 'config_C="vector"' 'config_D_E="constant"'
# published: reserved_gib=19.979
# case: gralora
# rehearse: -- gralora
# published: reserved_gib=20.766
# case: hira
# rehearse: -- hira r=32
# published: reserved_gib=21.977
# case: ia3
# rehearse: -- ia3 'target_modules=["down_proj","v_proj","k_proj"]' 'feedforward_modules=["down_proj"]'
# published: reserved_gib=21.639
# case: ia3-all
# rehearse: -- ia3 'target_modules=["gate_proj","o_proj","q_proj","k_proj","v_proj","down_proj","up_proj"]' 'feedforward_modules=["up_proj","gate_proj","down_proj"]'
# published: reserved_gib=24.350
# case: lily
# rehearse: -- lily r=896 stride_A=14 num_B=2 scaling=2.0
# published: reserved_gib=21.912
# case: lily-mlp
# rehearse: -- lily r=140 stride_A=14 num_B=2 scaling=8.0 'target_modules=["gate_proj","up_proj","down_proj"]'
# published: reserved_gib=23.855
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
# case: miss-bat
# rehearse: -- miss 'init_weights="bat"'
# published: reserved_gib=23.465
# case: miss-mini
# rehearse: -- miss 'init_weights="mini"' mini_r=64
# published: reserved_gib=18.820
# case: oft
# rehearse: -- oft r=32 oft_block_size=0
# published: reserved_gib=20.799
# case: osf
# rehearse: -- osf 'target_modules=["q_proj","k_proj","v_proj","o_proj","gate_proj","down_proj","up_proj"]' 'rank_pattern={"q_proj":2944,"o_proj":2944,"k_proj":896,"v_proj":896,"gate_proj":2944,"down_proj":2944,"up_proj":2944}' --keep-type
# published: reserved_gib=35.898
# case: p-tuning
# rehearse: -- p_tuning num_virtual_tokens=20 encoder_hidden_size=3072
# published: reserved_gib=19.484
# case: peanut
# rehearse: -- peanut r=32 'act_fn="relu"' scaling=2.0
# published: reserved_gib=23.482
# case: peanut-1
# rehearse: -- peanut r=1 'act_fn="relu"' scaling=32.0
# published: reserved_gib=23.408
# case: prefix-tuning
# rehearse: -- prefix_tuning num_virtual_tokens=200 encoder_hidden_size=3072
# published: reserved_gib=20.445
# case: prompt-tuning
# rehearse: -- prompt_tuning num_virtual_tokens=200
# published: reserved_gib=22.719
# case: psoft
# rehearse: -- psoft r=256 psoft_alpha=256
# published: reserved_gib=20.490
# case: psoft-fast
# rehearse: -- psoft r=256 psoft_alpha=256 'psoft_svd="lowrank"' use_cayley_neumann=true
# published: reserved_gib=19.350
# case: randlora
# rehearse: -- randlora r=32 randlora_alpha=640
# published: reserved_gib=21.221
# case: road
# rehearse: -- road 'variant="road_2"'
# published: reserved_gib=21.254
# case: shira
# rehearse: -- shira r=32 'mask_type="random"' random_seed=42
# published: reserved_gib=20.186
# case: tinylora
# rehearse: -- tinylora r=2 u=64
# published: reserved_gib=18.742
# case: tinylora-tied
# rehearse: -- tinylora r=2 u=64 weight_tying=1.0
# published: reserved_gib=18.744
# case: trainable-tokens
# rehearse: -- trainable_tokens token_indices=[128000,128001]
# published: reserved_gib=19.500
# case: unilora
# rehearse: -- unilora r=32 theta_d_length=256 proj_seed=42
# published: reserved_gib=20.777
# case: vblora
# rehearse: -- vblora r=4 num_vectors=256 topk=2 vector_length=256
# published: reserved_gib=20.662
# case: vera
# rehearse: -- vera
# published: reserved_gib=20.137
# case: pvera
# rehearse: -- pvera
# published: reserved_gib=20.654
# case: pvera-64
# rehearse: -- pvera r=64
# published: reserved_gib=20.086
# case: waveft
# rehearse: -- waveft n_frequency=5000 scaling=25.0
# published: reserved_gib=23.186
"""PEFT's comparison of methods on MetaMathQA: Llama 3.2 3B in bf16, 4 texts in a batch, AdamW, no recomputation.

The figures are accelerator_memory_max of huggingface/peft, method_comparison/MetaMathQA/results, of July and August 2026, with
PyTorch 2.13, transformers 5.13 and PEFT 0.19.2.dev0: what PyTorch reserves at the end of the worst of 5,000 steps. The
program empties the cache after every tenth step, and sorts 80 texts by length, longest first, before it makes 20 batches of
them. So the worst step is that of the longest batch, with an empty cache. How long that batch was is not published. LONGEST
is the length at which the row of LoRA (rank 32) comes out; no other row was used to choose it.
Not rehearsed: BOFT, whose kernel PEFT compiles with nvcc; AdaMSS, which decides by values (k-means of weights) how many subspaces
it has; prefix tuning with a text, whose length is not published; FRoD, whose start takes minutes; rows that differ from one here in the learning rate only. AdaLoRA's
choice of ranks reads values that only a GPU computes, so ranks are not reduced here.

Words: the method, options of its configuration as NAME=JSON, lora-fa (its optimizer), --keep-type (no adapter in fp32)."""
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
WITHOUT_TARGETS = ("adaption_prompt", "p_tuning", "prefix_tuning", "prompt_tuning", "trainable_tokens")


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
    if method not in WITHOUT_TARGETS:
        options.setdefault("target_modules", TARGETS)
    return peft.get_peft_model(model, kind(task_type="CAUSAL_LM", **options), autocast_adapter_dtype=not keep_type)


def optimizer_of(model, name):
    if name == "lora-fa":
        return peft.optimizers.create_lorafa_optimizer(model, r=32, lora_alpha=64, lr=1e-4, weight_decay=0.1)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)


def compare_with_base(model):
    """The comparison takes a loss without adapters first. Afterwards PEFT marks all of the adapters' parameters as trainable,
    even those that LoRA-FA and MiCA froze."""
    model.eval()
    with torch.no_grad(), model.disable_adapter():
        model(**batch(SHORT))
    model.train()


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
    if method != "full":
        compare_with_base(model)
    model.train()
    print("%d trainable parameters" % sum(p.numel() for p in model.parameters() if p.requires_grad), flush=True)
    output = step(model, optimizer, SHORT)
    torch.cuda.empty_cache()
    output = step(model, optimizer, LONGEST)
    print("%.3f GiB reserved" % (torch.cuda.memory_reserved() / 2**30), flush=True)


main(*sys.argv[1:])
