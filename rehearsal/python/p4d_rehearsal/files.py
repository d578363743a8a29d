# SPDX-License-Identifier: Apache-2.0
"""Lists the files that decide what the program does: its own modules, the configuration files that it opened, and those
that tell which releases of PyTorch and others are installed.

If one of them changes, the rehearsal is no longer valid. P4D_REHEARSAL_FILES gets a line "python DIRECTORY" and a
line "file PATH" for each."""
import atexit
import os
import site
import sys
import sysconfig

_CONFIGURATIONS = (".json", ".yaml", ".yml", ".toml", ".ini", ".cfg", ".py")
_MOST_BYTES = 1 << 20  # a larger file with such a name is data
_RELEASES = ("torch", "transformers", "accelerate", "deepspeed", "peft", "trl", "bitsandbytes", "flash-attn", "megatron-core",
             "torchtitan", "torchtune", "lightning", "pytorch-lightning", "torchao", "liger-kernel", "transformer-engine",
             "vllm", "unsloth", "diffusers", "timm")
_MODULES = {"megatron-core": "megatron"}  # modules with another name than their package
_opened = {}  # path -> (size, time) at its first opening


def _note_open(event, arguments):
    if event != "open" or len(arguments) < 3:
        return
    path, flags = arguments[0], arguments[2]
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str) or not path.endswith(_CONFIGURATIONS) or (flags or 0) & (os.O_WRONLY | os.O_RDWR):
        return
    try:
        path = os.path.abspath(path)
        state = os.stat(path)
    except OSError:
        return
    if state.st_size <= _MOST_BYTES:
        _opened.setdefault(path, (state.st_size, state.st_mtime_ns))


def _installed():
    """Directories whose files change only with a release (found by _RELEASES), and the rehearsal's own, which are
    removed at its end."""
    paths = [os.path.dirname(os.environ["P4D_REHEARSAL_FILES"])]
    paths += [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += site.getsitepackages() + [site.getusersitepackages(), os.path.dirname(os.path.dirname(__file__))]
    paths += [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages")]
    return tuple(os.path.join(p, "") for p in paths if p)


def _modules():
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py"):
            yield os.path.abspath(path)


def _releases():
    import importlib.metadata
    for name in _RELEASES:
        if _MODULES.get(name, name.replace("-", "_")) not in sys.modules:
            continue
        try:
            folder = getattr(importlib.metadata.distribution(name), "_path", None)
        except importlib.metadata.PackageNotFoundError:
            continue
        path = os.path.join(str(folder), "METADATA") if folder else ""
        if os.path.isfile(path):
            yield os.path.abspath(path)


def _unchanged(path):
    """A file that the program itself wrote after reading it does not affect the next run."""
    try:
        state = os.stat(path)
    except OSError:
        return False
    return _opened[path] == (state.st_size, state.st_mtime_ns)


def write():
    installed = _installed()
    own = {p for p in _modules() if not p.startswith(installed) and os.path.isfile(p)}
    own |= {p for p in list(_opened) if not p.startswith(installed) and _unchanged(p)}
    with open(os.environ["P4D_REHEARSAL_FILES"], "a", encoding="utf-8", errors="surrogateescape") as out:
        out.write(f"python {os.path.realpath(sys.prefix)}\n")
        for path in sorted(own) + sorted(_releases()):
            out.write(f"file {path}\n")


def install():
    sys.addaudithook(_note_open)
    atexit.register(write)
