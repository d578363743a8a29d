#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what p4d backtest and p4d report said about jobs with what test_past_jobs.sh knows of them.

past.py FOLDER: FOLDER has past (of sacct), rows.csv, backtest.json, report.json, measured.csv and notes. A job's name is KIND-END.
"""
import collections
import csv
import json
import sys

ELAPSED = {"pass": 1800, "warn": 3600, "refuse": 5400, "own": 7200}
EARLY_S = 300
VERDICT = {"pass": "passed", "warn": "warned", "refuse": "refused", "own": "not_judged"}
RECORD = {"pass": "pass", "warn": "warn", "refuse": "would-refuse", "own": "not-judged"}
# What only its fragmentation, a guess, carries over a limit is warned of.
REFUSED_AT = {"pass": "0000", "warn": "0000", "refuse": "1111", "own": "0000"}
END = {"said": "gpu_memory_said", "full": "gpu_memory_full", "early": "failed"}
DEATHS = ("gpu_memory_said", "gpu_memory_full", "gpu_memory_early")
wrong = []


class Job:
    def __init__(self, line):
        self.id, raw, name = line.rstrip("\n").split("|")
        self.kind, end = name.split("-")
        self.end = "gpu_memory_early" if (end, self.kind) == ("early", "refuse") else END.get(end, end)
        self.elapsed = EARLY_S if end == "early" else ELAPSED[self.kind]
        self.gib = 78 if end == "full" else 20 + int(raw) % 40 if int(raw) % 5 else None
        self.predicted = None  # until the rows were read


def same(what, got, wanted):
    if got != wanted:
        wrong.append(f"{what}: {got} in place of {wanted}")


def close(what, got, wanted, by):
    if got is None or abs(got - wanted) > by:
        wrong.append(f"{what}: {got} in place of {wanted}")


def cells(jobs, *keys):
    """Nested by these: the numbers of jobs, and their hours on one GPU."""
    if not keys:
        return len(jobs), sum(job.elapsed for job in jobs) / 3600
    groups = collections.defaultdict(list)
    for job in jobs:
        groups[keys[0](job)].append(job)
    return {key: cells(group, *keys[1:]) for key, group in groups.items()}


def printed(node):
    """What p4d printed, in the same form, without cells that have no jobs."""
    if "gpu_hours" in node:
        return node["jobs"], node["gpu_hours"]
    found = {key: printed(value) for key, value in node.items() if isinstance(value, dict)}
    return {key: value for key, value in found.items() if value and value != (0, 0)}


def compare(what, got, wanted):
    if isinstance(wanted, tuple):
        same(f"{what}: jobs", got[0], wanted[0])
        close(f"{what}: GPU-hours", got[1], wanted[1], 0.01)
        return
    same(f"{what}: names", sorted(got), sorted(wanted))
    for key in set(got) & set(wanted):
        compare(f"{what}: {key}", got[key], wanted[key])


def end_of(job):
    return job.end


def check_rows(jobs, path):
    rows = {row["job"]: row for row in csv.DictReader(open(path, encoding="utf-8"))}
    same("rows", sorted(rows), sorted(job.id for job in jobs))
    for job in jobs:
        row = rows.get(job.id)
        if not row:
            continue
        same(f"{job.id} {job.kind}", (row["end"], row["verdict"]), (job.end, VERDICT[job.kind]))
        same(f"{job.id}: seconds", int(row["elapsed_s"]), job.elapsed)
        same(f"{job.id}: measured", float(row["measured_gib"]) if row["measured_gib"] else None, job.gib)
        same(f"{job.id}: limits", "".join(row["refused_at_" + limit] for limit in ("0.90", "0.95", "0.97", "1.00")), REFUSED_AT[job.kind])
        job.predicted = float(row["predicted_gib"]) if row["predicted_gib"] else None
    same("predictions", len({(job.kind, job.predicted) for job in jobs}), 4)


def check_backtest(jobs, said):
    same("backtest: jobs", said["jobs"], len(jobs))
    compare("backtest", printed(said["ends"]), cells(jobs, end_of, lambda job: VERDICT[job.kind]))
    judged = [job for job in jobs if job.kind != "own"]
    compare("stages", printed(said["stages"]),
            {name: cells(judged if name in ("training_known", "read_whole", "judged") else jobs) for name in said["stages"]})
    for number, limit in enumerate(said["limits"]):
        refused = [job for job in jobs if REFUSED_AT[job.kind][number] == "1"]
        compare(f"limit {limit['limit']}", printed(limit["refused_but_ran"]), cells([job for job in refused if job.end == "completed"]))
        compare(f"limit {limit['limit']}: deaths", printed(limit["caught"]),
                {end: cell for end, cell in cells(refused, end_of).items() if end in DEATHS and end in limit["caught"]})


def check_report(jobs, said):
    measured = [job for job in jobs if job.gib]
    same("report: jobs", (said["jobs"], said["with_record"]), (len(jobs), len(jobs)))
    same("measured", said["measured"], {"gres/gpumem": len(measured), "not measured": len(jobs) - len(measured)})
    compare("report", printed(said["ends"]), cells(jobs, end_of, lambda job: RECORD[job.kind]))
    for key in ("account", "partition"):
        same(f"by {key}", len(said["by"][key]), 1)
        for group in said["by"][key]:
            compare(f"by {key}", printed(group), cells(jobs))
            compare(f"by {key}", printed(group["verdicts"]), cells(jobs, lambda job: RECORD[job.kind]))
            compare(f"by {key}", printed(group["ends"]), cells(jobs, end_of))
    died = [job.id for job in jobs if job.kind in ("pass", "warn") and job.end in DEATHS]
    same("passed but died", len(said["passed_but_died"]), len(died))
    errors = [job.predicted / job.gib - 1 for job in measured if job.predicted and job.gib != 78]
    same("frameworks", len(said["predicted"]), 1)
    for framework in said["predicted"]:
        same("predicted: jobs", framework["jobs"], len(errors))
        close("mean error", framework["mean_error"], sum(errors) / len(errors), 2e-3)


def check_notes(jobs, path):
    """Whether p4d would use fewer GPUs is not of interest here."""
    by_id = {job.id: job for job in jobs}
    notes = [line.rstrip("\n").split(" ", 1) for line in open(path, encoding="utf-8")]
    same("notes", len(notes) > 5, True)
    for name, note in notes:
        job = by_id[name]
        used = f"used {job.gib:.1f}" if job.gib else "not measured"
        if job.predicted is None:
            wanted = f"p4d: not predicted, {used}"
        else:
            wanted = f"p4d: predicted {job.predicted:.1f}" + (f", {used} of 79.1 GiB" if job.gib else f" of 79.1 GiB, {used}")
        same(f"note of {name}", note[:len(wanted)], wanted)


def check_measured(jobs, path):
    wanted = [job for job in jobs if job.predicted and
              (job.end == "gpu_memory_said" or job.gib and job.end in ("completed", "timeout", "cancelled"))]
    rows = list(csv.DictReader(open(path, encoding="utf-8")))
    same("measured rows", len(rows), len(wanted))
    same("deaths among them", sum(row["oom"] == "1" for row in rows), sum(job.end == "gpu_memory_said" for job in wanted))
    same("measured", sorted(float(row["measured_gib"]) for row in rows if row["oom"] == "0"),
         sorted(job.gib for job in wanted if job.end != "gpu_memory_said"))


def main():
    def path(name):
        return f"{sys.argv[1]}/{name}"

    jobs = [Job(line) for line in open(path("past"), encoding="utf-8")]
    check_rows(jobs, path("rows.csv"))
    check_backtest(jobs, json.load(open(path("backtest.json"), encoding="utf-8")))
    check_report(jobs, json.load(open(path("report.json"), encoding="utf-8")))
    check_notes(jobs, path("notes"))
    check_measured(jobs, path("measured.csv"))
    print(f"{len(jobs)} jobs, {len(wrong)} differences")
    print("\n".join(wrong[:30]))
    sys.exit(bool(wrong))


main()
