"""Wrong answers to chapter 07."""


def wrong(chapter):
    def bound(sch, block, thread):
        return sch.bind(block, "blockIdx.x").bind(thread, "threadIdx.x")

    def rows_by_threads(sch):
        return bound(sch.split("i", [None, 32]), "i_0", "i_1")

    def rows_by_blocks(sch):
        """Each block adds up with one thread: a number, and so a sector, at a time."""
        return sch.bind("i", "blockIdx.x")

    def smaller(sch):
        return chapter.share(chapter.slices(chapter.sums(sch, rows=2, columns=2)), depth=16)

    everything = {"window", "transpose", "product, first", "product, second", "own element"}
    return {
        "how_many_sectors": [
            ((4, 4, 4), "not (4, 4, 4). Write down the first and the last byte"),
            ((8, 4, 2), "not (8, 4, 2). Write down the first and the last byte"),
            ((8, 5, 1), "not (8, 5, 1). Write down the first and the last byte"),
        ],
        "which_barriers": [
            (everything, "4 of 5 are judged right"),
            (set(), "1 of 5 are judged right"),
            ({"matrix"}, "there is no 'matrix'"),
        ],
        "once_each": [
            (lambda sch: sch, "4,096 sectors of A; at most 512 wanted"),
            (rows_by_threads, "4,096 sectors of A; at most 512 wanted"),
            (rows_by_blocks, "4,096 sectors of A; at most 512 wanted"),
            (lambda sch: bound(sch, "k", "i"), "ScheduleError: E104"),
        ],
        "which_lengths": [
            ({33}, "not {33}. Row r begins in bank"),
            (set(range(33, 41)), "Row r begins in bank"),
            ([33, 35, 37, 39], "a value of type list, not set"),
        ],
        "larger_tiles": [
            (lambda sch: sch, "one thread would do it all"),
            (lambda sch: chapter.sums(sch, 1, 1), "264,192 sectors and wavefronts; at most 35,000"),
            (
                lambda sch: chapter.share(chapter.registers, 16),
                "sectors and wavefronts; at most 35,000",
            ),
            (smaller, "sectors and wavefronts; at most 35,000 wanted"),
        ],
    }
