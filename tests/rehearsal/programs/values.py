# SPDX-License-Identifier: Apache-2.0
#
# want: verdict=warn
"""What a program sees of values: known ones are true, and unknown ones have answers that do not depend on chance."""
import sys

import torch

reads = sys.modules["p4d_rehearsal.reads"].unknown_reads


@torch.library.custom_op("program::rows_with_flag", mutates_args=("counts",))
def rows_with_flag(values: torch.Tensor, flags: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """The rows with a flag, and in counts how many these are."""
    rows = flags.nonzero().squeeze(1)
    counts.fill_(rows.numel())
    return values.index_select(0, rows)


layer = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
mask = torch.tensor([True, False, True, False]).cuda()
for step in range(2):
    out = layer(torch.randn(4, 1024, device="cuda"))
    kept = torch.zeros_like(out).masked_scatter(mask.unsqueeze(1).expand_as(out), out[mask])
    assert out[mask].shape == (2, 1024), out[mask].shape
    (kept.sum() + out[mask].sum()).backward()
    assert not torch.isnan(out).any() and torch.isfinite(layer.weight.grad).all()
    optimizer.step()
    optimizer.zero_grad()
    tokens = out.argmax(dim=1)  # nobody knows which
    ends = tokens == 2
    assert not ends.any() and tokens.tolist() == [1, 1, 1, 1], (ends, tokens)
    assert out[out > 0].numel() == out.numel()  # an upper bound, which counts as a read
    assert torch.unique(tokens).numel() == 4
    # a confusion matrix
    assert torch.bincount(tokens, minlength=16).shape == torch.bincount(tokens, out[0, :4], 16).shape == (16,)
    assert mask.sum().item() == 2 and mask.nonzero().tolist() == [[0], [2]]
    # the same in a custom operator's own kernel, which is a Python function
    counts = torch.empty(1, device="cuda")
    assert rows_with_flag(out.detach(), mask, counts).shape == (2, 1024) and counts.item() == 2
    # values that torch.tensor() makes on the GPU are known, and so are those written piece by piece; a kernel's
    # output is not
    length = torch.tensor(167, device="cuda")
    pieces = torch.empty(2, dtype=torch.int64, device="cuda")
    pieces[0], pieces[1] = length, 3
    assert pieces.tolist() == [167, 3] and torch.cat([pieces, pieces]).sum().item() == 340
    # operators that change a tensor's shape in place
    assert pieces.unsqueeze_(1).shape == (2, 1) and pieces.t_().tolist() == [[167, 3]] and pieces.squeeze_(0).shape == (2,)
    # memory that held known values may hold others later, which a compiled program takes past PyTorch's dispatcher
    gone = torch.tensor([5, 6, 7, 8], device="cuda")
    place = gone.data_ptr()
    del gone
    other = torch._C._dynamo.guards._empty_strided_cuda((4,), (1,), torch.int64)
    assert other.data_ptr() == place and other.tolist() == [1, 1, 1, 1], other.tolist()
    torch.argmax(out, dim=1, out=length.resize_(4))
    assert length.tolist() == [1, 1, 1, 1]
    # the tokens, out of 8,192, for each of 64 experts: more than 1 MiB of flags, and the same number for each
    before = dict(reads)
    chosen = torch.randn(8192, 64, device="cuda").topk(4)[1]
    flags = torch.nn.functional.one_hot(chosen, 64).permute(2, 1, 0)
    assert [torch.where(flags[expert])[1].numel() for expert in (0, 63)] == [512, 512] and reads == before, reads
    on_host = torch.empty(flags.shape, dtype=flags.dtype).copy_(flags)
    assert on_host.sum().item() == 4 * 8192 and torch.equal(flags.contiguous().cpu(), on_host) and reads == before, reads
    # a mask and indices that the host made, of more than 1 MiB
    chosen = torch.arange(0, 600_000, 3)
    spread = torch.zeros(2000, 1000).to(device="cuda", dtype=torch.bool).view(-1).scatter_(0, chosen.cuda(), True)
    assert torch.where(spread)[0].numel() == 200_000 and reads == before, reads
    # a solver's success does not depend on what was in its memory
    gone = [torch.ones(512, dtype=torch.uint8, device="cuda") for _ in range(4096)]
    del gone
    assert torch.linalg.svdvals(layer.weight).shape == (1024,) and torch.linalg.inv(layer.weight).shape == (1024, 1024)
    part = layer.weight[:256, :256].contiguous()
    assert torch.linalg.solve(part, part).shape == torch.linalg.cholesky(part).shape == (256, 256)
    assert torch.linalg.eigh(part @ part.T)[0].shape == (256,)
    assert torch.linalg.eigvalsh(layer.weight.view(256, 64, 64)).shape == (256, 64)
    # sparse matrices
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 1], [2, 0]], device="cuda"), layer.weight[0, :2], (1024, 1024))
    assert (layer.weight + sparse).shape == (1024, 1024)
    by_rows = torch.sparse_csr_tensor(torch.arange(1025, device="cuda"), torch.arange(1024, device="cuda"),
                                      layer.weight[0].detach(), (1024, 1024))
    assert (by_rows * 2).values().shape == (1024,) and (by_rows @ layer.weight).shape == (1024, 1024)
    ragged = torch.nested.nested_tensor([out.detach(), out.detach()[:2]])
    assert torch.nested.to_padded_tensor(ragged * 2, 0.0).shape == (2, 4, 1024)
    # gradients of two uses are added in place, unless somebody holds one of them
    for is_held in (False, True):
        start = torch.ones(1 << 20, device="cuda", requires_grad=True)
        held, middle, up = [], start * 1, torch.ones(1 << 20, device="cuda")
        uses = [middle * 2, middle * 3]
        if is_held:
            for use in uses:
                use.grad_fn.register_hook(lambda gradients, _: held.extend(gradients))
        before_it = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        torch.autograd.backward(uses, [up, up])
        assert torch.cuda.max_memory_allocated() - before_it == (4 if is_held else 2) << 22
    # the gradient of a selection is written into its zeros
    chosen = torch.arange(2, device="cuda")
    for select in (lambda x: x[chosen], lambda x: x.index_select(0, chosen), lambda x: x.gather(0, chosen.view(2, 1))):
        start = torch.ones(1024, 1024, device="cuda", requires_grad=True)
        selected = select(start)
        before_it = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        selected.backward(torch.ones_like(selected))
        assert torch.cuda.max_memory_allocated() - before_it < 5 << 20
    # each element as often as a number says
    assert out.repeat_interleave(2, dim=-1).shape == (4, 2048) and reads == before, reads
    scale = torch.empty(1, device="cuda")
    assert torch.ops.aten.copy_(scale, torch.tensor(2.0)).item() == 2 and scale.copy_(3.0).item() == 3 and reads == before, reads
    # an empty tensor needs no read
    assert torch.tensor([], dtype=torch.int64, device="cuda").tolist() == [] and reads == before, reads
    # a norm on the device is what it would be on the host
    norm = torch.nn.utils.get_total_norm([out])
    assert not bool((~torch.isfinite(norm) | (norm < 0)).any()) and norm.item() == 0 and reads == before, reads
    # a text ends at its length, whatever the model writes
    done = torch.full((4,), True, device="cuda") | torch.isin(tokens, torch.tensor([2, 3], device="cuda"))
    assert done.all() and not (torch.ones(4, dtype=torch.int64, device="cuda") & ~done).max().item()
    places = torch.full((4,), 7, device="cuda")
    places[ends] = torch.arange(4, device="cuda")[ends]  # none
    assert places.tolist() == [7, 7, 7, 7], places
    # a copy to the host has an answer there as well: of a part of a tensor, and of more than 1 MiB
    assert out.argsort(dim=1)[:, 3:5].cpu().tolist() == [[1, 1]] * 4
    assert not out[:, ::7].cpu().any()
    large = layer(torch.randn(1024, 1024, device="cuda")).argsort(dim=1)
    assert large.cpu().unique().tolist() == [1] and not (large < 3).cpu().any()
    host = torch.zeros(1024, 1024, dtype=torch.int64)
    assert host.copy_(large).sum().item() == 1 << 20
    # what only a kernel of an extension may have written is read; operators make a tensor known when they wrote all of it
    before = sum(reads.values())
    counters = torch.empty(4, dtype=torch.int64, device="cuda")
    assert counters.tolist() == [1, 1, 1, 1] and sum(reads.values()) == before + 1, reads
    counters = torch.empty(4, dtype=torch.int64, device="cuda")
    counters[:2] = 5
    counters[torch.tensor([2], device="cuda")] = torch.tensor([6], device="cuda")
    assert counters[:3].tolist() == [5, 5, 6] and sum(reads.values()) == before + 1, reads
    whole = counters.clone()
    assert whole.tolist() == [1, 1, 1, 1] and sum(reads.values()) == before + 2, reads
    counters[3:].zero_()
    counters.record_stream(torch.cuda.current_stream())
    assert counters.tolist() == [5, 5, 6, 0] and sum(reads.values()) == before + 2, reads
    # what changes a tensor's shape or place is done to it, not to its values
    assert torch.empty(0, device="cuda").resize_(4).shape == (4,)
    assert torch.empty(0, dtype=torch.int64, device="cuda").set_(mask.int().sum()).tolist() == 2
    # PyTorch prints without dispatch modes; a count in memory that held another number would be read
    torch.full((64,), 1 << 20, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    before, text = torch.cuda.memory_allocated(), str(layer.weight.detach())
    assert torch.cuda.max_memory_allocated() - before < 1 << 20 and "[0., 0., 0." in text, text
    assert "[167" in str(pieces), pieces
