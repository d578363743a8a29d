# SPDX-License-Identifier: Apache-2.0
"""Records which unknown values a program read, and where, for the report."""
import json
import os
import sys

from p4d_rehearsal import groups, phases

unknown_reads = {}  # (operator, place in the program): number of reads
even_routes = 0
missing_places = []  # where the program first called each function that no stand-in implements; "": not within an operator
answered = None  # (what, place in the program) of the last answer on which a program may branch


def place():
    """The current place in the program, outside of PyTorch and of this package."""
    frame = sys._getframe(1)
    while frame:
        name = frame.f_code.co_filename
        if "/torch/" not in name and "p4d_rehearsal" not in name:
            return "%s:%d" % (name.split("site-packages/")[-1], frame.f_lineno)
        frame = frame.f_back
    return "?"


def note_read(operator):
    key = (operator.__name__, place())
    unknown_reads[key] = unknown_reads.get(key, 0) + 1


def note_answer(operator):
    """Comparisons and single numbers get an answer, which is right for a norm or a log line."""
    global answered
    answered = operator.__name__, place()


def run_below(function, arguments, named, is_unknown, invent):
    """Runs an operator on tensors of a class of their own, and does not see the operators that it calls. So a number
    that is read from a distributed tensor, such as mask.any(), is written into this rank's part: no other rank
    exists."""
    part = getattr(arguments[0], "_local_tensor", None) if arguments else None
    reads_number = function.overloadpacket.__name__ == "_local_scalar_dense" and type(part).__name__ == "Tensor"
    if reads_number and part.is_cuda and is_unknown(part):
        note_answer(function.overloadpacket)
        invent(part)
    return function(*arguments, **named)


def doubt_early_end():
    """A program that ended by itself before the requested steps may have ended because of such an answer."""
    updates, wanted = phases.updates()
    if answered and 0 < updates < wanted:
        groups.unvalidated("the program ended after %d of %d steps, maybe because of an unknown value (%s at %s)"
                           % ((updates, wanted) + answered))


def write():
    path = os.environ.get("P4D_REHEARSAL_PHASES")
    if not path:
        return
    doubt_early_end()
    rows = [{"operator": operator, "place": place, "count": count}
            for (operator, place), count in sorted(unknown_reads.items())]
    for read in rows:
        print("p4d: %(operator)s read a value that only a GPU computes, at %(place)s (%(count)d times)" % read, file=sys.stderr)
    with open(path, "a") as out:
        out.write(json.dumps({"unknown_reads": rows, "even_routes": even_routes}) + "\n")
        out.write(json.dumps({"missing_places": missing_places}) + "\n")
