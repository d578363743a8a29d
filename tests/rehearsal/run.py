#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rehearses the programs of tests/rehearsal/programs with PyTorch from PyPI: ./check rehearsal.

A program says in comments at its top how it is rehearsed and what must come out:

    # rehearse: --gpus-per-node 8 --ranks 0 -- --layers 4    options of p4d rehearse, and the program's arguments
    # torch: 2.4 today vllm   the releases it runs with (default: today); vllm: that of vLLM
    # needs: transformers trl==0.25.1                        packages that it imports
    # want: verdict=pass reserved_gib=1.2..1.4 phase=update cpu_s=0..60
    # published: reserved_gib=82.4                           what its authors measured on a GPU

`want` has at least a verdict. An incomplete one has reason=WORD too, a word of the reason that p4d gives. Figures are the
largest of all ranks that were played; host_gib is the resident memory of one rank's processes, cpu_s what p4d and all ranks
took of the CPU, user and system. A line may be given more than once; its words add up. `# case: NAME` begins one of several
ways to run the program: what stands above the first one is for all. A file without such comments is a module that programs
share. A rehearsal may differ from a published figure by 8 %, from all of them by 3 % on average. Prints one line per case and
release; the last line is `N passed, N failed, N skipped`."""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# PyTorch of each release, with what its time's packages need; a Python that its wheels are for.
RELEASES = {
    "2.4": {"packages": ["torch==2.4.1", "numpy<2"], "until": (3, 12)},
    "2.7": {"packages": ["torch==2.7.1", "numpy<2.4"], "until": (3, 13)},
    "vllm": {"packages": ["vllm==0.33.0"], "until": (3, 13)},  # with the PyTorch that it pins
    "today": {"packages": ["torch", "numpy"], "until": (3, 99)},
}
# A package is taken in the release of PyTorch's time.
OF_THAT_TIME = {
    "2.4": {"transformers": "transformers==4.46.3", "accelerate": "accelerate==1.1.1", "torchvision": "torchvision==0.19.1",
            "peft": "peft==0.13.2"},
}
GIB = 1 << 30
FIGURES = ("allocated", "reserved", "device")
WANTED = {"verdict", "phase", "reason", "cache_gib", "host_gib", "cpu_s"} | {f + "_gib" for f in FIGURES}
SECTIONS = ("rehearse", "torch", "needs", "want", "published")
WORST_ERROR, MEAN_ERROR = 0.08, 0.03  # of published figures


class Skipped(Exception):
    """Why something cannot be tried on this machine."""


class Failed(Exception):
    """What is wrong."""


def read_comments(path):
    """Sections of the comments at the top of a program, by case: {"": {"needs": [word, ...], ...}, "hybrid": ...}"""
    cases, name = {"": {}}, ""
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            break
        section, colon, rest = line.lstrip("# ").partition(":")
        if section == "case" and colon:
            name = rest.strip()
            cases[name] = {}
        elif section in SECTIONS and colon:
            cases[name].setdefault(section, []).extend(shlex.split(rest))
    return cases


def read_cases(path):
    """The cases of a program by name, each with all sections."""
    cases = read_comments(path)
    common = cases.pop("")
    if not cases:
        return {path.stem: checked(path.stem, common)} if common else {}
    stem = path.stem
    return {stem + "-" + name: checked(stem + "-" + name, {section: common.get(section, []) + own.get(section, [])
                                                          for section in SECTIONS})
            for name, own in cases.items()}


def checked(name, case):
    wanted = dict(word.partition("=")[::2] for word in case.get("want", []))
    unknown = set(wanted) - WANTED
    if unknown or "verdict" not in wanted:
        raise Failed("%s: want: %s" % (name, "unknown: " + ", ".join(sorted(unknown)) if unknown else "no verdict"))
    if wanted["verdict"] == "incomplete" and not wanted.get("reason"):
        raise Failed("%s: want: an incomplete one has no reason" % name)
    releases = case.get("torch") or ["today"]
    for release in releases:
        if release not in RELEASES:
            raise Failed("%s: torch: %s is none of %s" % (name, release, ", ".join(RELEASES)))
    published = dict(word.partition("=")[::2] for word in case.get("published", []))
    if set(published) - {f + "_gib" for f in FIGURES}:
        raise Failed("%s: published: unknown: %s" % (name, ", ".join(sorted(published))))
    return {"rehearse": case.get("rehearse", []), "needs": case.get("needs", []), "torch": releases, "want": wanted,
            "published": {figure: float(value) for figure, value in published.items()}}


def name_of(package):
    return re.match("[A-Za-z0-9._-]*", package).group()


class Environment:
    """A virtual environment with a release of PyTorch. Packages of a program lie in a folder over it, with all that they need in
    other releases than other programs do. What a program with fewer needs has is not installed again."""

    def __init__(self, release, folder, python):
        self.release = release
        self.given = python
        self.folder = folder
        self.layers = {}  # by packages, the Python that has them, or why there is none
        self.base = None
        self.lock = threading.Lock()  # while packages are installed

    def pip(self, python, *words):
        """None, or what pip says first."""
        done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-input", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        said = [line for line in done.stdout.splitlines() if line.startswith("ERROR:")] or done.stdout.splitlines()
        return None if not done.returncode else (said[0] if said else "pip ended with %d" % done.returncode)

    def make(self, folder, packages, below=None):
        """Why FOLDER could not be made, or None. BELOW: the Python of an environment whose packages are seen, too, with those
        below that."""
        if (folder / "made").exists():
            return None
        shutil.rmtree(folder, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", *(["--without-pip"] if below else []), folder],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if made.returncode:
            return made.stdout.strip()
        if below:
            seen = site_packages(below)
            lower = seen / "below.pth"
            (site_packages(folder / "bin/python") / "below.pth").write_text(
                "%s\n%s" % (seen, lower.read_text() if lower.exists() else ""))
        problem = self.pip(folder / "bin/python", *packages)
        if problem:
            shutil.rmtree(folder)
        else:
            (folder / "made").touch()
        return problem

    def open(self):
        """The Python that has PyTorch."""
        if self.given:
            return Path(self.given)
        if not self.base:
            if sys.version_info[:2] > RELEASES[self.release]["until"]:
                raise Skipped("its wheels are for Python %d.%d and older" % RELEASES[self.release]["until"])
            folder = self.folder / ("venv-" + self.release)
            problem = self.make(folder, RELEASES[self.release]["packages"])
            if problem:
                raise Skipped("no PyTorch %s: %s" % (self.release, problem))
            self.base = folder / "bin/python"
        return self.base

    def python_with(self, needs):
        """The Python that has PyTorch and these packages."""
        with self.lock:
            base = self.open()
        packages = sorted(set(needs))
        if not packages:
            return base
        if self.given:
            for package in packages:
                if not version_of(base, name_of(package)):
                    raise Skipped("no %s in that Python" % name_of(package))
            return base
        key = "+".join(packages)
        if key not in self.layers:  # programs whose packages are there need not wait
            with self.lock:
                if key not in self.layers:
                    self.layers[key] = self.layer(key, packages, base)
        if isinstance(self.layers[key], str):
            raise Skipped(self.layers[key])
        return self.layers[key]

    def layer(self, key, packages, base):
        """The Python that has PACKAGES over those of BASE, or why there is none."""
        of_that_time = OF_THAT_TIME.get(self.release, {})
        folder = self.folder / ("venv-%s+%s" % (self.release, key))
        pins = [p for p in RELEASES[self.release]["packages"] if name_of(p) != "torch"]
        wanted = [*(of_that_time.get(p, p) for p in packages), *pins, "torch==" + version_of(base, "torch")]
        return self.make(folder, wanted, self.lower_layer(packages) or base) or folder / "bin/python"

    def lower_layer(self, packages):
        """The Python of the layer with most of PACKAGES and no other: they need not be installed again. None: there is none."""
        lower = [key for key, python in self.layers.items()
                 if isinstance(python, Path) and set(key.split("+")) < set(packages)]
        return self.layers[max(lower, key=lambda key: key.count("+"))] if lower else None

    def remove(self):
        """Removes the environments that were made, with what lies over them."""
        made = [self.base, *self.layers.values()] if self.base else []
        for python in made:
            if isinstance(python, Path):
                shutil.rmtree(python.parent.parent)
        self.base, self.layers = None, {}


def site_packages(python):
    """The folder where pip installs packages for PYTHON."""
    done = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], stdout=subprocess.PIPE,
                          text=True, check=True)
    return Path(done.stdout.strip())


def version_of(python, package):
    """The release that PYTHON has of PACKAGE; None: it has none."""
    done = subprocess.run([python, "-c", "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))", package],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    return None if done.returncode else done.stdout.strip()


def peaks(answer):
    """The largest figures of all ranks, in GiB, and the phase of the largest."""
    ranks = [rank["peak"] for rank in answer["ranks"]]
    largest = max(ranks, key=lambda peak: peak["reserved_bytes"], default={})
    found = {f + "_gib": max((peak[f + "_bytes"] for peak in ranks), default=0) / GIB for f in FIGURES}
    found["phase"] = largest.get("phase")
    found["cache_gib"] = max(((rank.get("serving") or {}).get("cache_bytes", 0) for rank in answer["ranks"]), default=0) / GIB
    found["host_gib"] = max((rank["host"]["resident_bytes"] for rank in answer["ranks"]), default=0) / GIB
    return found


def hold_against(answer, cpu, wanted):
    """Raises Failed where ANSWER, what p4d printed, or CPU, the seconds it took, differ from what the program's header has."""
    reason = answer.get("reason") or ""
    not_played = sorted({name for rank in answer["ranks"] for name in rank.get("not_played", [])})
    said = answer["verdict"] + (": " + reason if reason else "") + ("; not played: " + ", ".join(not_played) if not_played else "")
    if answer["verdict"] != wanted["verdict"]:
        raise Failed("%s; %s is wanted" % (said, wanted["verdict"]))
    if wanted.get("reason") and wanted["reason"] not in reason:
        raise Failed('%s; "%s" is wanted' % (said, wanted["reason"]))
    found = dict(peaks(answer), cpu_s=cpu)
    for name, value in wanted.items():
        if name.endswith("_gib") or name == "cpu_s":
            least, _, most = value.partition("..")
            if not float(least) <= found[name] <= float(most or least):
                raise Failed("%s is %.3f; %s is wanted" % (name, found[name], value))
        elif name == "phase" and found[name] != value:
            raise Failed("most in %s; %s is wanted" % (found[name], value))
    return "%s, %.2f GiB allocated, %.2f reserved, %.1f of the host, %.0f s of the CPU" % (
        answer["verdict"], found["allocated_gib"], found["reserved_gib"], found["host_gib"], cpu)


