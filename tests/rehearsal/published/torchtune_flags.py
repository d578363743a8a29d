# SPDX-License-Identifier: Apache-2.0
# torch: 2.7
# needs: torchtune==0.4.0 torchao==0.6.1 bitsandbytes==0.44.1
# rehearse: --gpu a100-80gb --steps 3
# want: verdict=pass
# case: packed
# published: allocated_gib=60.0
# case: compiled
# rehearse: -- compile=True
# published: allocated_gib=51.0
# case: chunks
# rehearse: -- compile=True loss._component_=torchtune.modules.loss.CEWithChunkedOutputLoss
# published: allocated_gib=42.9
# case: recomputed
# rehearse: -- compile=True loss._component_=torchtune.modules.loss.CEWithChunkedOutputLoss enable_activation_checkpointing=True
# published: allocated_gib=24.9
# case: in-backward
# rehearse: -- compile=True loss._component_=torchtune.modules.loss.CEWithChunkedOutputLoss enable_activation_checkpointing=True optimizer_in_bwd=True
# published: allocated_gib=23.1
"""torchtune's table of optimization flags, of November 2024: Llama 3.2 3B in bf16, micro-batch 2, packed to 4,096 tokens, on an
A100. Each row has the flags of the one before it. The figures are what PyTorch calls active: allocated, and freed blocks that a
stream still uses. torchtune 0.4.0 was new then, with PyTorch 2.5.

Not rehearsed: the first row, without packing, depends on the lengths of its texts. The rows of offloaded activations, AdamW in 8
bits, LoRA and QLoRA were not tried yet.

Words: settings of the recipe that differ from all flags off."""
import sys

import torchtune_runs

OFF = ("compile=False", "enable_activation_checkpointing=False", "enable_activation_offloading=False",
       "optimizer._component_=torch.optim.AdamW", "loss._component_=torch.nn.CrossEntropyLoss", "optimizer_in_bwd=False")
torchtune_runs.start("full_finetune_single_device", "llama3_2/3B_full_single_device", 4096, *OFF, *sys.argv[1:])
