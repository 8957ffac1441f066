"""A team of threads that share parallel loops out: native code, and the threads that run it.

A loop is published as one word, a running number and how many shares it has; each share has a
slot, which whoever runs it claims. The calling thread runs the first share, and every other one
that its thread has not claimed soon: one that sleeps, or waits for a core, costs a loop next to
nothing. Which thread runs a share changes no result, as long as all round alike. A loop inside a
parallel loop, or beside one that another thread has shared out, runs on the thread that meets it.

Threads that sleep are woken as in a tree: the calling thread wakes two, and each of them two more.

After a fraction of a millisecond without work a thread sleeps. The team stays until the process
ends: its code and memory are never given back. A forked child has none until it asks for threads.
"""

import ctypes
import mmap
import platform
import signal
import sys
import threading
from collections.abc import Callable
from string import Template
from typing import Any

from minimlc.loops.llvm.kernel import backend, link, machine_of, surroundings
from minimlc.loops.values.target import Target
from minimlc.services.runtime.cache import cache_key, load_entry, store_entry

MEMBERS = 512
"""The most threads of a team, the calling one among them."""

PATIENCE, ALERT, AWAKE = 64, 2_000, 12_000
"""Rounds of waiting: for the shares to be claimed; busily; and until a thread without work sleeps,
having left its core to others now and then.
"""


STACK = 4 << 20
"""Bytes of a thread's stack, which local buffers of its loops take."""


class Slot(ctypes.Structure):
    """A share's state: the words claimed last and done last; whether its thread sleeps, and its
    semaphore, which may lie in `room`. Two cache lines, for those are fetched in pairs.
    """

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("claimed", "done", "sleeps", "semaphore")),
        ("room", ctypes.c_int64 * 12),
    )


class Shared(ctypes.Structure):
    """The state of all threads: whether one shares a loop out, and how many there are; the loop's
    word, its task, and its status; the slots.
    """

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("busy", "members")),
        ("apart", ctypes.c_int64 * 14),
        *((name, ctypes.c_int64) for name in ("word", "task", "context", "count")),
        ("status", ctypes.c_int32),
        ("rest", ctypes.c_int32 * 23),
        ("slots", Slot * MEMBERS),
    )


_X86, _ARM = "call void @llvm.x86.sse2.pause()", "call void @llvm.aarch64.isb(i32 15)"
_PAUSE = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}

