# SPDX-License-Identifier: Apache-2.0
#
# needs: diffusers
# 58.9 M parameters: weights, two states and the mean = 0.88 GiB; 786 M outputs of convolutions, norms, SiLU and linear layers
# for 16 images, 2 bytes each in bf16 or 4 in fp32 (norms): 1.46 to 2.93; gradients, weights cast to bf16 and joined inputs 0.8
# at most.
# want: verdict=pass allocated_gib=2.3..4.6
"""A U-Net of diffusers learns to take noise off images, with a running mean of its weights."""
import diffusers
import torch
from diffusers.training_utils import EMAModel

model = diffusers.UNet2DModel(
    sample_size=64, in_channels=3, out_channels=3, layers_per_block=2, block_out_channels=(128, 256, 512),
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D")).cuda()
mean = EMAModel(model.parameters(), decay=0.999)
noises = diffusers.DDPMScheduler(num_train_timesteps=1000)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(10):
    images = torch.randn(16, 3, 64, 64, device="cuda")
    noise = torch.randn_like(images)
    times = torch.randint(0, 1000, (16,), device="cuda").long()
    with torch.autocast("cuda", torch.bfloat16):
        guess = model(noises.add_noise(images, noise, times), times).sample
    loss = torch.nn.functional.mse_loss(guess.float(), noise)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    mean.step(model.parameters())
    print("step", step, "loss", loss.item())
