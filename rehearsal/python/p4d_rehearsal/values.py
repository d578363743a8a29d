# SPDX-License-Identifier: Apache-2.0
"""Computes small values for real.

Kernels do nothing in a rehearsal, but programs derive sizes and paths from values: whether a mask is all ones, which
expert gets a token. Device memory is host memory and copies of up to 1 MiB are really made, so values that come from
the host are known. This dispatch mode tracks which storages hold known values. It runs operators on small known
tensors on the CPU, in the same memory. All other operators run on the stand-in, and their results are unknown. top-k
of unknown values, by which routers choose experts, distributes tokens evenly. An unknown value that the program reads
is counted and reported."""
import atexit
import ctypes
from types import SimpleNamespace

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from p4d_rehearsal import compiled, custom, own_bytes, reads, routing, seeds, sizes, solvers, sums, unsigned
from p4d_rehearsal.trees import mapped as _mapped, tensors as _tensors

SMALL = 1 << 20  # bytes; P4D_ACCOUNT_SMALL of the stand-ins
aten = torch.ops.aten
PLAIN = (torch.Tensor, torch.nn.Parameter)

# Operators whose result leaves the device: as a number, or as the size of a tensor.
READS = {aten._local_scalar_dense, aten.nonzero, aten._unique2, aten.unique_dim, aten.unique_consecutive,
         aten.masked_select, aten.repeat_interleave, aten.bincount, aten.equal, aten.is_nonzero}
# The same, if a number in the call alone decides the size of the result.
SIZED_BY_NUMBER = {aten.repeat_interleave.self_int}
COPIES = {aten._to_copy, aten.copy_}
# torch.tensor() copies to the device before it calls one of these.
FRESH = {aten.lift_fresh, aten.lift_fresh_copy, aten.lift}
# Operators whose results have no values yet.
EMPTY = {aten.empty, aten.empty_strided, aten.empty_like, aten.new_empty, aten.new_empty_strided, aten.record_stream}
# Operators that replace the values of their first argument: all of them, or those at given indices.
WRITES = {aten.copy_, aten.fill_, aten.zero_, aten.normal_, aten.uniform_, aten.random_, aten.bernoulli_, aten.exponential_}
WRITES_PARTS = {aten.index_put_, aten._index_put_impl_}
COLLECTIVES = {"c10d", "_c10d_functional", "_c10d_functional_autograd"}
# Operators that take a shape from their argument, but no values.
FILLED = {aten.zeros_like: 0, aten.ones_like: 1, aten.new_zeros: 0, aten.new_ones: 1}
FACTORIES = {aten.zeros, aten.ones, aten.full, aten.arange, aten.rand, aten.randn}

# DeepSpeed's zero.Init replaces these with its own functions, whose results are on the device and of another type.
make = SimpleNamespace(empty=torch.empty, full=torch.full, zeros=torch.zeros, arange=torch.arange)

known = {}  # address of a storage -> that storage; a later storage at the address is another one
blank = {}  # address of a storage without values yet -> _Blank
UNANSWERED, MISSING = 6, 7  # p4d_report_count of the stand-ins


class _OneThread:
    """Uses one thread for small tensors: other threads would only be waited for, which takes milliseconds on a busy
    machine."""

    def __enter__(self):
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def __exit__(self, *error):
        torch.set_num_threads(self.threads)


def _is_plain(tensor):
    """Whether the tensor has a storage of its own: no subclass, and neither sparse nor nested."""
    return type(tensor) in PLAIN and tensor.layout is torch.strided and not tensor.is_nested


def _address(tensor):
    return tensor.untyped_storage().data_ptr()


def _is_small(tensor):
    return tensor.untyped_storage().nbytes() <= SMALL


def _can_be_known(tensor):
    """Integers and flags decide routing (tokens by expert), so larger ones are tracked than the stand-ins copy."""
    return _is_small(tensor) or (tensor.dtype in sizes.WHOLE
                                 and tensor.untyped_storage().nbytes() <= sizes.FOLLOWED * tensor.itemsize)