CODE = """
%Slot = type { i64, i64, i64, ptr, [12 x i64] }
%Shared = type { i64, i64, [14 x i64], i64, ptr, ptr, i64, i32, [23 x i32], [$MEMBERS x %Slot] }
@minimlc_threads = external global i32
@minimlc_team = external global %Shared
declare i32 @minimlc_wait(ptr, i64)
declare i32 @minimlc_post(ptr)
declare i32 @sched_yield()

define internal void @pause(i64 %round) {
  $PAUSE
  %late = icmp ugt i64 %round, $ALERT
  %part = and i64 %round, 63
  %turn = icmp eq i64 %part, 0
  %leave = and i1 %late, %turn
  br i1 %leave, label %others, label %done
others:
  %ignored = call i32 @sched_yield()
  br label %done
done:
  ret void
}

; Whether a share is the caller's: words only grow, and each is claimed once.
define internal i1 @claim(ptr %claimed, i64 %word) {
  %last = load atomic i64, ptr %claimed acquire, align 8
  %open = icmp ult i64 %last, %word
  br i1 %open, label %try, label %no
try:
  %pair = cmpxchg ptr %claimed, i64 %last, i64 %word acq_rel monotonic, align 8
  %won = extractvalue { i64, i1 } %pair, 1
  ret i1 %won
no:
  ret i1 false
}

; Run a share that was claimed: until it is done, the loop's data stay.
define internal void @run(i64 %share, i64 %word) noinline {
  %task = load ptr, ptr $TASK, align 8
  %context = load ptr, ptr $CONTEXT, align 8
  %count = load i64, ptr $COUNT, align 8
  %shares = and i64 %word, 65535
  %next = add i64 %share, 1
  %low = mul i64 %count, %share
  %high = mul i64 %count, %next
  %begin = udiv i64 %low, %shares
  %end = udiv i64 %high, %shares
  %status = call i32 %task(ptr %context, i64 %begin, i64 %end)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %note, label %done
note:
  %worst = atomicrmw max ptr $STATUS, i32 %status monotonic
  br label %done
done:
  %done.at = $SLOT i64 %share, i32 1
  store atomic i64 %word, ptr %done.at release, align 8
  ret void
}

; Wake the threads of shares 2 s + 1 and 2 s + 2, where they sleep.
define internal void @wake(i64 %share, i64 %word) noinline {
entry:
  %shares = and i64 %word, 65535
  %twice = shl i64 %share, 1
  %last = add i64 %twice, 2
  br label %next
next:
  %before = phi i64 [%twice, %entry], [%a, %look], [%a, %exchange], [%a, %post]
  %a = add i64 %before, 1
  %is.part = icmp ult i64 %a, %shares
  %is.own = icmp ule i64 %a, %last
  %more = and i1 %is.part, %is.own
  br i1 %more, label %look, label %done
look:
  %sleeps.at = $SLOT i64 %a, i32 2
  %sleeps = load atomic i64, ptr %sleeps.at seq_cst, align 8
  %asleep = icmp ne i64 %sleeps, 0
  br i1 %asleep, label %exchange, label %next
exchange:
  %slept = atomicrmw xchg ptr %sleeps.at, i64 0 seq_cst
  %first = icmp ne i64 %slept, 0
  br i1 %first, label %post, label %next
post:
  %semaphore.at = $SLOT i64 %a, i32 3
  %semaphore = load ptr, ptr %semaphore.at, align 8
  %ignored = call i32 @minimlc_post(ptr %semaphore)
  br label %next
done:
  ret void
}

; Run a task over 0 ... count-1; its status, plus 1.
define i32 @minimlc_parallel(ptr %task, ptr %context, i64 %count) {
  %limit.short = load atomic i32, ptr @minimlc_threads monotonic, align 4
  %limit = sext i32 %limit.short to i64
  %members = load atomic i64, ptr $THERE acquire, align 8
  %most = call i64 @llvm.smin.i64(i64 %limit, i64 %members)
  %shares = call i64 @llvm.smin.i64(i64 %most, i64 %count)
  %alone = icmp sle i64 %shares, 1
  br i1 %alone, label %serial, label %ask
ask:
  %pair = cmpxchg ptr @minimlc_team, i64 0, i64 1 acquire monotonic, align 8
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %publish, label %serial
serial:
  %one = call i32 %task(ptr %context, i64 0, i64 %count)
  %one.more = add i32 %one, 1
  ret i32 %one.more
publish:
  store ptr %task, ptr $TASK, align 8
  store ptr %context, ptr $CONTEXT, align 8
  store i64 %count, ptr $COUNT, align 8
  store i32 0, ptr $STATUS, align 8
  %before = load i64, ptr $WORD, align 8
  %number = lshr i64 %before, 16
  %number.next = add i64 %number, 1
  %shifted = shl i64 %number.next, 16
  %word = or i64 %shifted, %shares
  ; In one order for all with `sleeps`, here and there: who is not woken sees the word.
  store atomic i64 %word, ptr $WORD seq_cst, align 8
  call void @wake(i64 0, i64 %word)
  call void @run(i64 0, i64 %word)
  br label %others
others:
  %b = phi i64 [1, %publish], [%b.next, %taken]
  %waited = phi i64 [0, %publish], [%rounds, %taken]
  %claimed.at = $SLOT i64 %b, i32 0
  br label %patient
patient:
  %round = phi i64 [%waited, %others], [%round.next, %still]
  %claimed = load atomic i64, ptr %claimed.at acquire, align 8
  %is.claimed = icmp eq i64 %claimed, %word
  br i1 %is.claimed, label %taken, label %still
still:
  call void @pause(i64 %round)
  %round.next = add i64 %round, 1
  %on = icmp ult i64 %round.next, $PATIENCE
  br i1 %on, label %patient, label %take
take:
  %won = call i1 @claim(ptr %claimed.at, i64 %word)
  br i1 %won, label %absent, label %taken
absent:
  call void @run(i64 %b, i64 %word)
  br label %taken
taken:
  %rounds = phi i64 [%round, %patient], [%round.next, %take], [%round.next, %absent]
  %b.next = add i64 %b, 1
  %b.more = icmp slt i64 %b.next, %shares
  br i1 %b.more, label %others, label %wait
wait:
  %c = phi i64 [1, %taken], [%c.next, %ready]
  %done.at = $SLOT i64 %c, i32 1
  br label %look
look:
  %looks = phi i64 [0, %wait], [%looks.next, %again]
  %done = load atomic i64, ptr %done.at acquire, align 8
  %is.done = icmp eq i64 %done, %word
  br i1 %is.done, label %ready, label %again
again:
  call void @pause(i64 %looks)
  %looks.next = add i64 %looks, 1
  br label %look
ready:
  %c.next = add i64 %c, 1
  %c.more = icmp slt i64 %c.next, %shares
  br i1 %c.more, label %wait, label %end
end:
  %status = load atomic i32, ptr $STATUS monotonic, align 8
  %status.more = add i32 %status, 1
  store atomic i64 0, ptr @minimlc_team release, align 8
  ret i32 %status.more
}

; What a thread of the team does, for good.
define ptr @minimlc_member(ptr %argument) {
entry:
  %share = ptrtoint ptr %argument to i64
  %claimed.at = $SLOT i64 %share, i32 0
  %sleeps.at = $SLOT i64 %share, i32 2
  %semaphore.at = $SLOT i64 %share, i32 3
  %semaphore = load ptr, ptr %semaphore.at, align 8
  br label %look
look:
  %seen = phi i64 [0, %entry], [%seen, %idle], [%word, %loop], [%word, %try], [%word, %mine],
                  [%seen, %slept]
  %round = phi i64 [0, %entry], [%round.next, %idle], [%round, %loop], [%round, %try], [0, %mine],
                   [0, %slept]
  %word = load atomic i64, ptr $WORD acquire, align 8
  %new = icmp ne i64 %word, %seen
  br i1 %new, label %loop, label %idle
loop:
  %shares = and i64 %word, 65535
  %part = icmp ult i64 %share, %shares
  br i1 %part, label %try, label %look
try:
  call void @wake(i64 %share, i64 %word)
  %won = call i1 @claim(ptr %claimed.at, i64 %word)
  br i1 %won, label %mine, label %look
mine:
  call void @run(i64 %share, i64 %word)
  br label %look
idle:
  call void @pause(i64 %round)
  %round.next = add i64 %round, 1
  %on = icmp ult i64 %round.next, $AWAKE
  br i1 %on, label %look, label %sleep
sleep:
  store atomic i64 1, ptr %sleeps.at seq_cst, align 8
  %last = load atomic i64, ptr $WORD seq_cst, align 8
  %nothing = icmp eq i64 %last, %seen
  br i1 %nothing, label %wait, label %slept
wait:
  %ignored = call i32 @minimlc_wait(ptr %semaphore, i64 -1)
  br label %slept
slept:
  store atomic i64 0, ptr %sleeps.at seq_cst, align 8
  br label %look
}
"""


