# SPDX-License-Identifier: Apache-2.0
# torch: 2.4 today
#
# 35.9 M parameters: weights, gradients and states 16 bytes each = 0.53 GiB, without gradients 0.4; of 4 x 512 x 16384 logits 6 to
# 14 bytes (0.19 to 0.44); activations at most 46 bytes x 2048 x 512 in each of six blocks (0.27).
# want: verdict=pass allocated_gib=0.59..1.24
"""A training that looks at itself: PyTorch's profiler, a history of the allocator, ranges of NVTX, events that take time."""
import os
import tempfile

import torch
from torch.profiler import ProfilerActivity, profile, schedule

import gpt

torch.cuda.memory._record_memory_history(max_entries=100000)
model = gpt.GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], schedule=schedule(wait=0, warmup=1, active=1)) as profiled:
    for step in range(10):
        torch.cuda.nvtx.range_push("step")
        if step == 0:
            torch.cuda.cudart().cudaProfilerStart()
        began.record()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(*gpt.batch())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        ended.record()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        profiled.step()
        print("step", step, "loss", loss.item(), "took", began.elapsed_time(ended), torch.cuda.mem_get_info())
        if step == 1:
            torch.cuda.cudart().cudaProfilerStop()
            torch.cuda.memory._dump_snapshot(os.path.join(tempfile.gettempdir(), "snapshot.pickle"))
            print(profiled.key_averages().table(row_limit=3))