def _is_known(tensor):
    """The same for a number that is copied into a tensor."""
    if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda or not tensor.numel():
        return True
    if not _is_plain(tensor) or not _can_be_known(tensor):
        return False
    kept = known.get(_address(tensor))
    if kept is not None and kept.cdata == tensor.untyped_storage()._cdata:
        return True
    filled = _blank_of(tensor)
    return bool(filled and filled.has(tensor))


def _mark(tensor, is_known):
    if not tensor.is_cuda or not _is_plain(tensor):
        return
    address = _address(tensor)
    if not address:
        return
    blank.pop(address, None)
    own_bytes.forget(address)
    routing.forget(address)
    if is_known and _can_be_known(tensor):
        known[address] = StorageWeakRef(tensor.untyped_storage())
    else:
        known.pop(address, None)


class _Blank:
    """A storage that operators fill piece by piece. It counts as known once they have written all of it. Until then,
    a kernel that PyTorch does not dispatch may also write there."""

    def __init__(self, tensor):
        self.storage = StorageWeakRef(tensor.untyped_storage())
        self.itemsize = tensor.itemsize
        self.written = None  # by element

    def place(self, tensor):
        return self.written.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())

    def has(self, tensor):
        """Whether all elements of a view are written."""
        return self.written is not None and tensor.itemsize == self.itemsize and bool(self.place(tensor).all())

    def write(self, function, arguments):
        """An operator wrote known values. Returns whether all of the storage is written."""
        tensor = arguments[0]
        if tensor.itemsize != self.itemsize:
            return False
        if self.written is None:
            self.written = make.zeros(tensor.untyped_storage().nbytes() // self.itemsize, dtype=torch.bool)
        place = self.place(tensor)
        if function.overloadpacket in WRITES_PARTS:
            place.index_put_([None if i is None else _on_host(i) for i in arguments[1]], torch.tensor(True))
        else:
            place.fill_(True)
        return bool(self.written.all())


def _mark_blank(tensor):
    _mark(tensor, False)
    if _is_plain(tensor) and tensor.is_cuda and _address(tensor) and _can_be_known(tensor):
        blank[_address(tensor)] = _Blank(tensor)


def _blank_of(tensor):
    """Knowledge about a storage without values yet; None: it has values."""
    kept = blank.get(_address(tensor)) if tensor.is_cuda and _is_plain(tensor) else None
    return kept if kept and kept.storage.cdata == tensor.untyped_storage()._cdata else None


def _on_host(tensor):
    """The memory of a device's tensor, as a tensor of the CPU."""
    if not tensor.is_cuda:
        return tensor
    bytes_ = tensor.untyped_storage().nbytes()
    if not bytes_:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    memory = torch.frombuffer((ctypes.c_char * bytes_).from_address(_address(tensor)), dtype=torch.uint8)
    return make.empty(0, dtype=tensor.dtype).set_(memory.untyped_storage(), tensor.storage_offset(), tensor.size(),
                                                   tensor.stride())


def _is_large_whole(tensor):
    """Whether the tensor covers all of a large storage."""
    return not _is_small(tensor) and tensor.numel() * tensor.itemsize == tensor.untyped_storage().nbytes()


def _fill(tensor, value):
    """Pages that contain only zeros use no memory of the host."""
    if value == 0 and not _is_small(tensor):
        ctypes.CDLL(None).cudaMemset(ctypes.c_void_p(_address(tensor)), 0, ctypes.c_size_t(tensor.untyped_storage().nbytes()))
    elif tensor.numel():
        _on_host(tensor).fill_(value)


class Values(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self, account=None):
        super().__init__()
        self.account = account
        self.work = account.phases.work if account else None
        self.count = getattr(ctypes.CDLL(None), "p4d_report_count_of", lambda number: 0)
        self.count.restype = ctypes.c_uint64
        self.nobody_knows = getattr(ctypes.CDLL(None), "p4d_comm_nobody_knows", lambda is_unknown: None)

    @classmethod
    def ignore_compile_internals(cls):
        """Otherwise torch.compile would not compile functions: the mode is off while it traces, and on when they
        run."""
        return True

    @classmethod
    def is_infra_mode(cls):
        """The same, for releases of PyTorch that only check this, such as 2.7."""
        return not hasattr(TorchDispatchMode, "ignore_compile_internals")

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        named = named or {}
        if not isinstance(function, torch._ops.OpOverload):
            return self.run_higher(function, arguments, named)
        if custom.is_python(function) and self.is_on_device(_tensors((arguments, named))):
            return custom.run(self, function, arguments, named)
        if self.account:
            self.account.note()
        self.place_missing("")
        before = self.work.launches() if self.work else 0
        try:
            result = self.run(function, arguments, named)
        finally:
            self.place_missing()
        sums.note(function, result)
        if self.account:
            self.account.after(function, arguments, result)
            self.work.operator(function, arguments, named, self.work.launches() - before, result)
        return result

    def place_missing(self, place=None):
        """Notes the places of calls of missing functions. Between operators the place is unknown."""
        while self.count(MISSING) > len(reads.missing_places):
            reads.missing_places.append(reads.place() if place is None else place)

    def run(self, function, arguments, named):
        if function.overloadpacket is aten._coalesce and arguments[0].is_cuda:
            return sizes.coalesced(arguments[0], _is_known, _on_host, lambda: reads.note_read(aten._coalesce))
        tensors = _tensors((arguments, named))
        device = self.device_of(tensors, named)
        if device is None or device.type != "cuda" or not all(map(_is_plain, tensors)):
            result = reads.run_below(function, arguments, named, lambda t: _is_small(t) and not _is_known(t), self.invent)
            own_bytes.follow(function.overloadpacket, function.overloadpacket in READS, tensors, lambda: _tensors(result))
            return result
        operator = function.overloadpacket
        if routing.sizes_by_assumed(operator, tensors) and not sizes.fills(operator, arguments, named):
            reads.note_read(operator)
        done, result = self.answer_unknown(operator, function, arguments, named, device)
        if done:
            return result
        if operator in sizes.MASKED and sizes.has_mask(arguments) and not sizes.fills(operator, arguments, named):
            arguments = sizes.indices_of(arguments, _is_known, _on_host, self.put, lambda: reads.note_read(operator))
            tensors = _tensors((arguments, named))
        replaced = self.replaced(operator, arguments)
        all_known = (all(_is_known(t) for t in tensors if t is not replaced)
                     or self.is_written_whole(operator, arguments))
        if not all_known and operator in READS and function not in SIZED_BY_NUMBER:
            return self.read(operator, function, arguments, named, device)
        if operator in COPIES and self.leaves_device(operator, arguments, named):
            return self.bring_to_host(operator, function, arguments, named)
        returns_view = any(r.alias_info is not None for r in function._schema.returns)
        writes = function._schema.is_mutable
        if (returns_view and not writes) or torch.Tag.inplace_view in function.tags:
            return function(*arguments, **named)  # the storage stays as known as it was
        if all_known and self.can_compute(operator, function, arguments, named, tensors):
            try:
                with _OneThread():
                    result = self.compute(function, arguments, named, device, writes)
            except (RuntimeError, NotImplementedError, TypeError):
                result = None  # no such operator on the CPU
            if result is not None:
                return result
        solvers.prepare(function)
        function = sums.in_place(function, arguments)
        result = function(*arguments, **named)
        self.mark_results(operator, function, arguments, named, result, writes, all_known)
        return result

    def answer_unknown(self, operator, function, arguments, named, device):
        """Whether this module itself answers for the operator, and the answer."""
        if routing.chooses(function, arguments, named) and not _is_known(arguments[0]):
            return True, self.route(function, arguments, named)
        if function is aten.multinomial.default and not _is_known(arguments[0]):
            result = routing.run(function, arguments, named)
            _mark(result, False)
            return True, result
        answer = sizes.compared(operator, arguments, named)
        if answer is not None and not _is_known(arguments[0]):
            if operator not in sizes.FINITE:
                reads.note_answer(operator)
            flags = self.answer(function, arguments, named, answer)
            if operator in (aten.eq, aten.ne):
                routing.note_assumed(flags)
            return True, flags
        answer = sizes.absorbed(operator, arguments, _is_known, _on_host)
        if answer is not None and not all(map(_is_known, arguments[:2])):
            return True, self.answer(function, arguments, named, answer)
        if operator in FILLED and not _is_known(arguments[0]):
            return True, self.answer(function, arguments, named, FILLED[operator])
        if operator is aten.masked_select and _is_known(arguments[1]) and not _is_known(arguments[0]):
            return True, self.select(*arguments)
        if function.namespace in COLLECTIVES:
            return True, self.communicate(function, arguments, named)
        if operator is aten._linalg_check_errors and not _is_known(arguments[0]):
            return True, None  # a training without faults has no errors
        if operator in FRESH:
            _mark(arguments[0], True)
            return True, function(*arguments, **named)
        if operator in sizes.SIZED:
            shape = arguments[sizes.SIZED[operator]]
            return True, make.empty(shape, dtype=arguments[0].dtype, device=device)
        return False, None

    @staticmethod
    def replaced(operator, arguments):
        """The tensor without values that is written now; None: the operator reads its arguments."""
        if operator not in WRITES and (operator not in WRITES_PARTS or (len(arguments) > 3 and arguments[3])):
            return None
        return arguments[0] if _blank_of(arguments[0]) else None

    @staticmethod
    def is_written_whole(operator, arguments):
        """Whether known values replace all values of a large integer tensor."""
        return (operator is aten.copy_ and arguments[0].is_cuda and _is_large_whole(arguments[0])
                and _can_be_known(arguments[0]) and _is_known(arguments[1]))

    @staticmethod
    def run_higher(function, arguments, named):
        """An operator whose arguments are functions, such as flex_attention: their results are unknown."""
        result = function(*arguments, **named)
        for tensor in _tensors(result):
            _mark(tensor, False)
        return result

    @staticmethod
    def is_on_device(tensors):
        return any(t.is_cuda for t in tensors) and all(map(_is_plain, tensors))

    @staticmethod
    def device_of(tensors, named):
        for tensor in tensors:
            if tensor.is_cuda:
                return tensor.device
        return torch.device(named["device"]) if named.get("device") is not None else None

    @staticmethod
    def route(function, arguments, named):
        """An operator that chooses experts by unknown scores."""
        reads.even_routes += 1
        result = routing.run(function, arguments, named)
        scores, dim = arguments[0], routing.dimension(function, arguments, named)
        chosen = result if isinstance(result, torch.Tensor) else result[1]
        if chosen.numel() and _can_be_known(chosen):
            k = chosen.numel() * scores.shape[dim] // scores.numel()
            _on_host(chosen).copy_(routing.even_indices(scores, k, dim).view(chosen.shape))
            _mark(chosen, True)
        if chosen is not result:
            _mark(result[0], False)
        return result

    @staticmethod
    def answer(function, arguments, named, value):
        result = function(*arguments, **named)
        if isinstance(result, torch.Tensor) and _is_plain(result) and _can_be_known(result):
            _fill(result, value)
            _mark(result, True)
        return result

    @classmethod
    def assume(cls, tensor, result, value):
        """The result of a check of the tensor, with an answer if the tensor is unknown."""
        is_checked = isinstance(tensor, torch.Tensor) and not _is_known(tensor)
        return cls.answer(lambda: result, (), {}, value) if is_checked else result

    @staticmethod
    def select(tensor, mask):
        """The mask alone gives the number of elements."""
        shape = torch.broadcast_shapes(tensor.shape, mask.shape)
        count = int(_on_host(mask).expand(shape).sum())
        result = make.empty(count, dtype=tensor.dtype, device=tensor.device)
        _mark(result, False)
        return result

    def communicate(self, function, arguments, named):
        """The stand-in of NCCL moves small data, so results from known data are known."""
        unanswered = self.count(UNANSWERED)
        reduces = "reduce" in function.overloadpacket.__name__
        sent, received = [], []
        for argument, value in _with_values(function, arguments, named):
            tensors = _tensors(value)
            writes = argument.alias_info is not None and argument.alias_info.is_write
            received += tensors if writes or "output" in argument.name else []
            sent += tensors if "output" not in argument.name else []
        self.nobody_knows(not all(map(_is_known, sent)))
        try:
            result = function(*arguments, **named)
        finally:
            self.nobody_knows(False)
        answered = self.count(UNANSWERED) == unanswered
        # Sums of 16-bit values are left unchanged.
        is_known = all((_is_known(t) or _blank_of(t)) and not (reduces and t.is_floating_point() and t.itemsize < 4)
                       for t in sent) and answered
        for tensor in received + _tensors(result):
            is_own = any(tensor is t for t in sent if not reduces)  # data that this rank broadcasts stays as known as it was
            if is_own and not answered and tensor.dtype == torch.uint8 and not _blank_of(tensor):
                _mark(tensor, False)
                own_bytes.note(tensor)
            elif not is_own or not answered or _blank_of(tensor):
                _mark(tensor, is_known and _is_small(tensor))
        if "recv" in function.overloadpacket.__name__:
            for tensor in sent:  # the stand-in answers for integers, or reports that it cannot
                _mark(tensor, not tensor.is_floating_point() and tensor.itemsize >= 4 and _is_small(tensor))
        return result

    @staticmethod
    def put(tensor, values):
        if tensor.numel() and _can_be_known(tensor):
            _on_host(tensor).copy_(values)
            _mark(tensor, True)

    def read(self, operator, function, arguments, named, device):
        """An operator that needs unknown values."""
        if not self.is_logged(operator, arguments):
            reads.note_read(operator)
        elif arguments[0].numel():
            reads.note_answer(operator)
        if operator is aten._local_scalar_dense:
            if arguments[0].is_cuda and _is_small(arguments[0]):
                self.invent(arguments[0])
            return function(*arguments, **named)
        if operator is aten.equal:
            return arguments[0].shape == arguments[1].shape
        instead = sizes.substitute(operator, arguments)
        if instead is None:
            return function(*arguments, **named)
        return _mapped(lambda t: make.empty(t.shape, dtype=t.dtype, device=device),
                             function(*instead, **named))

    @staticmethod
    def invent(tensor):
        """Writes the number that unknown values are read as, also over elements that were known."""
        if own_bytes.has(tensor):
            return
        _mark(tensor, False)
        _on_host(tensor).fill_(sizes.number(tensor))

    @staticmethod
    def leaves_device(operator, arguments, named):
        """Whether the operator copies to the host what the stand-in's copy cannot: unknown values, and many
        integers."""
        source = arguments[1] if operator is aten.copy_ else arguments[0]
        target = arguments[0].device if operator is aten.copy_ else named.get("device")
        if target is None or torch.device(target).type != "cpu" or not source.is_cuda:
            return False
        return (_is_small(source) and not _is_known(source)) or (not _is_small(source) and source.dtype in sizes.WHOLE)

    def bring_to_host(self, operator, function, arguments, named):
        """Integers that are copied to the host will be read there. Large ones are computed there."""
        source = arguments[1] if operator is aten.copy_ else arguments[0]
        is_known = _is_known(source)
        if source.dtype in sizes.WHOLE and not is_known:
            reads.note_read(operator)
        elif not is_known:
            reads.note_answer(operator)
        if _is_small(source) or is_known:
            on_host = _on_host(source)
        else:
            on_host = make.full((), sizes.number(source), dtype=source.dtype).expand(source.shape)
        if _is_small(source) and not is_known:
            self.invent(source)
        if operator is aten.copy_:
            result = function(arguments[0], on_host, *arguments[2:], **named)
        else:
            result = function(on_host, *arguments[1:], **named)
        if own_bytes.has(source):
            own_bytes.note_on_host(result)
        return result

    @staticmethod
    def is_logged(operator, arguments):
        """A single floating-point number is a loss or a norm, which decides no size; an empty tensor has no values."""
        return not arguments[0].numel() or (operator is aten._local_scalar_dense and arguments[0].is_floating_point())

    @staticmethod
    def can_compute(operator, function, arguments, named, tensors):
        if operator in EMPTY:
            return False
        if operator is aten._to_copy and sizes.are_brought(arguments[0], named):
            return True
        most = sizes.FOLLOWED if sizes.is_whole(tensors, named) else SMALL
        if operator in FACTORIES and isinstance(arguments[0], (list, tuple)) and most == SMALL:
            most //= 8
        if sizes.elements(function, arguments, tensors) > most:
            return False  # large values are unknown, and would use the host's memory
        return all(t.numel() <= sizes.FOLLOWED if t.is_cuda else t.numel() * t.element_size() <= SMALL for t in tensors)

    @staticmethod
    def compute(function, arguments, named, device, writes):
        """Runs the operator on the CPU; None if that is not possible."""
        if writes:
            if not arguments or not isinstance(arguments[0], torch.Tensor) or not arguments[0].is_cuda or "out" in named:
                return None
            if function.overloadpacket is aten.zero_ and _is_large_whole(arguments[0]):
                _fill(arguments[0], 0)  # autotuners clear 256 MB before each call of a kernel
            else:
                function(*_mapped(_on_host, arguments), **_mapped(_on_host, named))
            filled = _blank_of(arguments[0])
            if not filled or filled.write(function, arguments):
                _mark(arguments[0], True)
            return arguments[0]
        on_host = {name: torch.device("cpu") if isinstance(value, torch.device) else value
                   for name, value in _mapped(_on_host, named).items() if name != "pin_memory"}
        result = function(*_mapped(_on_host, arguments), **on_host)
        to = torch.device(named["device"]) if named.get("device") is not None else device
        operator = function.overloadpacket

        def on_device(tensor):
            if to.type != "cuda":
                return tensor
            copy = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=to)
            if operator in sizes.ZEROS and not _is_small(copy) and _can_be_known(copy):
                _fill(copy, 0)
            elif copy.numel() and _can_be_known(copy):
                _on_host(copy).copy_(tensor)
            _mark(copy, True)
            return copy

        return _mapped(on_device, result)

    @staticmethod
    def mark_results(operator, function, arguments, named, result, writes, all_known):
        if operator is aten.record_stream:
            return  # records who uses the tensor, and writes nothing
        if operator in EMPTY:
            _mark_blank(result)
            return
        if not writes:
            states = seeds.states(function, result)
            for tensor in _tensors(result):
                # The stand-in copies from the host, unless the type changes on the device.
                source = arguments[0] if arguments and isinstance(arguments[0], torch.Tensor) else None
                copied = operator is aten._to_copy and source is not None and _is_known(source)
                same = copied and _is_small(tensor) and (source.dtype == tensor.dtype or not tensor.is_cuda)
                _mark(tensor, same or any(tensor is state for state in states))
            return
        for argument, value in _with_values(function, arguments, named):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            if argument.name == "found_inf":
                continue  # a training without faults has finite gradients: it stays 0
            for tensor in _tensors(value):
                whole = tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()
                _mark(tensor, operator is aten.copy_ and _is_small(tensor)
                      and (all_known or (_is_known(arguments[1]) and whole)))


