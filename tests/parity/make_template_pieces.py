#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what transformers makes of small templates.

    make_template_pieces.py FILE [LINES]    renders the templates of FILE again; LINES has further ones, one a line, or as JSON

Needs transformers 5. The first line of FILE has the variables, each other one a template and its text. A template without a text
is one that transformers refuses. Templates that show an address in memory are left out.
"""
import copy
import datetime
import json
import re
import sys

from transformers.utils import chat_template_utils


class Today(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 11, 30)


chat_template_utils.datetime = Today


def rendered(template, variables):
    """The text; None: it is refused."""
    try:
        return chat_template_utils._cached_compile_jinja_template(template).render(**copy.deepcopy(variables))
    except Exception:  # whatever it does wrong
        return None


def line(**values):
    return json.dumps(values, ensure_ascii=True) + "\n"


def main(path, more=None):
    with open(path) as f:
        variables, *lines = [json.loads(one) for one in f]
    templates = [one["template"] for one in lines]
    for one in open(more) if more else []:
        templates.append(json.loads(one) if one.startswith('"') else one.rstrip("\n"))
    with open(path, "w") as out:
        out.write(line(**variables))
        for template in dict.fromkeys(templates):
            text = rendered(template, variables)
            if text is None:
                out.write(line(template=template))
            elif not re.search(" at 0x[0-9a-f]{6}", text):
                out.write(line(template=template, text=text))


if __name__ == "__main__":
    main(*sys.argv[1:])
