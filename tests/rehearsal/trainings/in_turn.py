# SPDX-License-Identifier: Apache-2.0
"""Runs many trainings within one rehearsal, each in a child of its own: packages, which take most of a rehearsal's time, are
imported once. in_turn.py TASKS FOLDER, where TASKS has a list of {"name", "program", "words", "environment", "steps",
"until", "seconds"}. Of each NAME.jsonl in FOLDER has the phases that p4d's own module writes, each after a line with the
host's memory until it ended, and a last line of the whole program. NAME.log is what the program printed."""
import importlib
import json
import os
import resource
import runpy
import signal
import sys
import traceback
from pathlib import Path

COMMON = ["torch", "torch.distributed.fsdp", "torch._inductor.select_algorithm", "torch._dynamo.convert_frame"]
IMPORTS = {
    "with_transformers": ["transformers", "transformers.trainer", "accelerate", "peft", "bitsandbytes", "deepspeed",
                          "transformers.conversion_mapping", "transformers.integrations.finegrained_fp8"],
    "with_torchtitan": ["torch.distributed.tensor", "torchtitan.trainer", "torchtitan.models.llama3.config_registry",
                        "torchtitan.models.qwen3.config_registry"],
    "with_megatron": ["megatron.core.distributed", "megatron.core.models.gpt.gpt_layer_specs",
                      "megatron.core.models.gpt.gpt_model", "megatron.core.optimizer",
                      "megatron.core.pipeline_parallel.schedules"],
}


def run(task, folder):
    """In a child; does not return."""
    import torch
    from p4d_rehearsal import phases
    log = os.open(folder / (task["name"] + ".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number in (1, 2):
        os.dup2(log, number)
    signal.alarm(task["seconds"])
    for name, value in task["environment"].items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    torch.cuda._is_in_bad_fork = lambda: False  # nothing of the parent's is used
    if "PYTORCH_ALLOC_CONF" in task["environment"]:
        settings = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
        (settings or torch.cuda.memory._set_allocator_settings)(task["environment"]["PYTORCH_ALLOC_CONF"])
    path = str(folder / (task["name"] + ".jsonl"))
    phases.current.path, phases._steps = path, task["steps"]
    phases.current.wanted = set(task["until"])
    sys.argv = [task["program"], *task["words"]]

    def resident():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    leave, pools = phases.current.leave, {"side": 0, "small": 0}

    def leave_and_look():
        """What the allocator's pools of other streams, and that of small blocks, have reserved."""
        if torch.cuda.is_initialized():
            segments = torch.cuda.memory._snapshot()["segments"]
            for pool, some in (("side", [g for g in segments if g["stream"]]),
                               ("small", [g for g in segments if g["segment_type"] == "small"])):
                pools[pool] = max(pools[pool], sum(g["total_size"] for g in some))
            if os.environ.get("P4D_POOLS"):
                with open(path + ".pools", "a") as out:
                    out.write(json.dumps([phases.current.phase, phases.current.step, [
                        [g["stream"], g["segment_type"], g["total_size"], g["allocated_size"],
                         [b["size"] for b in g["blocks"] if b["state"] == "inactive"]] for g in segments]]) + "\n")
            with open(path, "a") as out:
                out.write(json.dumps({"until": phases.current.phase, "resident": resident(), **pools}) + "\n")
        leave()

    phases.current.leave = leave_and_look

    def note_host():
        with open(path, "a") as out:
            out.write(json.dumps({"resident": resident(), **pools}) + "\n")

    phases.at_end.append(note_host)
    try:
        runpy.run_path(task["program"], run_name="__main__")
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    phases.end(0)


def main():
    tasks, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    for name in COMMON + sorted({m for task in tasks for m in IMPORTS[Path(task["program"]).stem]}):
        try:
            importlib.import_module(name)
        except ImportError as error:
            print("not imported: %s: %s" % (name, error), flush=True)
    report = os.environ["P4D_REHEARSAL_REPORT"]
    for task in tasks:
        child = os.fork()
        if not child:
            run(task, folder)
        status = os.waitpid(child, 0)[1]
        if status == 0 and os.path.exists(report):
            (folder / (task["name"] + ".report")).write_bytes(Path(report).read_bytes())
        (folder / (task["name"] + ".done")).write_text(str(status))


main()