def errors_of(answer, published):
    """By how much ANSWER differs from each published figure, as a share of that figure."""
    found = peaks(answer)
    return {name: found[name] / value - 1 for name, value in published.items()}


def hold_against_published(answer, published):
    """What to say of it. Raises Failed where a figure differs by too much."""
    errors = errors_of(answer, published)
    said = ["published %.2f: %+.1f %%" % (published[name], 100 * error) for name, error in errors.items()]
    if any(abs(error) > WORST_ERROR for error in errors.values()):
        raise Failed("%.2f GiB reserved, %s" % (peaks(answer)["reserved_gib"], ", ".join(said)))
    return "".join(", " + words for words in said), list(errors.values())


def run(words, keep, **more):
    """Runs WORDS; their status, stdout, stderr, and the seconds that they and all processes below them took of the CPU. Stdout and
    stderr stay in KEEP."""
    said = keep.with_suffix(".said")
    with open(keep, "w+", encoding="utf-8", errors="replace") as out, open(said, "w+", encoding="utf-8", errors="replace") as err:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, **more)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        output, error = out.read(), err.read()
        out.write(error)
    said.unlink()
    return process.returncode, output, error, used.ru_utime + used.ru_stime


def rehearse(p4d, python, program, header, keep):
    """What p4d answers about PROGRAM, which runs in a folder of its own, what it says, and the seconds of the CPU."""
    options, arguments = header["rehearse"], []
    if "--" in options:
        at = options.index("--")
        options, arguments = options[:at], options[at + 1:]
    with tempfile.TemporaryDirectory(prefix="p4d-rehearsal.") as folder:
        environment = dict(os.environ, HF_HOME=folder, HF_HUB_OFFLINE="1", WANDB_MODE="disabled", TMPDIR=folder,
                           PYTHONDONTWRITEBYTECODE="1", TOKENIZERS_PARALLELISM="false",
                           PATH="%s:%s" % (Path(python).parent, os.environ.get("PATH", "")))
        environment.pop("CC", None)  # "ccache gcc" builds p4d; Triton takes it for the name of one program
        status, output, said, cpu = run([p4d, "rehearse", *options, "--json", "--", python, program, *arguments], keep, cwd=folder,
                                        env=environment)
    try:
        answer = json.loads(output)
    except ValueError:
        answer = {}
    if "ranks" not in answer:
        raise Failed("p4d ended with %d: %s" % (status, (said + output).strip()[-400:]))
    return answer, said, cpu


