# SPDX-License-Identifier: Apache-2.0
# torch: 2.4 today
# rehearse: --phases train,save
#
# 33.6 M parameters in fp32 (0.13 GiB), two states of a byte each (0.06) and gradients (0.13); of one or two states
# a copy in fp32 (0.02 each). The file has weights and states.
# want: verdict=pass allocated_gib=0.31..0.42
"""An optimizer whose states are tensors of a class of their own, which hold codes and a scale: as torchao's 8-bit AdamW."""
import torch
from torch import nn


class Packed(torch.Tensor):
    """A tensor in 8 bits, with one scale."""

    @staticmethod
    def __new__(cls, codes, scale):
        return torch.Tensor._make_wrapper_subclass(cls, codes.shape, dtype=torch.float32, device=codes.device)

    def __init__(self, codes, scale):
        self.codes, self.scale = codes, scale

    def __tensor_flatten__(self):
        return ["codes", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner, _, size, stride):
        return cls(inner["codes"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), named=None):
        if function is torch.ops.aten.detach.default:
            return cls(arguments[0].codes, arguments[0].scale)
        raise NotImplementedError(str(function))


class Adam8(torch.optim.Optimizer):
    def __init__(self, parameters, lr=1e-4):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                for name in ("mean", "square"):
                    if name not in state:
                        state[name] = Packed(torch.zeros(p.shape, dtype=torch.uint8, device=p.device), torch.ones((), device=p.device))
                    state[name].codes.copy_(p.grad.mul(0.1).round_())
                p.add_(p.grad, alpha=-group["lr"])


model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
optimizer = Adam8(model.parameters())
for step in range(10):
    loss = model(torch.randn(16, 2048, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "step.pt")
    print("step", step, "loss", loss.item())
