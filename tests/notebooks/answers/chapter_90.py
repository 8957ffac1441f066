"""Wrong answers to the appendix of primitives."""


def wrong(chapter):
    return {
        "names_lanes": [
            ("unroll", "unroll does not make lanes of y"),
            ("parallel", "parallel does not make lanes of y"),
            ("vectorise", 'ScheduleError: E105: no primitive "vectorise"'),
        ],
        "names_gone": [
            ("set_scope", "E"),
            ("reverse_compute_inline", "ScheduleError: E"),
        ],
        "which_steps": [
            ({"parallel t"}, "6 of 7 are judged right"),
            ({"parallel t", "vectorize t", "reorder t r"}, "6 of 7 are judged right"),
        ],
        "what_names": [
            (["y", "x_0", "x_1"], "not ['y', 'x_0', 'x_1']. See split and fuse above."),
            (["x_0_y_fused", "x_1"], "not ['x_0_y_fused', 'x_1']. See split and fuse above."),
        ],
        "small_window": [
            (lambda sch: sch, "18 elements kept; at most 4 wanted"),
            (lambda sch: sch.compute_inline("Y"), "96 reads of A; at most 36 wanted"),
            (lambda sch: chapter.chain, "this schedules another program"),
        ],
    }
