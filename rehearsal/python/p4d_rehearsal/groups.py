# SPDX-License-Identifier: Apache-2.0
"""Groups whose other ranks are absent.

PyTorch's own process group of NCCL runs on the stand-in of NCCL. A group of gloo would wait for its peers' sockets,
so PyTorch's own fake group takes its place. Collectives of Python objects take sizes from kernels, so this module
answers them: every absent rank holds the same as this one. Broadcast data is stored in P4D_REHEARSAL_RECORD, where
ranks that are played later read it."""
import ctypes
import functools
import os
import pickle

_counts = {}


def unvalidated(why):
    """Notes a doubt: sizes may depend on the data of another rank, which was not played."""
    getattr(ctypes.CDLL(None), "p4d_report_unvalidated", lambda text: None)(ctypes.c_char_p(why.encode()))


def _record(module, group, source):
    """The file of the next broadcast of objects from `source`; None without a record."""
    directory = os.environ.get("P4D_REHEARSAL_RECORD")
    if not directory:
        return None
    name = module._get_process_group_name(group or module._get_default_group())
    _counts[name, source] = number = _counts.get((name, source), 0) + 1
    return os.path.join(directory, "objects-%s-%s-%d" % (name, source, number))


def _global(module, group, rank, group_rank):
    """The rank in the world of a peer, which is given by its rank in the world or in the group."""
    if rank is None and group_rank is not None:
        return module.get_global_rank(group or module._get_default_group(), group_rank)
    return rank or 0


def _number(*key):
    _counts[key] = number = _counts.get(key, 0) + 1
    return number


def _keep_sent(objects, source, to):
    directory = os.environ.get("P4D_REHEARSAL_RECORD")
    if directory:
        with open(os.path.join(directory, "sent-%d-%d-%d" % (source, to, _number("sent", to))), "wb") as out:
            pickle.dump(objects, out)


def _sent(source, to):
    """What `source` sent. If it was not played: what the nearest rank before it sent to its own next rank; or None."""
    directory = os.environ.get("P4D_REHEARSAL_RECORD")
    number = _number("received", source)
    found = {}
    for name in os.listdir(directory) if directory else ():
        words = name.split("-")
        if len(words) == 4 and words[0] == "sent" and int(words[3]) == number:
            found[int(words[1]), int(words[2])] = name
    same_way = [key for key in found if (key[0] < key[1]) == (source < to) and key[0] <= source]
    key = (source, to) if (source, to) in found else max(same_way, default=None)
    if key is None:
        unvalidated("rank %d waits for objects of rank %d, but p4d has rehearsed no rank that sends any; --ranks first,... "
                    "rehearses one" % (to, source))
        return None
    with open(os.path.join(directory, found[key]), "rb") as kept:
        return pickle.load(kept)


def _objects(module):
    def all_gather_object(object_list, obj, group=None, **rest):
        object_list[:] = [obj] * len(object_list)

    def gather_object(obj, object_gather_list=None, dst=None, group=None, **rest):
        if object_gather_list:
            object_gather_list[:] = [obj] * len(object_gather_list)

    def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, **rest):
        if scatter_object_input_list:
            scatter_object_output_list[0] = scatter_object_input_list[module.get_rank(group)]

    def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None, **rest):
        if src is None:
            src = module.get_global_rank(group, group_src) if group is not None and group_src is not None else 0
        path = _record(module, group, src)
        if path and module.get_rank() == src:
            with open(path, "wb") as out:
                pickle.dump(list(object_list), out)
        elif path and os.path.exists(path):
            with open(path, "rb") as kept:
                object_list[:] = pickle.load(kept)
        else:
            unvalidated("p4d does not know what rank %d broadcasts, because p4d has not rehearsed that rank; use --ranks %s,..."
                        % (src, src or "first"))

    def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, **rest):
        _keep_sent(list(object_list), module.get_rank(), _global(module, group, dst, group_dst))

    def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, **rest):
        src = _global(module, group, src, group_src)
        sent = _sent(src, module.get_rank())
        if sent is not None:
            object_list[:] = sent
        return src

    for function in (all_gather_object, gather_object, scatter_object_list, broadcast_object_list, send_object_list,
                     recv_object_list):
        setattr(module, function.__name__, function)


def _gloo(module):
    from torch._C._distributed_c10d import FakeProcessGroup
    real = getattr(module, "ProcessGroupGloo", None)
    if real is None:
        return

    class Fake(FakeProcessGroup):
        """Before PyTorch 2.9 the fake group lacks this method."""

        def _set_sequence_number_for_group(self):
            pass

    class Gloo(type):
        """PyTorch makes such groups, asks isinstance() of them, and looks up their Options."""

        def __call__(cls, store, rank, size, *rest, **named):
            if hasattr(FakeProcessGroup, "_create_internal"):
                return FakeProcessGroup._create_internal(rank, size)
            return Fake(rank, size)

        def __instancecheck__(cls, group):
            return isinstance(group, (FakeProcessGroup, real))

        def __getattr__(cls, name):
            return getattr(real, name)

    module.ProcessGroupGloo = Gloo("ProcessGroupGloo", (), {})


def _expect(ranks, rank):
    """Tells the stand-in of NCCL the group of the next split, because NCCL itself would count its members."""
    getattr(ctypes.CDLL(None), "p4d_comm_expect_split", lambda *group: None)(ranks, rank)


def _splits(module):
    """PyTorch makes groups from an existing communicator by ncclCommSplit."""
    make = module._new_process_group_helper

    @functools.wraps(make)
    def new_group(group_size, group_rank, *rest, **named):
        _expect(group_size, -1 if group_rank is None else group_rank)
        try:
            return make(group_size, group_rank, *rest, **named)
        finally:
            _expect(0, 0)

    module._new_process_group_helper = new_group
    split = getattr(module, "split_group", None)
    if not split:
        return

    @functools.wraps(split)
    def split_group(parent_pg=None, split_ranks=None, *rest, **named):
        rank = (parent_pg or module._get_default_group()).rank()
        for ranks in split_ranks or ():
            if rank in ranks:
                _expect(len(ranks), list(ranks).index(rank))
                break
        try:
            return split(parent_pg, split_ranks, *rest, **named)
        finally:
            _expect(0, 0)

    module.split_group = split_group


def install(module):
    _gloo(module)
    _splits(module)
    _objects(module)
