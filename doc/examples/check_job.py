#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_job.py [SBATCH OPTION]... JOB.sh: what p4d says of a job script, asked through libp4d.so.

A portal or a workflow manager has the text of a script and the options of sbatch. It can show the user what p4d says before it
submits. p4d(3) describes the functions, p4d-json(5) the members that number() and text() find.
"""
import ctypes
import os
import sys


class Library:
    """The functions of p4d.h."""

    def __init__(self):
        self.c = ctypes.CDLL(os.environ.get("LIBP4D", "libp4d.so.0"))
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        self.declare("p4d_query_new", pointer, text)
        self.declare("p4d_query_word", ctypes.c_int, pointer, text)
        self.declare("p4d_query_script", ctypes.c_int, pointer, text, text, size)
        self.declare("p4d_query_directory", ctypes.c_int, pointer, text)
        self.declare("p4d_query_run", pointer, pointer)
        self.declare("p4d_query_free", None, pointer)
        self.declare("p4d_reply_code", ctypes.c_int, pointer)
        self.declare("p4d_reply_verdict", text, pointer)
        self.declare("p4d_reply_messages", size, pointer)
        self.declare("p4d_reply_message_code", ctypes.c_int, pointer, size)
        self.declare("p4d_reply_message_text", text, pointer, size)
        self.declare("p4d_reply_message_fix", text, pointer, size)
        self.declare("p4d_reply_number", ctypes.c_int, pointer, text, ctypes.POINTER(ctypes.c_double))
        self.declare("p4d_reply_free", None, pointer)

    def declare(self, name, result, *arguments):
        function = getattr(self.c, name)
        function.restype, function.argtypes = result, arguments


def check(library, options, name, script, directory):
    """What p4d says of a script (bytes) with these options of sbatch, submitted from this directory."""
    query = library.c.p4d_query_new(b"check")
    added = [library.c.p4d_query_word(query, os.fsencode(option)) for option in options]
    added.append(library.c.p4d_query_script(query, os.fsencode(name), script, len(script)))
    added.append(library.c.p4d_query_directory(query, os.fsencode(directory)))
    reply = library.c.p4d_query_run(query) if query and not any(added) else None
    library.c.p4d_query_free(query)
    if not reply:
        raise MemoryError("libp4d")
    return reply


def number(library, reply, member):
    value = ctypes.c_double()
    found = library.c.p4d_reply_number(reply, member, ctypes.byref(value)) == 0
    return value.value if found else None


def show(library, reply):
    verdict = library.c.p4d_reply_verdict(reply)
    need, have = (number(library, reply, member) for member in (b"/peak/device_bytes", b"/gpu/usable_bytes"))
    memory = f", {need / 2**30:.1f} of {have / 2**30:.1f} GiB of each GPU" if need and have else ""
    print(f"verdict: {verdict.decode()}{memory}")
    for i in range(library.c.p4d_reply_messages(reply)):
        code = library.c.p4d_reply_message_code(reply, i)
        text, fix = library.c.p4d_reply_message_text(reply, i), library.c.p4d_reply_message_fix(reply, i)
        print(f"P4D{code:03d}: {text.decode(errors='replace')}")
        if fix:
            print(f"fix: {fix.decode(errors='replace')}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    *options, path = sys.argv[1:]
    with open(path, "rb") as file:
        script = file.read()
    library = Library()
    reply = check(library, options, path, script, os.getcwd())
    show(library, reply)
    code = library.c.p4d_reply_code(reply)
    library.c.p4d_reply_free(reply)
    sys.exit(code)


if __name__ == "__main__":
    main()
