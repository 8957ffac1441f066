"""Views of minimlc's values: scripts, differences, histories and timings, loops and code.

    mod.show()                        a script that folds; `IRView(mod, title="…")`
    IRDiff(before, after)             two versions side by side
    sch.show()                        every step on the way; `PassStepper(history)`
    timing.show()                     every sample; `TimingBars({"naive": t0, "tiled": t1})`
    AsmView(sch)                      script, LLVM and assembly, their lines linked
    machine_code(sch).loops           the machine code as text, to count in
    Roofline({"mm": (ops, bytes, t)}) kernels under the peaks of the machine
    GraphView(mod)                    the dataflow of a graph function; groups open
    MemoryTimeline(lib.plan("main"))  what lives when and where in the arena; also `plan.show()`
    ProfileView(profile, lib)         each kernel's time, linked to the graph; `profile.show()`
    SearchProgress(tuned)             a search's trials, live (`observe=`) or done; `tuned.show()`
    LoopNest(sch)                     the order in which loops go over their buffers
    AccessHeatmap(before, after)      where a cache hits and misses, element by element
    Threads(sch)                      which thread of a GPU touches which element
    Transactions(profile)             a warp's requests to global memory, by sector
    Banks(profile)                    a warp's requests to shared memory, by bank
    Occupancy(profile)                the warps that GPUs hold of a kernel, its time at least
    RunInBrowser(sch, "main", a, b)   a kernel run by the reader's browser

Values show themselves in a notebook; the classes are for views with titles and choices. Figures by
matplotlib follow the theme after `plt.style.use("minimlc_widgets.figures")`.
"""

from minimlc_widgets.bundle import *  # noqa: F403
