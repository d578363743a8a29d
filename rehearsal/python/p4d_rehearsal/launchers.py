# SPDX-License-Identifier: Apache-2.0
"""Programs that themselves start the ranks: torchrun, accelerate launch, and programs that call them (trl,
llamafactory-cli).

Such a program really runs up to the point where it would start its first process. The command that it would start,
and the environment that it would pass on, go to the file P4D_REHEARSAL_LAUNCH, and the program ends. p4d then plays
these ranks."""
import json
import os
import sys

SPAWNED = "P4D_REHEARSAL_SPAWNED"


def _without(name, value):
    """A search path without p4d's own entries."""
    own = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.dirname(os.environ["P4D_REHEARSAL_LAUNCH"]))
    kept = [entry for entry in value.split(os.pathsep) if entry not in own and "libp4d-rehearsal" not in entry]
    return os.pathsep.join(kept)


def _environment(environment):
    paths = ("LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "PYTHONPATH")
    return ["%s=%s" % (name, _without(name, value) if name in paths else value)
            for name, value in environment.items() if not name.startswith("P4D_REHEARSAL_")]


def _tell(words, environment, nodes=0, ranks=0):
    """nodes 0: no ranks are started here; the words may be another launcher."""
    path = os.environ["P4D_REHEARSAL_LAUNCH"]
    with open(path + ".new", "w") as out:
        json.dump({"nodes": nodes, "ranks_per_node": ranks, "words": [str(word) for word in words],
                   "environment": _environment(environment), "directory": os.getcwd()}, out)
    os.rename(path + ".new", path)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def torch(module):
    """torch.distributed.launcher.api, for torchrun and everything that calls it."""
    launch = module.launch_agent

    def launch_agent(config, entrypoint, args, *rest, **named):
        if isinstance(entrypoint, str):
            _tell([entrypoint, *args], os.environ, config.max_nodes, config.nproc_per_node)
        return launch(config, entrypoint, args, *rest, **named)

    module.launch_agent = launch_agent


def accelerate(module):
    """accelerate.utils.launch: one process, or DeepSpeed's own launcher on several nodes."""

    def told(prepare):
        def prepared(*arguments, **named):
            words, environment = prepare(*arguments, **named)
            if words:
                _tell(words, environment)
            return words, environment

        return prepared

    for name in ("prepare_simple_launcher_cmd_env", "prepare_deepspeed_cmd_env"):
        if hasattr(module, name):
            setattr(module, name, told(getattr(module, name)))


def rendezvous(module):
    """torch.distributed.rendezvous: p4d's store answers for all ranks, whatever port the program chose for rank 0."""
    create = module._create_c10d_store
    port = os.environ["P4D_REHEARSAL_STORE"]

    def create_store(hostname, own_port, *rest, **named):
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", port
        return create("127.0.0.1", int(port), *rest, **named)

    module._create_c10d_store = create_store


def doubt_spawned():
    """Processes that a program itself starts have separate accounts, but write one report."""
    if os.environ.get(SPAWNED):
        from p4d_rehearsal import groups
        groups.unvalidated("the program starts %s processes itself, but p4d rehearses only ranks of torchrun, srun and other launchers"
                           % os.environ[SPAWNED])


def spawn(module):
    """torch.multiprocessing.spawn: each process may be a rank."""
    start = module.start_processes

    def start_processes(fn, args=(), nprocs=1, *rest, **named):
        if nprocs > 1:
            os.environ[SPAWNED] = str(nprocs)
            doubt_spawned()  # for children that are forked
        return start(fn, args, nprocs, *rest, **named)

    module.start_processes = start_processes


AFTER = {"torch.multiprocessing.spawn": spawn}
if os.environ.get("P4D_REHEARSAL_LAUNCH"):
    AFTER["torch.distributed.launcher.api"] = torch
    AFTER["accelerate.utils.launch"] = accelerate
if os.environ.get("P4D_REHEARSAL_STORE"):
    AFTER["torch.distributed.rendezvous"] = rendezvous
