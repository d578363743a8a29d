# SPDX-License-Identifier: Apache-2.0
"""Starts of vLLM: ends the program when its engine has its KV cache, and writes the engine's report.

The engine runs in the program or in a separate process. A row {"serving": {...}} of P4D_REHEARSAL_PHASES has the
report; then the file P4D_REHEARSAL_SERVED is created, and p4d ends the program. If an engine has several workers, p4d
plays the first one, in the engine's process, as vLLM itself does for workers that torchrun started. An engine whose
workers are the program's own ranks (vLLM's external launcher, as in trainers, also with one worker) is followed but
does not end the program."""
import ctypes
import os
import resource
import sys
import time

# vLLM's messages if the GPU has too little memory for its KV cache.
SHORT = ("No available memory for the cache blocks", "larger than the available KV cache memory",
         "larger than the maximum number of tokens that can be stored in KV cache")
SERVERS = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
SOCKET_PATH, SOCKET_NAME = 107, 37  # bytes of a socket's path; vLLM appends "/" and a UUID


def _is_server(words):
    """Whether words of Python start only vLLM's own server."""
    for before, word in zip(words, words[1:]):
        if before == "-m" and word in SERVERS:
            return True
        if word == "serve" and os.path.basename(before) in ("vllm", "vllm.entrypoints.cli.main"):
            return True
    return False


def _env(module):
    """vllm.envs: before any code reads these variables."""
    for name, value in {"VLLM_NO_USAGE_STATS": "1", "VLLM_WORKER_MULTIPROC_METHOD": "fork"}.items():
        os.environ.setdefault(name, value)
    own = os.path.dirname(os.environ["P4D_REHEARSAL_SERVED"])
    os.environ["VLLM_CACHE_ROOT"] = os.path.join(own, "vllm")
    if len(os.fsencode(own)) + SOCKET_NAME <= SOCKET_PATH:
        os.environ["VLLM_RPC_BASE_PATH"] = own
    words = getattr(sys, "orig_argv", sys.argv)
    if not any("multiprocessing" in word for word in words):  # otherwise it is one of the program's processes
        os.environ["P4D_REHEARSAL_SERVER"] = "1" if _is_server(words) else ""


def _is_short(error):
    """Whether the GPU's memory is the reason why an engine did not start; "memory" may also be the host's."""
    seen = []
    while error is not None and error not in seen:
        kinds = [kind for kind in type(error).__mro__ if kind.__module__.split(".")[0] == "torch"]
        if any(kind.__name__ == "OutOfMemoryError" for kind in kinds) or any(text in str(error) for text in SHORT):
            return True
        seen.append(error)
        error = error.__cause__
    return False


def _is_external(executor):
    return "ExternalLauncher" in executor.__name__


def _play_first(config):
    """The first of the workers, in this process; the others are absent ranks of p4d's store and of the stand-in of
    NCCL."""
    from vllm.v1.executor.uniproc_executor import ExecutorWithExternalLauncher
    own, parallel = os.environ["P4D_REHEARSAL_LIBRARY"], config.parallel_config
    os.environ.update({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(parallel.world_size), "MASTER_ADDR": "127.0.0.1",
                       "LOCAL_WORLD_SIZE": str(parallel.world_size), "MASTER_PORT": os.environ["P4D_REHEARSAL_ENGINE_STORE"],
                       "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
                       "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NCCL_SO_PATH": own})
    # Functions that open the memory of other ranks.
    os.environ.update({"VLLM_ALLREDUCE_USE_SYMM_MEM": "0", "VLLM_ALLREDUCE_USE_FLASHINFER": "0"})
    parallel.disable_custom_all_reduce = True
    passes = getattr(config.compilation_config, "pass_config", None)
    if getattr(passes, "fuse_allreduce_rms", False):
        passes.fuse_allreduce_rms = False
    return ExecutorWithExternalLauncher


def _whole(value):
    return int(value) if isinstance(value, (int, float)) else 0


