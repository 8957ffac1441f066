"""Wrong answers to chapter 92."""


def wrong(chapter):
    return {
        "predicted_tile": [
            ((6, 16), "Six registers stay free"),
            ((13, 32), "Six registers stay free"),
        ],
        "smaller_errors": [
            (256, "of the error of rows; at most 0.45 wanted"),
            (1000, "1000 does not divide 1024"),
        ],
        "fewer_loads": [
            ((6, 16), "loads per multiply-add; at most 0.6 wanted"),
            ((8, 24), "some of it is kept on the stack"),
            ((6, 12), "columns are whole vectors of 8"),
        ],
        "illegal_steps": [
            ({"parallel kb1"}, "5 of 6 are judged right"),
            ({"parallel jb", "unroll kb1"}, "2 of 6 are judged right"),
        ],
        "what_packing_costs": [
            ((1024 * 1024, 1024 * 1024), "Six rows at a time"),
            ((1026 * 1024, 1026 * 1024), "Six rows at a time"),
        ],
    }
