#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a file of metrics as strictly as Prometheus's text format is specified.

metrics.py FILE                           checks it
metrics.py FILE --since BEFORE "COUNT NAME [LABEL=VALUE...]"...
                                          and that so much was added to the samples with these labels
metrics.py FILE --dashboard JSON          and that every query of the dashboard names a metric of the file
"""
import json
import re
import sys

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)?\}})? (\S+)$")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|Inf)$|NaN$")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count")}


def fail(text):
    sys.exit(f"metrics.py: {text}")


class File:
    def __init__(self, path):
        text = open(path, encoding="utf-8").read()
        if not text.endswith("\n") or "\r" in text or "\n\n" in text:
            fail("not lines that each end with a newline")
        self.types, self.helps, self.samples, self.current = {}, set(), {}, None
        for number, line in enumerate(text[:-1].split("\n"), 1):
            try:
                self.read_head(line) if line.startswith("#") else self.read_sample(line)
            except (ValueError, AssertionError) as error:
                fail(f"{path}:{number}: {error}: {line}")
        for name, kind in self.types.items():
            if kind == "histogram":
                self.check_histogram(name)

    def read_head(self, line):
        match = re.match(rf"# (HELP|TYPE) ({NAME}) (.+)$", line)
        assert match, "neither HELP nor TYPE"
        word, name, rest = match.groups()
        if word == "HELP":
            assert name not in self.helps, "a second HELP"
            self.helps.add(name)
        else:
            assert rest in ("counter", "gauge", "histogram"), "no such type"
            assert name not in self.types, "a second TYPE, or its samples are not together"
            assert name in self.helps, "no HELP before it"
            assert (rest == "counter") == name.endswith("_total"), "counters, and no others, end with _total"
            self.types[name] = rest
            self.current = name

    def read_sample(self, line):
        match = SAMPLE.match(line)
        assert match, "not a sample"
        name, value = match.group(1), match.group(match.lastindex)
        assert NUMBER.match(value), "not a number"
        pairs = re.findall(LABEL, match.group(2) or "")
        labels = tuple(sorted((key, re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], text)) for key, text in pairs))
        assert len(dict(labels)) == len(pairs), "a label twice"
        assert self.current and name in [self.current + s for s in SUFFIXES.get(self.types[self.current], ("",))], "not of the family above"
        assert (name, labels) not in self.samples, "the same series twice"
        self.samples[name, labels] = float(value)

    def check_histogram(self, name):
        rows = {}
        for (sample, labels), value in self.samples.items():
            if sample == name + "_bucket":
                bounds = dict(labels)
                rows.setdefault(tuple((k, v) for k, v in labels if k != "le"), []).append((float(bounds["le"]), value))
        if not rows:
            fail(f"{name} has no buckets")
        for labels, buckets in rows.items():
            counts = [count for _, count in sorted(buckets)]
            if counts != sorted(counts) or max(buckets)[0] != float("inf"):
                fail(f"{name}{labels}: buckets are not cumulative up to +Inf")
            if self.samples.get((name + "_count", labels)) != counts[-1] or (name + "_sum", labels) not in self.samples:
                fail(f"{name}{labels}: its count is not that of its buckets")

    def sum(self, name, wanted):
        return sum(v for (n, labels), v in self.samples.items() if n == name and set(wanted) <= set(labels))


def expressions(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("expr", "query") and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def check_dashboard(file, path):
    names = {name for name, _ in file.samples}
    labels = {name: {key for (n, ls) in file.samples if n == name for key, _ in ls} for name in names}
    queries = [q for q in expressions(json.load(open(path, encoding="utf-8"))) if q != "prometheus"]
    used = set()
    for query in queries:
        found = re.findall(r"(p4d_\w+)(?:\{([^}]*)\})?", query)
        if not found:
            fail(f"{path}: no metric in: {query}")
        for name, selector in found:
            if name not in names:
                fail(f"{path}: there is no {name}: {query}")
            used.add(name)
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector):
                if label not in labels[name] | {"job", "instance"}:
                    fail(f"{path}: {name} has no label {label}: {query}")
    if not used:
        fail(f"{path}: it shows nothing")


def main():
    file = File(sys.argv[1])
    if sys.argv[2:3] == ["--dashboard"]:
        check_dashboard(file, sys.argv[3])
    elif sys.argv[2:3] == ["--since"]:
        before, wrong = File(sys.argv[3]), []
        for query in sys.argv[4:]:
            count, name, *labels = query.split()
            labels = [tuple(label.split("=", 1)) for label in labels]
            added = file.sum(name, labels) - before.sum(name, labels)
            if added != int(count):
                wrong.append(f"{query}: {added}")
        if wrong:
            fail("\n".join(wrong))


main()