def try_program(p4d, environment, program, header, keep):
    python = environment.python_with(header["needs"])
    answer, said, cpu = rehearse(p4d, python, program, header, keep)
    try:
        text = hold_against(answer, cpu, header["want"])
        compared, errors = hold_against_published(answer, header["published"])
        return text + compared, errors
    except Failed as failed:
        end = "".join("\n      | " + line for line in said.strip().splitlines()[-25:])
        raise Failed(str(failed) + end) from None


def took(since):
    seconds = round(time.monotonic() - since)
    return " (%d s)" % seconds if seconds >= 5 else ""


class Report:
    def __init__(self):
        self.counts = {"ok": 0, "FAIL": 0, "skip": 0}
        self.errors = []  # of published figures
        self.lock = threading.Lock()

    def say(self, result, name, text, errors=()):
        with self.lock:
            self.counts[result] += 1
            self.errors += errors
            print("%-5s rehearsal/%s: %s" % (result, name, text), flush=True)

    def end(self):
        """The closing lines; returns the status to exit with."""
        if self.errors:
            mean = sum(map(abs, self.errors)) / len(self.errors)
            text = "%d published figures: mean error %.1f %%, worst %+.1f %%" % (
                len(self.errors), 100 * mean, 100 * max(self.errors, key=abs))
            if mean > MEAN_ERROR:
                self.say("FAIL", "published", text)
            else:
                print(text)
        print("%(ok)d passed, %(FAIL)d failed, %(skip)d skipped" % self.counts)
        return 1 if self.counts["FAIL"] else 0


