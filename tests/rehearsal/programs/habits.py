# SPDX-License-Identifier: Apache-2.0
#
# torch: 2.4 today
# case: own-update
# rehearse: --timeout 120 -- own-update
# want: verdict=pass phase=backward
# case: no-optimizer
# rehearse: --timeout 25 -- no-optimizer
# want: verdict=incomplete reason="backward passes it called no torch.optim.Optimizer"
# case: target-network
# rehearse: -- target-network
# want: verdict=pass allocated_gib=1.5..1.7
# case: limited
# rehearse: -- limited
# want: verdict=reject reason="it ran out of the 0.79 GiB to which the program limits PyTorch"
# case: policy
# rehearse: -- policy
# want: verdict=pass
# case: kept-on-host
# rehearse: -- kept-on-host
# want: verdict=pass
# case: evaluated
# rehearse: -- evaluated
# want: verdict=pass
# case: saved-shards
# rehearse: --nodes 2 --gpus-per-node 4 --ranks first --phases train,save -- saved-shards
# want: verdict=pass
"""What people's own programs do beside the usual loop: habits.py own-update (of the parameters, without an optimizer, for ever),
no-optimizer (the same, where PyTorch counts no change), target-network (copied in each micro-batch, before the optimizer runs),
limited (to one percent of the GPU), policy (draws words from a distribution), kept-on-host (activations), evaluated (fails in the
evaluation that nobody asked for), or saved-shards (of FSDP2 on the host, by torch.distributed.checkpoint)."""
import os
import sys

import torch
from torch.distributions import Categorical

import gpt

what = sys.argv[1]
if what == "limited":
    torch.cuda.set_per_process_memory_fraction(0.01)
shape = gpt.Shape(layers=2)


def passes(model, optimizer=None, steps=1 << 30):
    for number in range(steps):
        loss = model(*gpt.batch(shape, size=16 if what == "limited" else 4))
        loss.backward()
        if optimizer:
            optimizer.step()
            optimizer.zero_grad()
        else:
            update(model)
        print("step", number, "loss", loss.item())


@torch.no_grad()
def update(model):
    for parameter in model.parameters():
        target = parameter.data if what == "no-optimizer" else parameter
        target -= 1e-4 * parameter.grad
        parameter.grad = None


def policy(model, optimizer):
    ids, targets = gpt.batch(shape, size=2)
    for number in range(10):
        hidden = torch.randn(2, 32, shape.width, device="cuda", requires_grad=True)
        words = Categorical(logits=model.head(model.norm(hidden)).float())
        drawn = words.sample()
        loss = -words.log_prob(drawn).mean() + model(ids, targets)
        loss.backward()
        optimizer.step()
        print("step", number, "loss", loss.item())


def follow_target():
    """Adam's state is made in the third micro-batch. A network copied before is no step."""
    model, target = (torch.nn.Linear(8192, 8192).cuda() for _ in range(2))
    optimizer = torch.optim.Adam(model.parameters())
    for number in range(30):
        with torch.no_grad():
            for to, parameter in zip(target.parameters(), model.parameters()):
                to.copy_(parameter)
        wanted = target(torch.randn(4, 8192, device="cuda")).detach()
        (model(torch.randn(4, 8192, device="cuda")) - wanted).pow(2).mean().backward()
        if number % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()


def save_shards(model):
    import torch.distributed as dist
    from torch.distributed import checkpoint
    from torch.distributed._composable.fsdp import CPUOffloadPolicy, fully_shard
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cuda:nccl,cpu:gloo")
    for block in (*model.blocks, model):
        fully_shard(block, offload_policy=CPUOffloadPolicy())
    passes(model, torch.optim.AdamW(model.parameters(), lr=1e-4), 2)
    checkpoint.save(get_model_state_dict(model), checkpoint_id="saved")


if what == "saved-shards":
    save_shards(gpt.GPT(shape))
    sys.exit()
if what == "target-network":
    follow_target()
    sys.exit()
model = gpt.GPT(shape).cuda()
if what in ("own-update", "no-optimizer"):
    passes(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
if what == "policy":
    policy(model, optimizer)
elif what == "kept-on-host":
    with torch.autograd.graph.save_on_cpu(pin_memory=True), torch.autocast("cuda", torch.bfloat16):
        passes(model, optimizer)
else:
    passes(model, optimizer, 2)
    model.eval()
    with torch.no_grad():
        model(*gpt.batch(shape))
    raise SystemExit("the data of the evaluation is not there")