def _with_values(function, arguments, named):
    """The arguments that a call has, by position and by name."""
    declared = function._schema.arguments
    return list(zip(declared, arguments)) + [(a, named[a.name]) for a in declared if a.name in named]


def forget(values):
    """Kernels that PyTorch does not dispatch also write to tensors."""
    for tensor in _tensors(values):
        if tensor.is_cuda and _is_plain(tensor):
            _mark(tensor, False)


# The mode that is on. PyTorch 2.4 and 2.7 free a mode without other references while torch.compile turns it off.
entered = []


def _print_from_host():
    """PyTorch prints a tensor without dispatch modes, so kernels would answer how many elements are finite, and what
    they are. Unknown values are printed as zeros."""
    printing = torch._tensor_str
    plain = printing._tensor_str

    def text(self, indent):
        if self.is_cuda and _is_plain(self):
            self = _on_host(self) if _is_known(self) else make.zeros((), dtype=self.dtype).expand(self.shape)
        return plain(self, indent)

    printing._tensor_str = text


def install():
    from p4d_rehearsal import phases
    unsigned.install()
    compiled.allow_higher(Values)
    _print_from_host()
    mode = Values(phases.current.account if phases.current else None)
    mode.__enter__()
    entered.append(mode)
    atexit.register(reads.write)
    phases.at_end.append(reads.write)
