# SPDX-License-Identifier: Apache-2.0
# torch: 2.4 today
#
# ResNet-50: 25.6 M parameters, weights, gradients and momentum = 0.29 GiB; its convolutions have 11.1 M outputs per image, kept
# in fp16 before and after a ReLU: 32 x 11.1 M x 4 bytes = 1.32 GiB; at most a quarter more for what does not stay.
# want: verdict=pass allocated_gib=1.5..2 phase=backward
"""A residual network of convolutions on images, mixed precision in fp16 with a scaled loss, channels last."""
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.around = nn.Identity() if stride == 1 and inside == 4 * width else nn.Sequential(
            nn.Conv2d(inside, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return torch.relu(self.path(x) + self.around(x))


layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
inside = 64
for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
    for block in range(blocks):
        layers.append(Residual(inside, width, 2 if block == 0 and width > 64 else 1))
        inside = 4 * width
layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, 1000)]
model = nn.Sequential(*layers).cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")
for step in range(10):
    images = torch.randn(32, 3, 224, 224).cuda().to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (32,)).cuda()
    with torch.autocast("cuda", torch.float16):
        loss = nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item(), "scale", scaler.get_scale())
