"""
model.py - the schedule of a source, written a second time and plainly

An oracle for ext/schedule.c.  It follows ext/README.md, "The schedule: rules of
the arithmetic", and nothing else: one list of bookings in the order in which
they lie on the schedule, the heads, the counts.  Times are whole microseconds,
numbers are of any size, nothing is packed and nothing is fast.

It differs from the C in kind where that helps to find faults: it keeps every
booking it ever made as an object, forgotten ones and appointments included, and
looks whether one lies behind another instead of keeping flags and gaps.

Where that chapter leaves a choice, this file takes the one written at the place
(look for "of no window", "taken for full", "first to be forgotten").

Not decided here: when the logged half is written and how far its marks run
ahead (reserved_until, quota_reserved, start_reach, logged_at), how the pair of
clock readings is carried along, and from where to where the older bookings are
taken to lie.  torture.py takes those from the C after it has checked them
against the bounds the invariants give.  Counters are not modelled.
"""

END = 9223371331199999999           # the last timestamptz
FOREVER = 2 ** 63 - 1
ASK_AGAIN = 60_000_000
MAX_PERMITS = 1023                  # an entry remembers no more than that

HELD, IMMEDIATE, STARTED, HOLE, GONE = "held", "immediate", "started", "hole", "gone"

OK, FULL, TOO_LONG, PAUSED, OVERFLOW, OVER_QUOTA, KEY_DIFFERS, NOT_HELD = (
    "ok", "full", "too_long", "paused", "overflow", "over_quota", "key_differs", "not_held")


class Refused(Exception):
    """The verb was refused: nothing of it is kept, not even what enter() did."""

    def __init__(self, answer, slot=None):
        super().__init__(answer)
        self.answer = answer
        self.slot = slot            # the earliest that could be had, where told


class Config:
    def __init__(self, interval, burst=1, max_waiting=100, max_wait=-1, quota=0,
                 window=0, origin=0, ahead=1_000_000, tolerance=10_000):
        self.interval = interval
        self.burst = burst
        self.max_waiting = max_waiting
        self.max_wait = max_wait
        self.quota = quota
        self.window = window
        self.origin = origin
        self.ahead = ahead
        self.tolerance = tolerance

    @property
    def tol(self):
        return (self.burst - 1) * self.interval

    def window_of(self, t):
        """the start of the quota window that holds t"""
        return t - (t - self.origin) % self.window


class Booking:
    """A place on the schedule, and who has it."""

    def __init__(self, ticket, permits, slot, width, key, state):
        self.ticket = ticket
        self.permits = min(permits, MAX_PERMITS)
        self.slot = slot
        self.width = width
        self.key = key
        self.state = state
        self.assigned = False       # confirm gave it a place among the starts
        self.remembered = True      # the row has an entry for it

    def copy(self):
        b = Booking.__new__(Booking)
        b.__dict__.update(self.__dict__)
        return b

    def ahead(self, now):
        return self.slot > now


def unseen():
    """something on the schedule no entry stands for: an advance, what a crash forgot"""
    b = Booking(0, 1, 0, 0, 0, HELD)
    b.remembered = False
    return b


