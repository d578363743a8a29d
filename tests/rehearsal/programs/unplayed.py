# SPDX-License-Identifier: Apache-2.0
#
# case: function
# rehearse: -- function
# want: verdict=incomplete reason="it called cudaArrayGetInfo, which"
# case: operator
# rehearse: -- operator
# want: verdict=incomplete reason="unplayed.py:62, which"
# case: sparse
# rehearse: -- sparse
# want: verdict=incomplete reason="it called cusparseSpGEMM_createDescr at"
# case: early
# rehearse: -- early
# want: verdict=warn reason="the program ended after 1 of 2 steps, maybe because of an unknown value (lt at"
# case: early-number
# rehearse: -- early-number
# want: verdict=warn reason="the program ended after 1 of 2 steps, maybe because of an unknown value (_local_scalar_dense at"
# case: early-known
# rehearse: -- early-known
# want: verdict=pass
# case: objects
# rehearse: --gpus-per-node 2 --ranks last -- objects
# want: verdict=warn reason="does not know what rank 0 broadcasts"
# case: objects-played
# rehearse: --gpus-per-node 2 --ranks first,last -- objects
# want: verdict=pass
# case: numbers
# rehearse: --gpus-per-node 2 --ranks last -- numbers
# want: verdict=warn reason="the program read 1 values"
# case: numbers-played
# rehearse: --gpus-per-node 2 --ranks first,last -- numbers
# want: verdict=pass
# case: bytes
# rehearse: --gpus-per-node 2 --ranks last -- bytes
# want: verdict=warn reason="the program read 1 values"
# case: bytes-host
# rehearse: --gpus-per-node 2 --ranks last -- bytes-host
# want: verdict=warn reason="the program read 1 values"
# case: generator
# rehearse: --gpus-per-node 2 --ranks last -- generator
# want: verdict=pass
# case: unknown-played
# rehearse: --gpus-per-node 2 --ranks first,last -- unknown
# want: verdict=warn reason="the program read 1 values"
"""What is not there to answer: unplayed.py function, operator or sparse (that p4d does not play); of rank 0 objects, bytes, bytes-host
(copied to the host), the state of a generator, numbers, or unknown (numbers that a GPU computes); or early, early-number or
early-known (a value that ends the training)."""
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
elif what == "operator":
    try:
        torch.linalg.ldl_factor(layer.weight.detach())
    except RuntimeError:
        pass
elif what == "sparse":
    matrix = torch.sparse_csr_tensor(torch.arange(1025), torch.arange(1024), torch.rand(1024)).cuda()
    try:
        matrix @ matrix  # only a GPU counts the elements of the result
    except RuntimeError as error:
        assert "not supported" in str(error), error
elif not what.startswith("early"):
    import torch.distributed as dist
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(dist.get_rank())
    layer = layer.to("cuda")
    if what == "objects":
        shape = [{"size": 8}] if dist.get_rank() == 0 else [{"size": 4}]
        dist.broadcast_object_list(shape)
        size = shape[0]["size"]
    elif what.startswith("bytes"):
        own = torch.tensor([8 if dist.get_rank() == 0 else 4], dtype=torch.uint8, device="cuda")
        dist.broadcast(own, 0)
        size = own.item() if what == "bytes" else own.cpu().to(torch.int32)[0].item()
    elif what == "generator":
        state = torch.get_rng_state()
        own = state.cuda()
        dist.broadcast(own, 0)
        torch.set_rng_state(own.cpu())  # zeros are no state
        assert torch.equal(torch.get_rng_state(), state)
    else:
        own = layer(torch.randn(1, 1024, device="cuda")).argmax(dim=1) if what == "unknown" else torch.tensor([8], device="cuda")
        shape = own if dist.get_rank() == 0 else torch.empty(1, dtype=torch.int64, device="cuda")
        dist.broadcast(shape, 0)
        size = shape.item()
for step in range(2):
    loss = layer(torch.randn(size, 1024, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if what == "early" and loss < 1e-3:
        break
    if what == "early-number" and loss.item() < 1e-3:
        break
    if what == "early-known" and torch.ones(1, device="cuda") < 2:
        break
