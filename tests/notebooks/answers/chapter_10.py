"""Wrong answers to chapter 10."""


def wrong(chapter):
    def in_lanes_of_rows(sch):
        """Eight rows at once: one chain, and a gather of A."""
        return sch.split("i", factors=[None, 8]).reorder("i_0", "k", "i_1")

    return {
        "count_registers": [
            ([], "tiles are judged right"),
            (chapter.TILES, "tiles are judged right"),
            ([(5, 5)], "not among the tiles: [(5, 5)]"),
        ],
        "misses_less": [
            (lambda sch: sch, "4,352 misses; at most 600 wanted"),
            (lambda sch: sch.reorder("j", "i"), "4,352 misses; at most 600 wanted"),
            (lambda sch: sch.split("i", [None, 64]).split("j", [None, 2]), "misses; at most 600"),
        ],
        "enough_chains": [
            (lambda sch: sch, "the inner loop adds to 0 vector registers"),
            (in_lanes_of_rows, "the inner loop adds to"),
            (lambda sch: sch.vectorize("k"), "ScheduleError: E"),
        ],
        "how_many_lines": [
            ((128, 128), "not (128, 128). Which lines of A"),
            ((64, 1024), "not (64, 1024). Which lines of A"),
        ],
        "inner_counts_512": [
            ((48, 11), "not (48, 11). A vector has 16 numbers"),
            ((24, 24), "not (24, 24). A vector has 16 numbers"),
        ],
    }