class Model:
    def __init__(self, remembered):
        self.remembered = remembered
        self.line = []              # every booking, in schedule order
        self.next_request_at = 0    # head over bookings
        self.next_start = 0         # head over starts, assigned ones included
        self.start_floor = 0        # head over starts that took place
        self.paused_until = 0
        self.quota_start = 0
        self.quota_used = 0
        self.quota_window = 0       # the length it is counted under, 0: none
        self.unseen_until = 0       # the latest slot that no entry stands for
        self.older = (0, 0, 0)      # count, since, until
        # the logged half, as the C told it, and the pair of clocks, likewise
        self.reserved_until = 0
        self.quota_reserved = 0
        self.start_reach = 0
        self.logged_at = 0
        self.pair = (0, 0, 0)       # wall, mono, kernel
        self.run = 0
        self.moved = 0              # how far enter() moved the schedule, for who watches

    def copy(self):
        m = Model.__new__(Model)
        m.__dict__.update(self.__dict__)
        m.line = [b.copy() for b in self.line]
        return m

    # ---- what the row remembers ------------------------------------------------

    def entries(self):
        return [b for b in self.line if b.remembered]

    def find(self, ticket):
        if ticket == 0:
            return None
        for b in self.line:
            if b.remembered and b.ticket == ticket:
                return b
        return None

    def older_waiting(self, now):
        """older bookings are taken to lie evenly between since and until"""
        count, since, until = self.older
        if count == 0 or now >= until:
            return 0
        if now <= since:
            return count
        return -(-count * (until - now) // (until - since))

    def waiting(self, now):
        held = sum(1 for b in self.entries() if b.state == HELD and b.ahead(now))
        return held + self.older_waiting(now)

    def forget(self, b, now):
        if b.state == GONE:
            self.line.remove(b)     # nothing of it is on the schedule
            return
        if b.state == HELD and b.ahead(now):
            count, since, until = self.older
            if self.older_waiting(now) == 0:
                self.older = (1, now, b.slot)
            else:
                self.older = (count + 1, since, max(until, b.slot))
        self.unsee(b)

    def unsee(self, b):
        """from here on no entry stands for its place"""
        b.remembered = False
        self.unseen_until = max(self.unseen_until, b.slot)

    def to_forget(self, now):
        """whom a full row forgets first"""
        entries = self.entries()
        for b in entries:
            if not (b.state in (HELD, HOLE) and b.ahead(now)):
                return b
        for b in entries:
            if b.state == HOLE:
                return b
        return entries[0]

    def make_room(self, now):
        if len(self.entries()) >= self.remembered:
            self.forget(self.to_forget(now), now)

    def prune(self):
        """unseen bookings before the first entry can neither follow one nor lie between two"""
        first = next((i for i, b in enumerate(self.line) if b.remembered), len(self.line))
        if first > 1:
            del self.line[:first - 1]

    # ---- quota ------------------------------------------------------------------

    def by_quota(self, cfg, t, n):
        """where a start of n, wanted at t, may lie"""
        if not cfg.quota:
            return t
        t = max(t, self.quota_start)
        if cfg.window_of(t) == self.quota_start and self.quota_used + n > cfg.quota:
            t = min(self.quota_start + cfg.window, END)
        return t

    def count(self, cfg, t, n):
        if not cfg.quota:
            return
        w = cfg.window_of(t)
        if w > self.quota_start:
            self.quota_start, self.quota_used = w, 0
        self.quota_used += n

    def quota_left(self, cfg, now):
        """starts left in the window of the earliest slot; a full window has none"""
        if not cfg.quota:
            return -1
        t = max(now, self.paused_until, self.next_request_at - cfg.tol, self.quota_start)
        if cfg.window_of(t) != self.quota_start:
            return cfg.quota
        return max(0, cfg.quota - self.quota_used)

    def counted_in(self, cfg, w):
        """what the entries in a window add up to"""
        return sum(b.permits for b in self.entries()
                   if b.state != GONE and cfg.window_of(b.slot) == w)

    def start_by_quota(self, cfg, t, slot, n):
        """
        Where a start that is counted in the window of its slot (0: nowhere) and
        is wanted at t may lie: anywhere in that window; else in a window before
        the counted one, if entries stand for all that lies there and leave room;
        else as a booking.
        """
        if not cfg.quota or (slot and cfg.window_of(slot) == cfg.window_of(t)):
            return t
        while t < self.quota_start:
            w = cfg.window_of(t)
            if self.unseen_until < w and self.counted_in(cfg, w) + n <= cfg.quota:
                return t
            t = w + cfg.window
            if t <= self.unseen_until:
                t = cfg.window_of(self.unseen_until)
            t = min(t, self.quota_start)
        return self.by_quota(cfg, t, n)

    def count_start(self, cfg, t, slot, n):
        if not cfg.quota or (slot and cfg.window_of(slot) == cfg.window_of(t)):
            return
        if t >= self.quota_start:
            self.count(cfg, t, n)   # before that, the entry is the count

    def carry_quota(self, cfg, now):
        """the count goes to the window that holds the head, where a booking of now would lie"""
        was_counted = self.quota_window != 0
        self.quota_window = cfg.window if cfg.quota else 0
        if not cfg.quota:
            self.quota_used = 0
            self.quota_start = 0
            return
        start = cfg.window_of(max(now, self.next_request_at))
        there = sum(b.permits for b in self.entries() if b.state != GONE and b.slot >= start)
        self.quota_used = max(self.quota_used, there)
        if was_counted and start < self.quota_start and self.unseen_until >= start:
            self.quota_used = max(self.quota_used, cfg.quota)   # what was there is not known
        self.quota_start = start

    # ---- before every verb --------------------------------------------------------

    def step(self, cfg, clk, crashed):
        """how far the wall clock was set since the pair was read (0: not, or not known)"""
        wall, mono, kernel = clk
        pwall, pmono, pkernel = self.pair
        if crashed:
            return min(0, wall - self.logged_at)
        if mono == 0:
            return 0                # nothing is compared this time
        if kernel and kernel == pkernel and mono >= pmono:
            d = (wall - pwall) - (mono - pmono)
            return d if abs(d) > cfg.tolerance else 0
        return min(0, wall - max(pwall, self.logged_at))

    def move(self, d):
        def moved(t):
            return t if t in (0, FOREVER) else min(max(t + d, 1), END)

        self.next_request_at = moved(self.next_request_at)
        self.next_start = moved(self.next_start)
        self.start_floor = moved(self.start_floor)
        self.paused_until = moved(self.paused_until)
        self.reserved_until = moved(self.reserved_until)
        self.unseen_until = moved(self.unseen_until)
        count, since, until = self.older
        self.older = (count, moved(since), moved(until))
        for b in self.line:
            b.slot = moved(b.slot)

    def enter(self, cfg, clk, run):
        """returns the model to go on with: itself, or a copy where something had to be settled"""
        m = self
        now = clk[0]
        crashed = run != self.run
        d = self.step(cfg, clk, crashed)
        window = cfg.window if cfg.quota else 0
        carry = (window != self.quota_window or d != 0
                 or (window and (self.quota_start - cfg.origin) % window != 0))
        if crashed or carry:
            m = self.copy()
        m.moved = d
        if crashed:
            m.run = run
            m.line = [unseen()]
            m.older = (0, 0, 0)
            m.next_request_at = m.reserved_until
            m.quota_used = m.quota_reserved
            m.next_start = m.start_floor = m.unseen_until = 0
        if d:
            m.move(d)
        if crashed:
            m.next_start = min(m.next_request_at, now + m.start_reach)
            m.start_floor = m.next_start
            m.unseen_until = m.next_request_at
        if carry:
            m.carry_quota(cfg, now)
        return m

    # ---- starts -------------------------------------------------------------------

    def start(self, t, width, now):
        """a start at t is counted; it takes place if that is now"""
        self.next_start = min(max(self.next_start, t) + width, END)
        if t == now:
            self.start_floor = min(max(self.start_floor, t) + width, END)
        self.next_request_at = max(self.next_request_at, self.next_start)

    def confirm_due(self, cfg, now, b):
        """
        A booking that is due asks to start; returns the wait.  b may be one the
        row does not remember: then the caller knows what to do with its place.
        """
        if self.paused_until == FOREVER:
            return ASK_AGAIN
        width = min(max(b.width, b.permits * cfg.interval), END)

        if b.assigned:
            start = max(now, self.paused_until, self.start_floor - cfg.tol)
            start = self.start_by_quota(cfg, start, b.slot, b.permits)
            if start <= now:
                self.count_start(cfg, now, b.slot, b.permits)
                self.start_floor = min(max(self.start_floor, now) + width, END)
                self.next_start = max(self.next_start, self.start_floor)
                self.next_request_at = max(self.next_request_at, self.next_start)
                b.slot, b.state = now, STARTED
                return 0
            if start < b.slot + width:
                return start - now

        start = max(now, self.paused_until, self.next_start - cfg.tol)
        start = self.start_by_quota(cfg, start, b.slot, b.permits)
        if start > now and not self.may_assign(b, now):
            return start - now
        place = self.find_start(cfg, now, b, width, start)
        if place:
            start = place.slot      # counted already, by the one that gave it up
            self.leave_to_nobody(place)
        else:
            self.start(start, width, now)
            self.count_start(cfg, start, b.slot, b.permits)
        b.slot = start
        if start > now:
            b.state, b.assigned = HELD, True
        else:
            b.state = STARTED
        return start - now

    def find_start(self, cfg, now, b, width, before):
        """a released place among the starts, for a booking the row remembers"""
        fit = [p for p in self.entries() if p.state == HOLE and p.assigned and p.ahead(now)
               and self.paused_until <= p.slot < before and p.width >= width
               and (not cfg.quota or p.permits == b.permits)]
        return min(fit, key=lambda p: p.slot) if fit and b.remembered else None

    def leave_to_nobody(self, hole):
        """the hole's place is taken by something that no entry stands for there"""
        taker = Booking(0, hole.permits, hole.slot, hole.width, 0, HELD)
        self.unsee(taker)
        self.line.insert(self.line.index(hole), taker)
        hole.state = GONE

    def may_assign(self, b, now):
        """an assigned place has to be remembered, and no caller is forgotten for it"""
        return b.remembered or (b.ticket != 0 and self.has_room(now))

    def has_room(self, now):
        """room for one more without forgetting a caller that waits"""
        if len(self.entries()) < self.remembered:
            return True
        b = self.to_forget(now)
        return not (b.state == HELD and b.ahead(now))

    # ---- the verbs ------------------------------------------------------------------

    def book(self, cfg, now, permits, max_wait, key, ticket):
        """returns (ticket, slot, started); ticket 0 is an appointment"""
        width = permits * cfg.interval
        if width > END:
            raise Refused(OVERFLOW)
        if cfg.quota and permits > cfg.quota:
            raise Refused(OVER_QUOTA)

        if key:
            for b in self.entries():
                if b.key == key and b.state in (HELD, IMMEDIATE):
                    return self.book_again(cfg, now, b, permits)

        if self.paused_until == FOREVER:
            raise Refused(PAUSED)
        slot = max(now, self.paused_until, self.next_request_at - cfg.tol)
        slot = self.by_quota(cfg, slot, permits)
        hole = self.find_hole(cfg, now, permits, width, slot)
        if hole:
            slot = hole.slot

        wait = slot - now
        if wait > 0:
            if ticket and cfg.max_waiting >= 0 and self.waiting(now) >= cfg.max_waiting:
                raise Refused(FULL, slot)
            if (0 <= cfg.max_wait < wait) or (0 <= max_wait < wait):
                raise Refused(TOO_LONG, slot)

        if hole:
            self.take_hole(hole, now, permits, key, ticket)
            return ticket, slot, False

        if max(self.next_request_at, slot) + width > END:
            raise Refused(OVERFLOW)
        self.next_request_at = max(self.next_request_at, slot) + width
        self.count(cfg, slot, permits)
        b = Booking(ticket, permits, slot, width, key, IMMEDIATE if slot == now else HELD)
        if ticket:
            if b.state == IMMEDIATE:
                self.start(now, width, now)
            self.make_room(now)
        else:
            b.state = HELD
            self.unsee(b)
        self.line.append(b)
        self.prune()
        return ticket, slot, b.state == IMMEDIATE

    def book_again(self, cfg, now, b, permits):
        if b.permits != min(permits, MAX_PERMITS):
            raise Refused(KEY_DIFFERS)
        if b.ahead(now):
            return b.ticket, b.slot, False
        if self.paused_until == FOREVER:
            raise Refused(PAUSED)
        wait = self.confirm_due(cfg, now, b)
        return b.ticket, now + wait, wait == 0

    def find_hole(self, cfg, now, permits, width, tail_slot):
        best = None
        for b in self.entries():
            if (b.state == HOLE and not b.assigned and b.ahead(now) and b.slot >= self.paused_until
                    and b.width >= width and b.slot < tail_slot
                    and (not cfg.quota or b.permits == permits)
                    and (best is None or b.slot < best.slot)):
                best = b
        return best

    def take_hole(self, hole, now, permits, key, ticket):
        b = Booking(ticket, permits, hole.slot, hole.width, key, HELD)
        if ticket == 0:
            self.leave_to_nobody(hole)
        else:
            self.line[self.line.index(hole)] = b
            first = self.to_forget(now)
            if (len(self.entries()) < self.remembered
                    or not (first.state in (HELD, HOLE) and first.ahead(now))):
                self.make_room(now)
                self.line.insert(0, hole)   # known as gone, and first to be forgotten
                hole.state = GONE

    def release(self, cfg, now, ticket):
        b = self.find(ticket)
        if b is None or b.state in (HOLE, GONE):
            return "unknown"
        if b.state in (IMMEDIATE, STARTED):
            return "started"
        if not b.ahead(now):
            return "passed"
        b.state = HOLE
        self.rewind_tail(cfg)
        return "released"

    def rewind_tail(self, cfg):
        """takes holes off the end of the schedule"""
        while True:
            on = [b for b in self.line if b.state != GONE]
            if not on:
                return
            b = on[-1]
            if not b.remembered or b.state != HOLE or b.assigned:
                return
            if cfg.quota:
                if b.slot < self.quota_start:
                    return
                self.quota_used -= b.permits
            self.next_request_at = max(self.next_request_at - b.width, self.next_start)
            b.state = GONE

    def confirm(self, cfg, now, ticket, slot):
        """returns the wait; slot 0: not known"""
        b = self.find(ticket)
        if b is None:
            return self.confirm_forgotten(cfg, now, ticket, slot)
        if b.state in (HOLE, GONE):
            raise Refused(NOT_HELD)
        if b.state in (IMMEDIATE, STARTED):
            return 0
        if b.ahead(now):
            return b.slot - now
        return self.confirm_due(cfg, now, b)

    def confirm_forgotten(self, cfg, now, ticket, slot):
        if ticket:
            slot = min(slot, self.next_request_at)      # it has waited, maybe by another clock
        if slot > now:
            return slot - now
        b = Booking(ticket, 1, slot, cfg.interval, 0, HELD)    # slot 0: of no window
        b.remembered = False
        wait = self.confirm_due(cfg, now, b)
        if b.state == STARTED or b.assigned:
            # remembered from here on, so that asking again is not another start
            if self.may_assign(b, now):
                self.make_room(now)
                b.remembered = True
                self.line.append(b)
            else:
                self.unsee(b)
        return wait

    def pause(self, cfg, now, until):
        if until <= self.paused_until:
            return
        if until == FOREVER:
            self.paused_until = FOREVER
            return
        ahead = [b for b in self.entries() if b.state in (HELD, HOLE) and b.ahead(now)]
        held = [b.slot for b in ahead if b.state == HELD]
        d = max(0, until - min(held)) if held else 0
        if d:
            if self.next_request_at + d > END:
                raise Refused(OVERFLOW)
            self.push(cfg, sorted(ahead, key=lambda b: b.slot), d)
        self.paused_until = until

    def push(self, cfg, bookings, d):
        """moves bookings by d, in order; under a quota further where a window is full"""
        counts = {}                 # what lies in a window beside those not moved yet

        def count_in(w):
            if w not in counts:
                there = sum(n for old, n in moving if cfg.window_of(old) == w)
                if w > self.quota_start:
                    counts[w] = 0
                elif w == self.quota_start:
                    counts[w] = max(0, self.quota_used - there)
                elif w > self.unseen_until:
                    counts[w] = self.counted_in(cfg, w) - sum(
                        b.permits for b in bookings if cfg.window_of(b.slot) == w)
                else:
                    counts[w] = max(0, cfg.quota - there)   # taken for full
            return counts[w]

        def after(w):
            """the next window that may have room: those nothing is known of are full"""
            w += cfg.window
            if w < self.quota_start and w <= self.unseen_until:
                known = [self.quota_start, cfg.window_of(self.unseen_until) + cfg.window]
                known += [cfg.window_of(old) for old, n in moving]
                w = min(k for k in known if k >= w)
            return w

        moving = [(b.slot, b.permits) for b in bookings]
        for b in bookings:
            slot = min(b.slot + d, END)
            if cfg.quota:
                while 0 < count_in(cfg.window_of(slot)) > cfg.quota - b.permits and slot < END:
                    slot = min(after(cfg.window_of(slot)), END)
                counts[cfg.window_of(slot)] += b.permits
            d = slot - b.slot
            b.slot = slot
        if cfg.quota:
            last = cfg.window_of(bookings[-1].slot)
            if last >= self.quota_start:
                self.quota_start, self.quota_used = last, counts[last]
        self.next_request_at = min(self.next_request_at + d, END)
        if any(b.assigned for b in bookings):
            self.next_start = min(self.next_start + d, END)
        self.next_request_at = max(self.next_request_at, self.next_start)
        count, since, until = self.older
        self.unseen_until = max(self.unseen_until, until)

    def resume(self):
        self.paused_until = 0

    def advance(self, to):
        if to > self.next_request_at:
            self.next_request_at = min(to, END)
            self.line.append(unseen())

    def rewind(self, to):
        to = max(to, 0)
        self.next_request_at = min(self.next_request_at, to)
        self.next_start = min(self.next_start, to)
        self.start_floor = min(self.start_floor, to)
        self.line = []
        self.older = (0, 0, 0)
        self.quota_start = self.quota_used = self.quota_window = 0
        self.unseen_until = to
