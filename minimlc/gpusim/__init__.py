"""A GPU simulated by numpy: what kernels compute, what that costs, and where threads race.

    execute       statements, by all threads of some blocks at once, observed by each `Watch`
    races         a watch that raises where threads race, or do not all come to a barrier
    counters      a watch that counts instructions and, by `transactions`, what memory does
    profile       the counts, to be shown; `devices` estimates what a GPU makes of them
    launch        kernels one after the other, their blocks in chunks
    build         target "gpusim"

A profile is of the program as it is written: no compiler has moved a load, no cache has kept one.
"""
