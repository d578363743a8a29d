# SPDX-License-Identifier: Apache-2.0
# needs: lightning
# 35.9 M parameters at 16 bytes (0.54 GiB), casts at 2 (0.05), logits of 2,048 tokens in bf16 and twice in fp32 (0.31),
# and six layers whose activations are 20 to 60 bytes for each of 2,048 x 512 (0.12 to 0.35)
# want: verdict=pass allocated_gib=1.0..1.25 reserved_gib=1.0..1.4 phase=backward
"""Lightning's Trainer: lightning_fit.py [ddp|fsdp]."""
import os
import sys

import lightning
import torch

import gpt


class Training(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = gpt.GPT()

    def training_step(self, row, index):
        tokens, = row
        loss = self.model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.trainer.model.parameters(), lr=1e-4)


shape = gpt.Shape()
data = torch.utils.data.TensorDataset(torch.randint(shape.words, (256, shape.length + 1)))
trainer = lightning.Trainer(
    accelerator="gpu", devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
    num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)), strategy=sys.argv[1] if sys.argv[1:] else "auto",
    precision="bf16-mixed", accumulate_grad_batches=2, gradient_clip_val=None if sys.argv[1:] else 1.0, max_steps=10,
    logger=False, enable_checkpointing=False)
trainer.fit(Training(), torch.utils.data.DataLoader(data, batch_size=4))
