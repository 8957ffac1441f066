"""Wrong answers to chapter 05."""


def wrong(chapter):
    space = chapter.Space
    mother, father = chapter.MOTHER, chapter.FATHER

    def constant(sch):
        return sch.split("i", [8, 8])

    def few(sch):
        sch, rows = sch.sample_perfect_tile("i", 2)
        return sch.split("i", rows)

    def rows_only(sch):
        """Good for A, bad for B: no cut of j."""
        sch, rows = sch.sample_perfect_tile("i", 2)
        return sch.split("i", rows)

    return {
        "how_many_choices": [
            (12, "12 is too large. Both factors are whole numbers."),
            (6, "6 is too small."),
            (96, "96 is too large."),
        ],
        "change_what_you_must": [
            ({"lanes": True}, "j_1 is not a vectorized loop of 32"),
            ({"lanes": True, "j": (4, 32)}, "i_1 is not an unrolled loop of 4"),
            ({"j": (32, 4), "i": (4, 32)}, "E162"),
            ({"k": 3}, "tiles decides nothing called k"),
            (dict(mother), "4 decisions; three are enough"),
        ],
        "many_programs": [
            (space(constant), "it decides nothing by chance"),
            (space(few), "5 programs; at least 12 wanted"),
            (space(lambda sch: 3), "a space returns a schedule"),
            (space(lambda sch: sch.vectorize("k")), "ScheduleError: E105"),
        ],
        "how_well": [(0.5, "0.5 is too small. How many pairs"), (1, "1 is too large.")],
        "a_child": [
            (mother, "it is the program of a parent"),
            ({**mother, "i": (64, 2)}, "no parent decides i like that"),
            ({"i": (16, 8)}, "it decides i"),
            ({**mother, "lanes": True}, "it is the program of a parent"),
        ],
        "few_misses": [
            (space(rows_only), "misses; at most 640 wanted"),
            (space(constant), "it decides nothing by chance"),
        ],
    }
