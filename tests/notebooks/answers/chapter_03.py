"""Wrong answers to chapter 03."""

import minimlc as mlc


def wrong(chapter):
    def too_early(sch):
        """As `hasty`."""
        return (
            sch.split("j", factors=[None, 16]).decompose_reduction("Y", at="k").reorder("k", "j_1")
        )

    def without_relu(sch):
        sch = sch.split("j", factors=[None, 16]).reorder("i", "j_0", "k", "j_1")
        return sch.decompose_reduction("Y", at="k").vectorize("j_1")

    return {
        "no_guard": [
            (lambda sch: sch.split("i", factors=[None, 16]), "the hot loop asks whether i_0"),
            (lambda sch: sch.split("i", factors=[None, 4]), "the loops have [250, 4] iterations"),
            (lambda sch: sch.split("i", factors=[None, 5, 10]), "the loops have [20, 5, 10]"),
            # The last step is a split by 20, and what is left is a guarded loop.
            (
                lambda sch: sch.split("i", factors=[None, 2]).split("i_0", factors=[None, 20]),
                "the loops have [25, 20, 2] iterations",
            ),
            (
                lambda sch: mlc.Schedule(chapter.VectorAdd).split("i", factors=[None, 16]),
                "this schedules another program",
            ),
        ],
        "which_illegal": [
            ({"parallel i"}, "5 of 6 are judged right"),
            (set(), "4 of 6 are judged right"),
            ({"parallel k"}, "there is no 'parallel k'"),
        ],
        "five_fold": [
            (lambda sch: sch, "times as fast as the plain loops; at least 5 wanted"),
            (lambda sch: sch.split("i", factors=[None, 4]).parallel("i_0"), "at least 5 wanted"),
            (lambda sch: sch.vectorize("k"), "ScheduleError: E"),
            (lambda sch: mlc.Schedule(chapter.Matmul), "this schedules another program"),
        ],
        "in_lanes": [
            (lambda sch: sch.split("k", factors=[None, 16]), "there is no vectorized loop of 16"),
            (lambda sch: sch.split("k", factors=[None, 16]).vectorize("k_1"), "ScheduleError: E"),
        ],
        "mended": [
            (chapter.hasty, "ScheduleError: E"),
            (too_early, "ScheduleError: E"),
            (without_relu, "C is a pass of its own over i and j"),
            (lambda sch: sch.split("j", factors=[None, 16]), "from outside in, the loops are"),
        ],
    }
