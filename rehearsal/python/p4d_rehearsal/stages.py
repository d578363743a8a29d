# SPDX-License-Identifier: Apache-2.0
"""torch.distributed.pipelining with stages of absent ranks.

Before the first step each stage tells its neighbours the shapes that it sends. These are stored in
P4D_REHEARSAL_RECORD. If the previous stage was not played, the nearest earlier stage that was played answers for it,
since the layers between two stages keep the shape. The next stage answers with gradients of this stage's output."""
import dataclasses
import os
import pickle

from p4d_rehearsal import groups


def _path(stage):
    directory = os.environ.get("P4D_REHEARSAL_RECORD")
    return os.path.join(directory, "stage-%d" % stage) if directory else None


def _keep(meta, stage):
    path = _path(stage)
    if path:
        with open(path, "wb") as out:
            pickle.dump(meta, out)


def _nearest(stage):
    """The shapes that that stage, or the nearest earlier one that was played, told the next stage."""
    for earlier in range(stage, -1, -1):
        path = _path(earlier)
        if path and os.path.exists(path):
            with open(path, "rb") as kept:
                return pickle.load(kept)
    groups.unvalidated("p4d does not know which tensors stage %d receives, because it has rehearsed no earlier stage; use --ranks first,..." % (stage + 1))
    return None


def _gradient(meta):
    return dataclasses.replace(meta, requires_grad=False) if meta.requires_grad else None


def install(module):
    stage_class = getattr(module, "PipelineStage", None)
    if not hasattr(stage_class, "_recv_meta") or not hasattr(module, "_StageBackwardMeta"):
        return  # an earlier PyTorch, which sends objects (groups.py)

    def send_meta(self, meta, dst_stage):
        if dst_stage > self.stage_index:
            _keep(meta, self.stage_index)

    def receive_meta(self, src_stage):
        if src_stage < self.stage_index:
            return _nearest(src_stage)
        return module._StageBackwardMeta(backward_metas=tuple(map(_gradient, self._stage_meta.outputs)))

    stage_class._send_meta = send_meta
    stage_class._recv_meta = receive_meta


AFTER = {"torch.distributed.pipelining.stage": install}
