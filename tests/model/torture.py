#!/usr/bin/env python3
"""
torture.py - random sequences of all verbs, clocks and crashes, on the C and on the model

    tests/model/torture.py [--ops N] [--seed S] [--remembered R] [--sanitize] [--length L] [--managed]

Runs ext/schedule.c (through driver.c, compiled here with $CC) and model.py side
by side and compares every answer and the observable state after every
operation.  Beside that it watches, from the C's answers alone, what must hold
whatever any model says (class Watch).  Prints the seed; on a difference shrinks
the sequence and prints the smallest one that still differs, with both answers.

An operation says when it happens in true time: so much later, or at the slot
of some booking.  The wall clock is true time + what somebody set it off by.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True

import model as M                                                   # noqa: E402

ANSWERS = [M.OK, M.FULL, M.TOO_LONG, M.PAUSED, M.OVERFLOW, M.OVER_QUOTA, M.KEY_DIFFERS, M.NOT_HELD]
RELEASES = ["released", "started", "passed", "unknown"]
STATES = [None, M.HELD, M.IMMEDIATE, M.STARTED, M.HOLE, M.GONE]
START = 800_000_000_000_000         # May 2025, in microseconds since 2000
MS, SEC, HOUR, DAY = 1000, 1_000_000, 3_600_000_000, 86_400_000_000


# ---- the C ---------------------------------------------------------------------

class Driver:
    sees_crashes = True         # and has a second clock

    def __init__(self, sanitize):
        self.folder = tempfile.mkdtemp(prefix="pacer-model-")
        self.binary = os.path.join(self.folder, "driver")
        ext = os.path.join(HERE, "..", "..", "ext")
        command = os.environ.get("CC", "cc").split() + ["-std=gnu11", "-O1", "-g"]
        if sanitize:
            command += ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
        command += [os.path.join(ext, "schedule.c"), os.path.join(HERE, "driver.c"),
                    "-I" + ext, "-o", self.binary]
        try:
            subprocess.run(command, check=True)
        except BaseException:
            shutil.rmtree(self.folder)
            raise
        self.process = None

    def start(self):
        return [self.binary]

    def send(self, line):
        return line

    def say(self, line):
        if self.process is None:
            self.process = subprocess.Popen(self.start(), stdin=subprocess.PIPE,
                                            stdout=subprocess.PIPE)
        try:
            self.process.stdin.write(self.send(line).encode() + b"\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer.endswith(b"\n"):
            self.process.wait()
            self.process = None
            raise Different("the driver died", line, "")
        return answer.decode().rstrip("\n")

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
        shutil.rmtree(self.folder)


class ManagedDriver(Driver):
    """the SQL-only edition in the database of $PGDATABASE, behind the same lines"""

    sees_crashes = False

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="pacer-model-")
        self.process = None

    def start(self):
        return ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1"]

    def send(self, line):
        return "SELECT model.say('%s');" % line


class Answer:
    """one line of the driver"""

    def __init__(self, verb, line):
        told, heads, logged, recent = (part.split() for part in line.split("|"))
        self.unlogged_change = told[-1] == "UNLOGGED-CHANGE"
        if self.unlogged_change:
            told.pop()
        told = [int(x) for x in told]
        self.answer = RELEASES[told[0]] if verb == "release" else ANSWERS[told[0]]
        self.more = told[1:]
        (self.next_request_at, self.next_start, self.start_floor, self.paused_until,
         self.quota_start, self.quota_used, self.waiting, self.quota_left, *self.older) = (int(x) for x in heads)
        (self.logged, self.reserved_until, self.quota_reserved, self.start_reach,
         self.logged_at, *self.pair) = (int(x) for x in logged)
        self.nrecent = int(recent[0])
        r = [int(x) for x in recent[1:]]
        self.entries = [(r[i], STATES[r[i + 1]], r[i + 2], r[i + 3], r[i + 4], r[i + 5])
                        for i in range(0, len(r), 6)]
        self.state_text = line.split("|", 1)[1]

    def entry(self, ticket):
        for e in self.entries:
            if e[0] == ticket:
                return e
        return None


class Undecided(Exception):
    """either answer will do: a sequence cannot go on from here"""


class Different(Exception):
    def __init__(self, what, c, model, op=None):
        super().__init__(what)
        self.what, self.c, self.model, self.op = what, c, model, op


# ---- what must hold whatever the model says ----------------------------------------

class Watch:
    """
    Sees what a client and its clock on the wall of the truth would see.  Times
    here are true time, so a schedule that moved with a clock step stays where
    it was.  Checks that a step nobody can have noticed would spoil, or that a
    rewind spoils on purpose, are left out from there on.
    """

    def __init__(self):
        self.trusted = True         # every clock step so far could be noticed
        self.burst_one = True
        self.no_quota = True
        self.stepped = False
        self.quota_config = None    # (quota, window, origin) as long as it never changed
        self.forget()

    def forget(self):
        """after a rewind, which breaks the order on purpose"""
        self.told = {}              # ticket -> end of its place
        self.fence = 0              # after a crash: the end of all that was told
        self.last_start = None      # (when, width)
        self.starts = {}            # window -> starts counted there
        self.confirmed = set()
        self.quota_sure = True

    def config(self, cfg):
        if cfg.burst != 1:
            self.burst_one = False
        if cfg.quota:
            self.no_quota = False
        quota = (cfg.quota, cfg.window, cfg.origin)
        if self.quota_config not in (None, quota):
            self.quota_sure = False
        self.quota_config = quota

    def crash(self):
        if self.told:
            self.fence = max(self.fence, max(self.told.values()))
        self.told = {}

    def start(self, run, a, ticket, permits, op):
        now = run.true
        e = a.entry(ticket) if ticket else None
        width = e[4] if e else run.cfg.interval
        if self.trusted and self.burst_one and self.last_start:
            when, before = self.last_start
            if now < when + before:
                raise Different("starts %d us apart, not %d" % (now - when, before), a.state_text, "", op)
        self.last_start = (now, width)
        if self.quota_config and self.quota_config[0]:
            if ticket in self.confirmed:
                self.quota_sure = False     # started twice: after a crash the row cannot tell
            if e is None and permits:
                permits = 1
            self.confirmed.add(ticket)
            self.count(run, run.wall, permits, op)

    def count(self, run, t, permits, op):
        quota, window, origin = self.quota_config
        w = (t - origin) // window
        self.starts[w] = self.starts.get(w, 0) + permits
        if self.quota_sure and not self.stepped and self.starts[w] > quota:
            raise Different("%d starts in a window of %d" % (self.starts[w], quota), "", "", op)

    def see(self, run, op, before, a):
        verb = op[0]
        now, wall = run.true, run.wall
        refused = a.answer not in (M.OK, "released", "started", "passed", "unknown")
        if a.unlogged_change:
            raise Different("the logged half changed without a log", a.state_text, "", op)
        if not (a.next_request_at >= a.next_start >= a.start_floor >= 0):
            raise Different("heads out of order", a.state_text, "", op)
        if refused and run.settled and a.state_text.split()[0:6] != before.state_text.split()[0:6]:
            raise Different("a refused call changed something", a.state_text, before.state_text, op)
        if self.trusted and not refused and min(a.reserved_until, wall + a.start_reach) < a.start_floor:
            raise Different("a crash would forget a start", a.state_text, "", op)
        if not refused and a.reserved_until < a.next_request_at:
            raise Different("a crash would forget a booking", a.state_text, "", op)
        if not refused and run.cfg.quota and a.quota_reserved < a.quota_used:
            raise Different("a crash would forget quota", a.state_text, "", op)

        if self.burst_one and self.no_quota:
            last = None
            for e in a.entries:
                if e[1] in (M.HELD, M.IMMEDIATE, M.HOLE) and not e[5]:
                    if last and e[3] < last[3] + last[4]:
                        raise Different("slots closer than the interval", last, e, op)
                    last = e

        old = before.entry(op[2][1]) if before and verb in ("release", "confirm") and \
            isinstance(op[2], tuple) and op[2][0] == "t" else None
        if verb == "book" and not refused:
            ticket, slot, started = a.more
            if op[5] == 0 or ticket == op[5]:
                there = slot - wall + now
                if self.trusted and self.burst_one and there < self.fence:
                    raise Different("sold again after a crash", there, self.fence, op)
                if slot < wall:
                    raise Different("a slot before now", slot, wall, op)
                width = op[2] * run.cfg.interval
                e = a.entry(ticket) if ticket else None
                self.told[ticket or -op[6]] = there + (e[4] if e else width)
                if ticket == 0 and self.quota_config and self.quota_config[0]:
                    self.count(run, slot, op[2], op)
            e = before.entry(ticket) if before and ticket != op[5] else None
            if e and e[1] == M.IMMEDIATE and slot > wall:
                self.quota_sure = False     # one start of the two is not taken: which, only its caller knows
            if started != (slot == wall) and op[5]:
                raise Different("started and wait differ", started, slot - wall, op)
            if started:
                # a repeated key takes no new capacity, so it is not counted again
                self.start(run, a, ticket, op[2] if ticket == op[5] else 0, op)
        elif verb == "release":
            e = a.entry(op[2][1]) if op[2][0] == "t" else None
            if a.answer == "released":
                if e and e[1] not in (M.HOLE, M.GONE):
                    raise Different("released, but the place is not free", e, "", op)
                self.told.pop(op[2][1], None)
                # whoever confirms it nevertheless is not refused once it is forgotten
                self.confirmed.add(op[2][1])
            elif e and old and e[1] != old[1]:
                raise Different("not released, but changed", old, e, op)
        elif verb == "confirm" and not refused and a.more[0] == 0:
            if op[2][0] == "t":
                if not old or old[1] == M.HELD:
                    self.start(run, a, op[2][1], old[2] if old else 1, op)
            else:
                self.quota_sure = False     # an appointment's start: counted with its slot
                self.start(run, a, 0, 1, op)
        elif verb == "rewind":
            self.forget()
            self.quota_sure = False


# ---- one sequence ------------------------------------------------------------------

class Run:
    """a sequence under way: the clocks, what callers were told, C and model beside it"""

    def __init__(self, driver, remembered):
        self.driver = driver
        self.model = M.Model(remembered)
        self.watch = Watch()
        self.cfg = None
        self.true = START           # true time
        self.off = 0                # wall = true + off
        self.kernels = 1
        self.kernel = 1 if driver.sees_crashes else 0
        self.kernel_started = START - HOUR
        self.mono_fails = False
        self.unpaired = True        # no reading of this kernel was kept yet
        self.run = 1
        self.told = {}              # ticket or appointment -> (slot by the wall, slot in truth)
        self.before = None          # the answer before this one
        self.settled = False        # and nothing happened to clocks or server since
        self.pending_step = 0
        driver.say("init %d" % remembered)

    @property
    def wall(self):
        return self.true + self.off

    def clock(self):
        mono = 0 if self.mono_fails else self.true - self.kernel_started
        return self.wall, mono, self.kernel

    def go(self, when):
        kind, ref, off = when
        if kind == "in":
            self.true += off
        elif ref in self.told:
            # a slot centuries ahead is not waited for
            then = min(self.told[ref][1] + off, START + 400 * 365 * DAY)
            self.true = max(self.true, then)

    def do(self, op):
        verb = op[0]
        if verb == "cfg":
            self.cfg = M.Config(**op[1])
            self.watch.config(self.cfg)
            if self.pending_step:
                self.watch.trusted = False      # another tolerance may overlook the step
            c = self.cfg
            self.driver.say("cfg %d %d %d %d %d %d %d %d %d" % (
                c.interval, c.burst, c.max_waiting, c.max_wait, c.quota, c.window, c.origin,
                c.ahead, c.tolerance))
        elif verb == "crash":
            self.run += 1
            self.model.reserved_until, self.model.logged_at = (
                int(x) for x in self.driver.say("crash %d" % op[1]).split()[1:])
            self.watch.crash()
            if self.pending_step > 0:
                self.watch.trusted = False      # forward, before a crash: nobody can know
            self.settled = False
        elif verb == "step":
            if self.wall + op[1] < START - 40 * DAY:
                return
            self.off += op[1]
            self.watch.stepped = True
            self.pending_step += op[1]
            if self.cfg is None or abs(op[1]) <= 2 * self.cfg.tolerance or not self.kernel or self.unpaired:
                self.watch.trusted = False
            self.settled = False
        elif verb == "kernel":
            # a new run of the operating system, which has an identity or has not
            self.kernels += 1
            self.kernel = self.kernels if op[1] else 0
            self.kernel_started = self.true - op[2]
            if self.pending_step:
                self.watch.trusted = False
            self.unpaired = True
            self.settled = False
        elif verb == "mono":
            self.mono_fails = True
        else:
            self.go(op[1])
            if self.cfg is not None:
                self.call(op)
            self.mono_fails = False

    def call(self, op):
        verb = op[0]
        clk = self.clock()
        now = clk[0]
        if self.pending_step and clk[1] == 0:
            self.watch.trusted = False
        args = self.arguments(op, now)
        line = "%s %d %d %d %d %s" % (verb, *clk, self.run, " ".join(str(x) for x in args))
        a = Answer(verb, self.driver.say(line))
        if self.run != self.model.run and self.pending_step:
            self.watch.trusted = False
        self.watch.see(self, op, self.before, a)

        m = self.model.enter(self.cfg, clk, self.run)
        try:
            answer, more = self.ask(m, op, now, args)
        except M.Refused as refused:
            answer, more = refused.answer, None
            if a.answer == answer and refused.slot is not None and a.more[1] != refused.slot:
                raise Different("the earliest slot told with a refusal", a.more[1], refused.slot, line)
        else:
            self.model = m
            self.pending_step = 0
            self.unpaired = self.unpaired and clk[1] == 0
        if a.answer != answer:
            if M.FULL in (a.answer, answer) and self.rounding(self.model) and \
                    abs(self.model.waiting(now) - self.cfg.max_waiting) <= 1:
                raise Undecided
            raise Different("answer of %s" % verb, (a.answer, a.more), (answer, more), line)
        if more is not None and list(more) != a.more:
            raise Different("answer of %s: numbers" % verb, a.more, more, line)
        if more is not None:
            self.compare(a, m, now, line)
            self.adopt(a, m)
            self.remember(op, a, now)
        self.before, self.settled = a, True

    def arguments(self, op, now):
        verb = op[0]
        if verb == "book":
            return op[2:6]
        if verb == "release":
            return [op[2][1] if op[2][0] == "t" else 0]
        if verb == "confirm":
            ref = op[2]
            slot = self.told[ref[1]][0] if op[3] and ref[1] in self.told else 0
            return [ref[1] if ref[0] == "t" else 0, slot]
        if verb == "pause":
            return [M.FOREVER if op[2] is None else now + op[2]]
        if verb in ("advance", "rewind"):
            return [min(now + op[2], M.END)]
        return []

    def ask(self, m, op, now, args):
        verb = op[0]
        if verb == "book":
            ticket, slot, started = m.book(self.cfg, now, *args)
            return M.OK, (ticket, slot, int(started))
        if verb == "release":
            return m.release(self.cfg, now, *args), ()
        if verb == "confirm":
            return M.OK, (m.confirm(self.cfg, now, *args),)
        if verb == "pause":
            m.pause(self.cfg, now, *args)
        elif verb == "resume":
            m.resume()
        elif verb == "advance":
            m.advance(*args)
        elif verb == "rewind":
            m.rewind(*args)
        return M.OK, ()

    def compare(self, a, m, now, line):
        for name in ("next_request_at", "next_start", "start_floor", "paused_until"):
            if getattr(a, name) != getattr(m, name):
                raise Different(name, getattr(a, name), getattr(m, name), line)
        if self.cfg.quota and self.counted(a, now) != self.counted(m, now):
            raise Different("quota (start, used)", (a.quota_start, a.quota_used),
                            (m.quota_start, m.quota_used), line)
        if a.quota_left != m.quota_left(self.cfg, now):
            raise Different("quota_left", a.quota_left, m.quota_left(self.cfg, now), line)
        entries = [(b.ticket, b.state, b.permits, b.slot, b.width, int(b.assigned))
                   for b in m.line if b.remembered]
        if entries != a.entries:
            raise Different("entries", [e for e in a.entries if e not in entries] or a.entries,
                            [e for e in entries if e not in a.entries] or entries, line)
        m.older = tuple(a.older)
        if abs(a.waiting - m.waiting(now)) > self.rounding(m):
            raise Different("waiting (older C %s, model %s)" % (a.older, m.older), a.waiting, m.waiting(now), line)
        ahead = self.cfg.ahead if self.cfg.interval < self.cfg.ahead else 0
        if a.reserved_until > min(M.END, max(a.next_request_at + ahead, m.reserved_until)):
            raise Different("reserved_until too far", a.reserved_until, a.next_request_at + ahead, line)
        if a.logged and a.logged_at != now:
            raise Different("logged_at", a.logged_at, now, line)

    def rounding(self, m):
        """over a stretch of more than 2^31 us the C counts older bookings by scaled times"""
        return 1 if m.older[2] - m.older[1] > 2 ** 31 - 1 else 0

    def counted(self, s, now):
        """a window that began and holds nothing is as good as another"""
        if s.quota_used == 0 and s.quota_start <= now:
            return 0, 0
        return s.quota_start, s.quota_used

    def adopt(self, a, m):
        m.reserved_until, m.quota_reserved = a.reserved_until, a.quota_reserved
        m.start_reach, m.logged_at = a.start_reach, a.logged_at
        m.pair = tuple(a.pair)

    def remember(self, op, a, now):
        if op[0] == "book":
            ticket, slot, _ = a.more
            self.told[ticket or -op[6]] = (slot, slot - now + self.true)
        elif op[0] == "confirm" and a.more[0] > 0:
            ref = op[2][1]
            if ref in self.told:
                wait = min(a.more[0], 400 * 365 * DAY)
                self.told[ref] = (self.told[ref][0], self.true + wait)


# ---- making sequences ----------------------------------------------------------------

class Maker:
    def __init__(self, rng, remembered, crashes=True):
        self.rng = rng
        self.ticket = 0
        self.appointments = 0
        self.remembered = remembered
        r = rng.random
        self.interval = rng.choice([1, MS, 10 * MS, 100 * MS, 333334, SEC, 3 * SEC, 60 * SEC, HOUR])
        if r() < 0.03:
            self.interval = rng.choice([DAY * 365 * 1000, 7_200_000_000_000_000_000, M.END])
        self.with_steps = r() < 0.3
        self.with_burst = r() < 0.4
        self.with_quota = r() < 0.4
        self.with_weights = r() < 0.4
        self.with_changes = r() < 0.4
        self.with_pauses = r() < 0.5
        self.with_admin = r() < 0.3
        self.with_crashes = r() < 0.4 and crashes
        self.crashes = crashes
        self.with_appointments = r() < 0.5
        self.with_keys = r() < 0.5
        self.crowd = r() < 0.5
        self.origin = rng.choice([0, 0, START, START + 12345, -HOUR + 7])
        self.window = min(self.interval * rng.choice([1, 3, 5, 10, 60]) + rng.choice([0, 0, 1, 17]), M.END // 4)
        self.quota = rng.choice([1, 2, 3, 5, 10])

    def config(self):
        rng = self.rng
        interval = self.interval
        if self.with_changes:
            interval = max(1, interval * rng.choice([1, 1, 1, 2, 5, 10]) // rng.choice([1, 1, 3, 10]))
        interval = min(interval, M.END)
        c = dict(interval=interval,
                 burst=rng.choice([1, 2, 3, 10]) if self.with_burst else 1,
                 max_waiting=rng.choice([-1, -1, -1, 0, 1, 8, self.remembered + 5]),
                 max_wait=rng.choice([-1, -1, -1, -1, interval * 3, 0]),
                 ahead=rng.choice([SEC, SEC, SEC, 0, 10 * SEC]),
                 tolerance=rng.choice([10 * MS, 10 * MS, 0, 100 * MS]))
        if self.with_quota and not (self.with_changes and rng.random() < 0.3):
            c.update(quota=self.quota, window=self.window, origin=self.origin)
            if self.with_changes and rng.random() < 0.5:
                c.update(quota=rng.choice([1, 2, 3, 8]), window=max(1, self.window // rng.choice([1, 2, 3])))
                if rng.random() < 0.3:
                    c.update(origin=self.origin + rng.randrange(1, 100_000))
        return ("cfg", c)

    def when(self):
        rng = self.rng
        x = rng.random()
        i = min(self.interval, HOUR * 50)
        if x < 0.35:
            return ("in", 0, 0)
        if x < 0.55:
            return ("in", 0, rng.randrange(0, i + 1))
        if x < 0.85 and self.ticket:
            off = rng.choice([0, 0, 0, 1, -1, rng.randrange(0, i + 1), i, 2 * i + 3, -i])
            return ("at", self.some_ticket(), off)
        if x < 0.95:
            return ("in", 0, rng.choice([1, MS, i * 3, i]))
        if x < 0.97:
            return ("in", 0, i * self.remembered)
        if x < 0.975:
            return ("in", 0, rng.choice([HOUR, DAY, 40 * DAY]))
        return ("in", 0, rng.randrange(0, 3 * i + 1))

    def some_ticket(self):
        back = int(self.rng.expovariate(1 / (self.remembered / 2 + 1)))
        return max(1, self.ticket - back)

    def ref(self):
        rng = self.rng
        if rng.random() < 0.03:
            return ("t", 10 ** 9 + rng.randrange(5))
        return ("t", self.some_ticket()) if self.ticket else ("t", 10 ** 9)

    def op(self):
        rng = self.rng
        x = rng.random()
        if x < (0.55 if self.crowd else 0.35):
            return self.book()
        if x < 0.65:
            return ("release", self.when(), self.ref())
        if x < 0.90:
            if self.appointments and rng.random() < 0.1:
                return ("confirm", self.when(),
                        ("a", -rng.randrange(max(1, self.appointments - 5), self.appointments + 1)),
                        rng.random() < 0.9)
            return ("confirm", self.when(), self.ref(), rng.random() < 0.8)
        if x < 0.94 and self.with_pauses:
            if rng.random() < 0.4:
                return ("resume", self.when())
            i = min(self.interval, DAY)
            return ("pause", self.when(), None if rng.random() < 0.15 else
                    rng.choice([0, 1, rng.randrange(0, 4 * i + 1), 5 * i, -i, SEC]))
        if x < 0.96 and self.with_admin:
            i = min(self.interval, DAY)
            return (rng.choice(["advance", "advance", "rewind"]), self.when(),
                    rng.choice([0, -i, i, 3 * i + 1, 10 * i, rng.randrange(0, i + 1), DAY]))
        if x < 0.97 and self.with_changes:
            return self.config()
        if x < 0.98 and self.with_crashes:
            return ("crash", rng.randrange(2))
        if x < 0.995 and self.with_steps:
            y = rng.random() if self.crashes else 1
            if y < 0.15:
                return ("mono",)
            if y < 0.3:
                return ("kernel", rng.choice([0, 1, 1, 1]), rng.choice([1, MS, SEC, HOUR, DAY]))
            return ("step", rng.choice([-1, 1]) * rng.choice(
                [1, MS, 9999, 10000, 10001, 100 * MS, SEC, HOUR, DAY, 400 * DAY,
                 rng.randrange(1, min(self.interval, DAY) + 1)]))
        return self.book()

    def book(self):
        rng = self.rng
        permits = rng.choice([1, 1, 1, 2, 3, 7]) if self.with_weights else 1
        if self.with_weights and rng.random() < 0.01:
            permits = rng.choice([1022, 1023, 1024, 2_000_000_000])
        max_wait = rng.choice([-1, -1, -1, -1, 0, self.interval, self.interval * 5])
        max_wait = min(max_wait, M.END)
        key = rng.randrange(1, 5) if self.with_keys and rng.random() < 0.4 else 0
        if self.with_appointments and rng.random() < 0.15:
            self.appointments += 1
            return ("book", self.when(), 1, -1, 0, 0, self.appointments)
        self.ticket += 1
        return ("book", self.when(), permits, max_wait, key, self.ticket)

    def sequence(self, length):
        return [self.config()] + [self.op() for _ in range(length)]


def play(driver, ops, remembered):
    """runs a sequence; the difference, or None"""
    run = Run(driver, remembered)
    try:
        for op in ops:
            run.do(op)
    except Different as d:
        return d
    except Undecided:
        pass
    return None


# ---- shrinking ------------------------------------------------------------------------

def kind(d):
    return "".join(c for c in d.what.split("(")[0] if not c.isdigit())


def shrink(driver, ops, remembered, wanted, seconds):
    """delta debugging, then simpler arguments, as long as the same kind of difference stays"""
    end = time.monotonic() + seconds

    def fails(candidate):
        if time.monotonic() > end:
            return False
        d = play(driver, candidate, remembered)
        return d is not None and kind(d) == wanted

    n = 2
    while len(ops) >= 2:
        size = max(1, len(ops) // n)
        for i in range(0, len(ops), size):
            candidate = ops[:i] + ops[i + size:]
            if fails(candidate):
                ops, n = candidate, max(n - 1, 2)
                break
        else:
            if size == 1:
                break
            n = min(n * 2, len(ops))

    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for i, op in enumerate(ops):
            for simpler in simplify(op):
                candidate = ops[:i] + [simpler] + ops[i + 1:]
                if fails(candidate):
                    ops, changed = candidate, True
                    break
    return ops


def simplify(op):
    """one step simpler, in each way"""
    if op[0] == "cfg":
        for key, plain in (("interval", SEC), ("burst", 1), ("burst", 2), ("max_waiting", -1),
                           ("max_wait", -1), ("quota", 0), ("origin", 0), ("ahead", SEC),
                           ("tolerance", 10 * MS)):
            if op[1].get(key, plain) != plain:
                yield ("cfg", {**op[1], key: plain})
        return
    if len(op) > 1 and isinstance(op[1], tuple):
        if op[1] != ("in", 0, 0):
            yield (op[0], ("in", 0, 0)) + op[2:]
            if op[1][2]:
                yield (op[0], (op[1][0], op[1][1], 0)) + op[2:]
                for v in (SEC, SEC // 2):
                    if op[1][0] == "in" and op[1][2] > v:
                        yield (op[0], ("in", 0, v)) + op[2:]
        if op[0] == "book":
            for i, plain in ((2, 1), (3, -1), (4, 0)):
                if op[i] != plain:
                    yield op[:i] + (plain,) + op[i + 1:]


def main():
    parser = argparse.ArgumentParser(description="schedule.c against the model")
    parser.add_argument("--ops", type=int, default=10_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--remembered", type=int)
    parser.add_argument("--length", type=int, default=200, help="operations in a sequence")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--managed", action="store_true", help="the SQL-only edition instead of the C")
    parser.add_argument("--shrink-seconds", type=int, default=60)
    args = parser.parse_args()

    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(2 ** 32)
    print("seed %d" % seed, flush=True)
    rng = random.Random(seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))     # or the folder stays
    driver = ManagedDriver() if args.managed else Driver(args.sanitize)
    done = 0
    try:
        while done < args.ops:
            remembered = args.remembered or rng.choice([4, 4, 5, 8, 8, 32, 32, 200])
            length = min(args.length, args.ops - done)
            ops = Maker(rng, remembered, driver.sees_crashes).sequence(length)
            d = play(driver, ops, remembered)
            done += length
            if d is not None:
                print("difference after some %d operations; shrinking" % done, flush=True)
                ops = shrink(driver, ops, remembered, kind(d), args.shrink_seconds)
                d = play(driver, ops, remembered)
                print("remembered %d" % remembered)
                for op in ops:
                    print("   ", op)
                print("differs in: %s\nlast call:  %s\nC:          %s\nmodel:      %s"
                      % (d.what, d.op, d.c, d.model))
                return 1
    finally:
        driver.close()
    print("%d operations, no difference" % done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
