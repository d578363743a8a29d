# SPDX-License-Identifier: Apache-2.0
# torch: 2.4 today
# needs: torchvision
# want: verdict=pass
"""An image classifier: ResNet-50 with convolutions in channels-last order, autocast, SGD with momentum."""
import torch
import torchvision

torch.backends.cudnn.benchmark = False
model = torchvision.models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
for step in range(10):
    images = torch.randn(32, 3, 224, 224).cuda(non_blocking=True).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (32,)).cuda(non_blocking=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
