# SPDX-License-Identifier: Apache-2.0
#
# case: function
# rehearse: -- function
# want: verdict=incomplete reason="cudaArrayGetInfo at"
# case: objects
# rehearse: --gpus-per-node 2 --ranks last -- objects
# want: verdict=warn reason="what rank 0 broadcasts is not known"
# case: objects-played
# rehearse: --gpus-per-node 2 --ranks first,last -- objects
# want: verdict=pass
# case: numbers
# rehearse: --gpus-per-node 2 --ranks last -- numbers
# want: verdict=warn reason="the program read 1 values"
# case: numbers-played
# rehearse: --gpus-per-node 2 --ranks first,last -- numbers
# want: verdict=pass
# case: unknown-played
# rehearse: --gpus-per-node 2 --ranks first,last -- unknown
# want: verdict=warn reason="the program read 1 values"
"""What is not there to answer: unplayed.py function (that p4d does not play) or objects, numbers or unknown (numbers
that a GPU computes) of rank 0."""
import ctypes
import os
import sys

import torch

what = sys.argv[1]
layer = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
size = 4
if what == "function":
    ctypes.CDLL(None).cudaArrayGetInfo()
else:
    import torch.distributed as dist
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(dist.get_rank())
    layer = layer.to("cuda")
    if what == "objects":
        shape = [{"size": 8}] if dist.get_rank() == 0 else [{"size": 4}]
        dist.broadcast_object_list(shape)
        size = shape[0]["size"]
    else:
        own = layer(torch.randn(1, 1024, device="cuda")).argmax(dim=1) if what == "unknown" else torch.tensor([8], device="cuda")
        shape = own if dist.get_rank() == 0 else torch.empty(1, dtype=torch.int64, device="cuda")
        dist.broadcast(shape, 0)
        size = shape.item()
for step in range(2):
    layer(torch.randn(size, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
