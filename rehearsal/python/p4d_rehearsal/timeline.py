# SPDX-License-Identifier: Apache-2.0
"""Memory of an allocator over time. Needs no torch."""

KINDS = ("parameters", "gradients", "optimizer", "buffers", "activations", "logits", "communication", "other")
POINTS = 400
PHASES = 100


class Block:
    __slots__ = ("bytes", "kind", "owner", "step")

    def __init__(self, bytes_, kind, owner, step):
        self.bytes = bytes_
        self.kind = kind
        self.owner = owner
        self.step = step


class Timeline:
    """Memory over time. An event is a block that is allocated or freed, a number (bytes reserved or, negative,
    returned) or the beginning of a phase: (name, step)."""

    def __init__(self):
        self.events = []
        self.held = {}  # blocks at the start of the events, in the order of their allocation
        self.reserved = 0
        self.peak_bytes = -1
        self.peak = []  # blocks at the peak
        self.peak_at = 0
        self.count = 0  # number of events before the first
        self.points = []  # (event, reserved, bytes of each kind)
        self.phases = []  # (event, name, step)

    def fold(self):
        """Sums up the events."""
        held, total, best, best_at = dict(self.held), sum(b.bytes for b in self.held), self.peak_bytes, None
        stride = max(1, len(self.events) // POINTS)
        kinds = dict.fromkeys(KINDS, 0)
        for block in held:
            kinds[block.kind] += block.bytes
        top, point = -1, None
        for i, event in enumerate(self.events):
            if isinstance(event, Block):
                sign = -1 if event in held else 1
                if sign > 0:
                    held[event] = True
                else:
                    del held[event]
                total += sign * event.bytes
                kinds[event.kind] += sign * event.bytes
                if total > best:
                    best, best_at = total, i
            elif isinstance(event, tuple):
                self.phases.append((self.count + i,) + event)
            else:
                self.reserved += event
            if total > top:
                top, point = total, (self.count + i, self.reserved) + tuple(kinds.values())
            if (i + 1) % stride == 0 or i + 1 == len(self.events):
                self.points.append(point)
                top = -1
        if best_at is not None:
            self.peak_bytes, self.peak_at = best, self.count + best_at
            self.peak = self.held_at(best_at)
        self.held = held
        self.count += len(self.events)
        self.events = []
        while len(self.points) > 2 * POINTS:
            self.points = [max(self.points[i:i + 2], key=lambda p: sum(p[2:])) for i in range(0, len(self.points), 2)]

    def few_phases(self):
        """For a picture: all phases, or only the starts of steps if there are many."""
        if len(self.phases) <= PHASES:
            return self.phases
        steps = [(at, "", step) for (at, name, step), before in zip(self.phases, [(0, "", 0)] + self.phases)
                 if step != before[2]]
        return steps[::len(steps) // PHASES + 1]

    def held_at(self, index):
        held = dict(self.held)
        for event in self.events[:index + 1]:
            if isinstance(event, Block) and not held.pop(event, False):
                held[event] = True
        return list(held)
