#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The timeline of a rehearsal (rehearsal/python/p4d_rehearsal/timeline.py) against a plain replay of 20 random programs.
command -v python3 >/dev/null || exit 77
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${P4D_TEST_SRCDIR:-.}/rehearsal/python exec python3 -S - <<'EOF'
import random

from p4d_rehearsal.timeline import KINDS, PHASES, POINTS, Block, Timeline

random.seed(1)
for program in range(20):
    timeline, live, held, reserved, peak, at_peak = Timeline(), [], 0, 0, 0, None
    for event in range(random.randrange(1, 5000)):
        if live and random.random() < 0.49:
            block = live.pop(random.randrange(len(live)))
            held -= block.bytes
        else:
            block = Block(512 * random.randrange(1, 100), random.choice(KINDS), None, 1)
            live.append(block)
            held += block.bytes
        timeline.events.append(block)
        if held > peak:
            peak, at_peak = held, set(live)
        if random.random() < 0.02:
            timeline.events.append((random.choice("ab"), event // 100))
        if random.random() < 0.01:
            timeline.events.append(1000)
            reserved += 1000
        if random.random() < 0.001:
            timeline.fold()
    timeline.fold()
    assert timeline.peak_bytes == peak and set(timeline.peak) == at_peak, program
    assert max(sum(point[2:]) for point in timeline.points) == peak, program
    assert timeline.reserved == reserved and len(timeline.points) <= 2 * POINTS, program
    assert len(timeline.few_phases()) <= PHASES, program
EOF