def text() -> str:
    """The team's code, as LLVM's text."""
    numbers = {"MEMBERS": MEMBERS, "PATIENCE": PATIENCE, "ALERT": ALERT, "AWAKE": AWAKE}
    place = "getelementptr (%Shared, ptr @minimlc_team, i64 0, i32 {})"
    fields = {"THERE": 1, "WORD": 3, "TASK": 4, "CONTEXT": 5, "COUNT": 6, "STATUS": 7}
    return Template(CODE).substitute(
        numbers,
        **{name: place.format(number) for name, number in fields.items()},
        SLOT="getelementptr %Shared, ptr @minimlc_team, i64 0, i32 9,",
        PAUSE=_PAUSE.get(platform.machine().lower(), ""),
    )


class Team:
    """The threads of this process: `address` is that of the function that shares a loop out."""

    def __init__(self, threads: ctypes.c_int32, cache: bool = True):
        self._system = ctypes.CDLL(None)
        self._semaphore, wait, post = _semaphores(self._system)
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # a forked child has a copy
        self.shared = Shared.from_buffer(mmap.mmap(-1, ctypes.sizeof(Shared), private))
        imports = {
            "minimlc_threads": ctypes.addressof(threads),
            "minimlc_team": ctypes.addressof(self.shared),
            "minimlc_wait": wait,
            "minimlc_post": post,
        }
        exports = ["minimlc_parallel", "minimlc_member"]
        self._code = link([_object_code(cache)], exports, imports)
        self.address: int = self._code.addresses["minimlc_parallel"]
        self.reset()
        for kept in (self, threads):  # for good: its threads end with the process
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))

    def reset(self) -> None:
        """Have no threads, as in a child after a fork, and no loop that another thread was in."""
        self._lock = threading.Lock()
        ctypes.memset(ctypes.addressof(self.shared), 0, ctypes.sizeof(Shared))
        self.shared.members = 1

    def grow(self, members: int) -> None:
        """Have at least as many members, where the system has threads for them."""
        with self._lock:
            while self.shared.members < min(members, MEMBERS):
                if not self._started(self.shared.members):
                    return
                self.shared.members += 1

    def _started(self, share: int) -> bool:
        slot = self.shared.slots[share]
        slot.sleeps, slot.semaphore = 0, self._semaphore(ctypes.addressof(slot.room))
        if not slot.semaphore:
            return False
        system, how, thread = self._system, (ctypes.c_int64 * 16)(), ctypes.c_size_t()
        system.pthread_attr_init(how)
        system.pthread_attr_setstacksize(how, ctypes.c_size_t(STACK))
        entry = ctypes.c_void_p(self._code.addresses["minimlc_member"])
        # Signals are for the process's own threads: a new one takes what its creator takes.
        taken = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        failed = system.pthread_create(ctypes.byref(thread), how, entry, ctypes.c_void_p(share))
        signal.pthread_sigmask(signal.SIG_SETMASK, taken)
        return not failed and not system.pthread_detach(thread)


def _semaphores(system: Any) -> tuple[Callable[[int], int], int, int]:
    """A maker of semaphores in 96 bytes, 0 if it fails; the addresses of their wait and post."""
    if sys.platform == "darwin":
        create = system.dispatch_semaphore_create
        create.argtypes, create.restype = [ctypes.c_long], ctypes.c_void_p
        wait, post = system.dispatch_semaphore_wait, system.dispatch_semaphore_signal
        return lambda place: create(0), _address(wait), _address(post)
    create = system.sem_init

    def new(place: int) -> int:
        return 0 if create(ctypes.c_void_p(place), 0, 0) else place

    return new, _address(system.sem_wait), _address(system.sem_post)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _object_code(cache: bool) -> bytes:
    """The team's machine code, from the cache where that has it and may be used."""
    host = Target.host()
    key = cache_key(["team", text(), *surroundings(), host.cpu, host.features])
    entry = load_entry(key) if cache else None
    if entry is not None:
        return entry[1]
    machine = machine_of(host)
    code: bytes = backend().compile_object(text(), machine, passes=False)
    if cache:
        store_entry(key, {}, code)
    return code