class _Start:
    """The start of one engine."""

    def __init__(self, config, executor):
        self.config = config
        self.workers = config.parallel_config.world_size
        self.external = _is_external(executor)
        self.core = None

    def row(self):
        import vllm
        config, cache = self.config, self.config.cache_config
        row = {"engine": "vLLM", "release": getattr(vllm, "__version__", ""), "workers": self.workers,
               "external": self.external, "server": bool(os.environ.get("P4D_REHEARSAL_SERVER")), "pid": os.getpid(),
               "worker_resident": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
               "max_model_len": _whole(config.model_config.max_model_len),
               "max_num_seqs": _whole(config.scheduler_config.max_num_seqs),
               "max_num_batched_tokens": _whole(config.scheduler_config.max_num_batched_tokens),
               "blocks": _whole(cache.num_gpu_blocks)}
        row["tokens"] = _whole(getattr(cache, "kv_cache_size_tokens", 0)) or row["blocks"] * _whole(cache.block_size)
        row["concurrency"] = (getattr(cache, "kv_cache_max_concurrency", 0) or row["tokens"] / (row["max_model_len"] or 1))
        row.update(self.of_worker())
        return row

    def of_worker(self):
        executor = getattr(self.core, "model_executor", None)
        worker = getattr(getattr(executor, "driver_worker", None), "worker", None)
        runner = getattr(worker, "model_runner", None)
        graphs = _whole(getattr(worker, "cudagraph_memory_estimate", 0))
        activations = _whole(getattr(worker, "peak_activation_memory", 0))
        return {"weights": _whole(getattr(runner, "model_memory_usage", 0)), "graphs": graphs,
                "activations": max(activations - graphs, 0) if _counts_graphs() else activations,
                "budget": _whole(getattr(worker, "requested_memory", 0)),
                "cache": _whole(getattr(worker, "available_kv_cache_memory_bytes", 0))}

    def write(self, error=None):
        from p4d_rehearsal import phases
        row = self.row()
        if error is not None:
            row["error"] = " ".join(("%s: %s" % (type(error).__name__, error)).split())
            row["short_of_memory"] = _is_short(error)
        if not phases.current:
            return
        phases.current.write({"serving": row})
        if not self.external:
            for write in phases.at_end:
                write()
            ctypes.CDLL(None).p4d_report_write()

    def end(self):
        """p4d ends all processes of the program."""
        sys.stdout.flush()
        sys.stderr.flush()
        with open(os.environ["P4D_REHEARSAL_SERVED"], "w"):
            pass
        time.sleep(10)
        os._exit(0)


def _counts_graphs():
    import vllm.envs
    return bool(getattr(vllm.envs, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", False))


def _core(module):
    """vllm.v1.engine.core"""
    engine = module.EngineCore
    make, fill = engine.__init__, engine._initialize_kv_caches

    def init(self, vllm_config, executor_class, *rest, **named):
        start = self._p4d_start = _Start(vllm_config, executor_class)
        start.core = self
        if start.workers > 1 and not start.external:
            executor_class = _play_first(vllm_config)
        try:
            make(self, vllm_config, executor_class, *rest, **named)
        except Exception as error:
            start.write(error)
            raise

    def initialize(self, *arguments, **named):
        executor, start = self.model_executor, self._p4d_start
        warm_up = getattr(executor, "compile_or_warm_up_model", None)
        if warm_up and not start.external and _counts_graphs():
            def up(*rest, **options):  # the cache exists; graphs are included in the count
                start.write()
                start.end()

            executor.compile_or_warm_up_model = up
        result = fill(self, *arguments, **named)
        start.write()
        if not start.external:
            start.end()
        return result

    engine.__init__, engine._initialize_kv_caches = init, initialize


def _worker(module):
    """vllm.v1.worker.gpu_worker: values that are read while weights are loaded and packed are weights, so no size
    depends on them."""
    load = module.Worker.load_model

    def load_model(self, *arguments, **named):
        from p4d_rehearsal import reads
        before = dict(reads.unknown_reads)
        result = load(self, *arguments, **named)
        reads.unknown_reads.clear()
        reads.unknown_reads.update(before)
        return result

    module.Worker.load_model = load_model


def _queues(module):
    """vllm.distributed.device_communicators.shm_broadcast: there are no other readers; without a queue the group
    itself broadcasts."""
    module.MessageQueue.create_from_process_group = staticmethod(lambda *arguments, **named: None)


def _state(module):
    """vllm.distributed.parallel_state: absent ranks, for which NCCL's stand-in answers, are on this node."""
    def in_the_same_node_as(group, source_rank=0):
        import torch
        return [True] * (getattr(group, "world_size", None) or torch.distributed.get_world_size(group))

    module.in_the_same_node_as = in_the_same_node_as


class _Kernels:
    """A module of kernels that would be compiled here: like all kernels they do nothing, and their results are
    unknown."""

    def __getattr__(self, name):
        def launch(*arguments, **named):
            from p4d_rehearsal import values
            values.forget((arguments, named))

        return launch


def _flashinfer(module):
    """flashinfer.jit.core: compiling the samplers' kernels takes a compiler and minutes; all of them write to the
    caller's tensors."""
    spec = module.JitSpec
    load = spec.build_and_load

    def build_and_load(self):
        return _Kernels() if self.name == "sampling" else load(self)

    spec.build_and_load = build_and_load


AFTER = {"vllm.envs": _env, "vllm.v1.engine.core": _core, "vllm.v1.worker.gpu_worker": _worker, "flashinfer.jit.core": _flashinfer,
         "vllm.distributed.device_communicators.shm_broadcast": _queues, "vllm.distributed.parallel_state": _state}
if not os.environ.get("P4D_REHEARSAL_SERVED"):
    AFTER = {}