def try_case(p4d, environment, path, case, header, report, folder):
    name = "%s/%s" % (environment.release, case)
    since = time.monotonic()
    try:
        text, errors = try_program(p4d, environment, path, header, folder / ("%s-%s.log" % (environment.release, case)))
        report.say("ok", name, text + took(since), errors)
    except Skipped as skipped:
        report.say("skip", name, skipped)
    except Failed as failed:
        report.say("FAIL", name, failed)


def try_all(jobs, cases):
    """Tries CASES, arguments of try_case, JOBS at a time."""
    pool = concurrent.futures.ThreadPoolExecutor(jobs)
    try:
        for tried in [pool.submit(try_case, *case) for case in cases]:
            tried.result()  # raises what went wrong here
    finally:
        pool.shutdown(cancel_futures=True)


def read_programs(folder, names, report):
    """[(path, case, header)] of the programs in FOLDER with these names; without names, of all."""
    programs, known = [], set()
    for path in sorted(folder.glob("*.py")):
        try:
            cases = read_cases(path)
        except Failed as failed:
            report.say("FAIL", path.stem, failed)
            known.add(path.stem)
            continue
        chosen = [name for name in cases if not names or {name, path.stem} & set(names)]
        programs += [(path, name, cases[name]) for name in chosen]
        known |= {path.stem, *chosen}
    for name in sorted(set(names) - known):
        report.say("FAIL", name, "there is no such program")
    return programs


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--p4d", default="./p4d", help="the program to test (default ./p4d)")
    words.add_argument("--folder", default="rehearsal-venvs", help="where virtual environments and logs are kept")
    words.add_argument("--programs", default=HERE / "programs", help="folder of the programs")
    words.add_argument("--python", action="append", default=[], metavar="RELEASE=FILE",
                       help="take this Python as it is for a release: today=/opt/venv/bin/python")
    words.add_argument("--remove", action="append", default=[], metavar="RELEASE",
                       help="remove the environments made for a release when its programs have run; disk then holds fewer at once")
    words.add_argument("--jobs", type=int, default=1, help="how many programs run at a time (default 1); each takes a core and up to "
                       "6 GiB of memory")
    words.add_argument("program", nargs="*", help="names of programs (default: all)")
    given = words.parse_args()
    folder = Path(given.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    pythons = dict(word.partition("=")[::2] for word in given.python)
    environments = {release: Environment(release, folder, pythons.get(release)) for release in RELEASES}
    report = Report()
    programs = read_programs(Path(given.programs).resolve(), given.program, report)
    for release, environment in environments.items():
        try_all(given.jobs, [(Path(given.p4d).resolve(), environment, path, name, header, report, folder)
                             for path, name, header in programs if release in header["torch"]])
        if release in given.remove:
            environment.remove()
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
