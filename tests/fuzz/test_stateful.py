"""The same rules driven by Hypothesis, which also goes back to earlier versions of a schedule."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import minimlc as mlc
from minimlc.loops.schedule import PRIMITIVES
from tests.fuzz.draw import RULES, WILD, Step
from tests.fuzz.one import is_refusal, round_trip
from tests.fuzz.programs import PROGRAMS
from tests.fuzz.schedules import subject_of
from tests.fuzz.site import Nothing, Site
from tests.fuzz.subject import difference

LONGEST = 12
"""Schedules do not grow beyond so many steps: programs would."""


class Schedules(RuleBasedStateMachine):
    """A program, the schedules reached so far, and the steps that lead to more of them."""

    @initialize(program=st.sampled_from(sorted(PROGRAMS)))
    def start(self, program):
        self.known = subject_of(program)
        self.reached = [mlc.Schedule(self.known.mod, check=False)]
        self.newest = self.reached[0]

    @rule(name=st.sampled_from(sorted(PRIMITIVES)), seed=st.integers(0, 10**6))
    def step(self, name, seed):
        if len(self.newest.trace) < LONGEST:
            self.newest = self.applied(name, random.Random(seed)) or self.newest

    def applied(self, name, rng):
        try:
            arguments = RULES[name](Site(self.newest, rng, wild=rng.random() < WILD))
            new = Step(name, arguments, wild=False).apply(self.newest)
        except Nothing:
            return None
        except mlc.ScheduleError as error:
            assert is_refusal(error), error
            return None
        self.reached.append(new)
        assert difference(self.known, new.mod, "interpreter", "backwards") == "", new.trace
        return new

    @rule(number=st.integers(0, 100))
    def go_back(self, number):
        self.newest = self.reached[number % len(self.reached)]

    @rule()
    def replay(self):
        assert round_trip(self.known.mod, self.newest) == "", self.newest.trace

    @invariant()
    def the_program_is_as_it_was(self):
        assert self.known.intact()


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(
    derandomize=True, deadline=None, database=None, max_examples=40, stateful_step_count=25
)
