# SPDX-License-Identifier: Apache-2.0
# torch: 2.4 today
# rehearse: --gpus-per-node 2 --gpu a100-40gb --ranks first
#
# As much as fits beside a reserve of 10 GiB and a fifth: of 39.4 GiB about 22, at least 19.
# want: verdict=pass allocated_gib=15..29
"""A program that asks nvidia-smi, NVML and PyTorch how much memory is free, and takes a batch that fills it."""
import ctypes
import subprocess

import torch

import gpt


def smi(fields, *others):
    asked = ["nvidia-smi", "--query-gpu=" + fields, "--format=csv,noheader,nounits", *others]
    lines = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
    return [line.split(", ") for line in lines]


listed = subprocess.run("nvidia-smi -L | wc -l", shell=True, check=True, capture_output=True, text=True).stdout
assert int(listed) == 2, listed
before = smi("index,memory.total,memory.used,utilization.gpu,fan.speed")
assert [row[0] for row in before] == ["0", "1"] and [row[2:] for row in before] == [["0", "0", "[N/A]"]] * 2, before
total = int(before[0][1])
nvml, device, rates, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_uint * 2)(), (ctypes.c_uint64 * 3)()
assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
assert nvml.nvmlDeviceGetUtilizationRates(device, rates) == nvml.nvmlDeviceGetMemoryInfo(device, memory) == 0
assert memory[0] >> 20 == total and memory[2] == 0, list(memory)

model = gpt.GPT().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
block = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
used, = smi("memory.used,memory.free", "-i", "0")
assert int(used[0]) > 1024 and int(used[0]) + int(used[1]) == total, used
assert smi("memory.used", "--id=1") == [["0"]]
del block
torch.cuda.empty_cache()


def step(size):
    loss = model(*gpt.batch(size=size))
    loss.backward()
    return loss


torch.cuda.reset_peak_memory_stats()
start = torch.cuda.memory_allocated()
step(2)
each = (torch.cuda.max_memory_allocated() - start) / 2
free, _ = torch.cuda.mem_get_info()
size = int((0.8 * free - (10 << 30)) / each)
print("batch", size)
for number in range(10):
    optimizer.zero_grad()
    print("step", number, "loss", step(size).item())
    optimizer.step()
