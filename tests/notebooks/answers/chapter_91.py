"""Wrong answers to chapter 91."""

NEARLY = {
    "int8 on AVX2": "dot_i16i16i32",
    "int8 on AVX-512 VNNI": "dot_u8i8i32",
    "int8 on AMX": "amx_dot_i8i8",
    "bfloat16 on AMX": "amx_dot_bf16",
    "bfloat16 on NEON": "",
}


def wrong(chapter):
    return {
        "row_of_tiles": [
            (lambda sch: sch, "there is no product on tiles"),
            (chapter.in_panels, "there is no product on tiles"),
            (lambda sch: chapter.on_tiles, "this schedules another program"),
            (lambda sch: chapter.sums_in_tiles(chapter.in_panels(sch)), "no product on tiles"),
        ],
        "sixteen": [
            ((2, 2), "1 loads per product; at most 0.67 wanted"),
            ((4, 4), "a group of 4 × 4 takes 24 registers"),
            ((0, 5), "two whole numbers are wanted, such as (2, 2), not (0, 5)"),
        ],
        "which_unit": [
            (NEARLY, "int8 on AVX-512 VNNI takes another one"),
            ({"int8 on AVX2": ""}, "nothing is said of int8 on AVX-512 VNNI"),
        ],
        "how_long": [
            (65_536, "too small"),
            (131_072, "too large"),
        ],
        "worst_number": [
            (1.005, "of the number; at least 0.00385 wanted"),
            (3.14, "3.14 is not between 1 and 2"),
        ],
    }
