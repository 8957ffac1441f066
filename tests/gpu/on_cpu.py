"""CUDA text on a CPU: a thread of the host for each of a block, inline assembly as functions.

What the instructions of a warp do is written down as the PTX ISA has it ("Matrix Fragments for
mma", "ldmatrix"), and shares nothing with the compiler's own description.
"""

import ctypes
import re
import shutil
import subprocess

from minimlc.targets.gpu.cuda import CUDA
from minimlc.targets.gpu.emit import emit

HEAD = r"""
#include <barrier>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>
#include <vector>
#define __CUDA_ARCH__ ARCH
#define __device__
#define __global__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __syncthreads() block->arrive_and_wait()
struct Place { int x, y, z; };
struct Warp { std::unique_ptr<std::barrier<>> all; uint32_t words[32][8]; };
static thread_local int lane;
static thread_local Place threadIdx, blockIdx;
static thread_local Warp *warp;
static std::barrier<> *block;
alignas(1024) static unsigned char shared_memory[1 << 18];
static char &base = (char &)shared_memory[0];
typedef uint32_t u32;
static size_t __cvta_generic_to_shared(const void *p) { return (const char *)p - &base; }

// Every lane's words, to be read by all.
template <typename F> static void exchange(std::vector<u32> mine, F use) {
    memcpy(warp->words[lane], mine.data(), 4 * mine.size());
    warp->all->arrive_and_wait();
    use(warp->words);
    warp->all->arrive_and_wait();
}
// A lane's value from one further on, its own where there is none.
template <typename T> static T __shfl_down_sync(u32, T mine, int down) {
    T value;
    std::vector<u32> word(2);
    memcpy(word.data(), &mine, sizeof(T));
    exchange(word, [&](auto words) {
        memcpy(&value, words[lane + down < 32 ? lane + down : lane], sizeof(T));
    });
    return value;
}
static float __int_as_float(int bits) { float x; memcpy(&x, &bits, 4); return x; }
static int __float_as_int(float x) { int bits; memcpy(&bits, &x, 4); return bits; }
static float half(u32 bits) { _Float16 x; memcpy(&x, &bits, 2); return x; }
static float bfloat(u32 bits) { bits <<= 16; float x; memcpy(&x, &bits, 4); return x; }
static void cvt_rn_f16_f32(unsigned short &bits, float x) { _Float16 h = x; memcpy(&bits, &h, 2); }
static void cvt_f32_f16(float &x, unsigned short bits) { x = half(bits); }

// A thread receives of its register's matrix row lane / 4, elements 2 (lane % 4) and the next one;
// transposed, those of that column. Row r of matrix m begins where thread 8 m + r says.
template <bool trans> static void ldmatrix(std::vector<u32 *> out, u32 at) {
    exchange({at}, [&](auto words) {
        for (int m = 0; m < (int)out.size(); ++m) {
            u32 value = 0;
            for (int e = 0; e < 2; ++e) {
                int one = lane / 4, other = lane % 4 * 2 + e;
                int row = trans ? other : one, column = trans ? one : other;
                const char *start = &base + (int32_t)words[8 * m + row][0];
                unsigned short element;
                if ((size_t)start % 16) abort();
                memcpy(&element, start + 2 * column, 2);
                value |= (u32)element << (16 * e);
            }
            *out[m] = value;
        }
    });
}
static void ldmatrix_sync_aligned_m8n8_x4_shared_b16(u32 &a, u32 &b, u32 &c, u32 &d, u32 at) {
    ldmatrix<false>({&a, &b, &c, &d}, at);
}
static void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(u32 &a, u32 &b, u32 &c, u32 &d, u32 at) {
    ldmatrix<true>({&a, &b, &c, &d}, at);
}
static void ldmatrix_sync_aligned_m8n8_x2_shared_b16(u32 &a, u32 &b, u32 at) {
    ldmatrix<false>({&a, &b}, at);
}
static void ldmatrix_sync_aligned_m8n8_x2_trans_shared_b16(u32 &a, u32 &b, u32 at) {
    ldmatrix<true>({&a, &b}, at);
}

// Fragments of 16-bit elements for m16n8k16 and m16n8k8, i-th element of a thread.
struct Halves {
    static constexpr int of_word = 2;
    static int a_row(int g, int t, int i) { return i < 2 || (i >= 4 && i < 6) ? g : g + 8; }
    static int a_column(int g, int t, int i) { return t * 2 + (i & 1) + (i < 4 ? 0 : 8); }
    static int b_row(int g, int t, int i) { return t * 2 + (i & 1) + (i < 2 ? 0 : 8); }
    static int c_row(int g, int t, int i) { return i < 2 ? g : g + 8; }
    static int c_column(int g, int t, int i) { return t * 2 + (i & 1); }
};
// Those of bytes for m16n8k32.
struct Bytes : Halves {
    static constexpr int of_word = 4;
    static int a_row(int g, int t, int i) { return i < 4 || (i >= 8 && i < 12) ? g : g + 8; }
    static int a_column(int g, int t, int i) { return t * 4 + (i & 3) + (i < 8 ? 0 : 16); }
    static int b_row(int g, int t, int i) { return t * 4 + (i & 3) + (i < 4 ? 0 : 16); }
};
// And for m8n8k16.
struct FewBytes : Bytes {
    static int a_row(int g, int t, int i) { return g; }
};
template <typename L, typename C, typename F>
static void product(std::vector<C *> c, std::vector<u32> a, std::vector<u32> b, F number) {
    std::vector<u32> mine(a);
    mine.insert(mine.end(), b.begin(), b.end());
    const int n = L::of_word, bits = 32 / n;
    exchange(mine, [&](auto words) {
        C left[16][32] = {}, right[32][8] = {};
        for (int l = 0; l < 32; ++l) {
            int g = l / 4, t = l % 4;
            auto element = [&](int word, int i) {
                return number(words[l][word + i / n] >> (bits * (i % n)) & ((1u << bits) - 1));
            };
            for (int i = 0; i < n * (int)a.size(); ++i)
                left[L::a_row(g, t, i)][L::a_column(g, t, i)] = element(0, i);
            for (int i = 0; i < n * (int)b.size(); ++i)
                right[L::b_row(g, t, i)][g] = element((int)a.size(), i);
        }
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < (int)c.size(); ++i)
            for (int k = 0; k < 4 * n * (int)b.size(); ++k)
                *c[i] += left[L::c_row(g, t, i)][k] * right[k][L::c_column(g, t, i)];
    });
}
#define FLOATS float &p, float &q, float &r, float &s
#define FACTORS u32 a, u32 b, u32 c, u32 d, u32 e, u32 f
static void mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32(FLOATS, FACTORS) {
    product<Halves, float>({&p, &q, &r, &s}, {a, b, c, d}, {e, f}, half);
}
static void mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32(FLOATS, FACTORS) {
    product<Halves, float>({&p, &q, &r, &s}, {a, b, c, d}, {e, f}, bfloat);
}
static void mma_sync_aligned_m16n8k8_row_col_f32_f16_f16_f32(FLOATS, u32 a, u32 b, u32 e) {
    product<Halves, float>({&p, &q, &r, &s}, {a, b}, {e}, half);
}
static int byte(u32 bits) { return (int8_t)bits; }
static void mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32(
    int &p, int &q, int &r, int &s, FACTORS) {
    product<Bytes, int>({&p, &q, &r, &s}, {a, b, c, d}, {e, f}, byte);
}
static void mma_sync_aligned_m8n8k16_row_col_s32_s8_s8_s32(int &p, int &q, u32 a, u32 b) {
    product<FewBytes, int>({&p, &q}, {a}, {b}, byte);
}

// A matrix in swizzled memory, by its description: the first byte, how far apart its parts and
// groups of eight rows are, and the order of 16-byte pieces, by the row of 128 bytes they are in.
static const char *swizzled(uint64_t from, int part, int row, int column) {
    if (from >> 62 != 1) abort();
    auto field = [from](int start) { return u32(from >> start & 0x3fff) << 4; };
    u32 at = field(0), apart = field(16), rows = field(32);
    at += part * apart + row / 8 * rows + row % 8 * 128 + column * 2;
    return (char *)shared_memory + (at ^ (at >> 7 & 7) << 4);
}
// The sums of four warps, m64n128k16: warp w has rows 16 w ... 16 w + 15.
template <typename F, typename... All> static void groups_product(F number, All &...all) {
    const void *given[] = {&all...};
    const uint64_t left = *(uint64_t *)given[64], right = *(uint64_t *)given[65];
    for (int i = 0; i < 64; ++i) {
        int row = threadIdx.y % 4 * 16 + lane / 4 + i / 2 % 2 * 8;
        int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k) {
            unsigned short a, b;
            memcpy(&a, swizzled(left, 0, row, k), 2);
            memcpy(&b, swizzled(right, column / 64, k, column % 64), 2);
            *(float *)given[i] += number(a) * number(b);
        }
    }
}
template <typename... All>
static void wgmma_mma_async_sync_aligned_m64n128k16_f32_f16_f16(All &&...all) {
    groups_product(half, all...);
}
template <typename... All>
static void wgmma_mma_async_sync_aligned_m64n128k16_f32_bf16_bf16(All &&...all) {
    groups_product(bfloat, all...);
}
static void wgmma_fence_sync_aligned() {}
static void wgmma_commit_group_sync_aligned() {}
static void wgmma_wait_group_sync_aligned() {}
static void fence_proxy_async_shared_cta() {}

// Copies are done when they are waited for, no earlier: by groups of one thread.
struct Sent { u32 at; const void *from; int size; };
static thread_local std::deque<std::vector<Sent>> groups(1);
static void cp_async_ca_shared_global(u32 at, const void *from, int size) {
    if (at % size || (size_t)from % size || (size != 4 && size != 8 && size != 16)) abort();
    groups.back().push_back({at, from, size});
}
static void cp_async_cg_shared_global(u32 at, const void *from) {
    cp_async_ca_shared_global(at, from, 16);
}
static void cp_async_commit_group() { groups.push_back({}); }
static void cp_async_wait_group(size_t last) {
    while (groups.size() - 1 > last) {
        for (auto [at, from, size] : groups.front()) memcpy(&base + (int32_t)at, from, size);
        groups.pop_front();
    }
}
struct Pointer { void *to; template <typename T> operator T *() const { return (T *)to; } };
"""

LAUNCH = """
extern "C" void launch_{symbol}(void **arrays) {{
    const int threads = {x} * {y} * {z};
    for (int n = 0; n < {blocks[0]} * {blocks[1]} * {blocks[2]}; ++n) {{
        std::barrier<> together(threads);
        block = &together;
        std::unique_ptr<Warp[]> warps(new Warp[(threads + 31) / 32]);
        for (int t = 0; t < threads; t += 32)
            warps[t / 32].all.reset(new std::barrier<>(std::min(32, threads - t)));
        std::vector<std::thread> running;
        for (int t = 0; t < threads; ++t) running.emplace_back([&, t] {{
            threadIdx = {{t % {x}, t / {x} % {y}, t / {x} / {y}}};
            blockIdx = {{n % {blocks[0]}, n / {blocks[0]} % {blocks[1]},
                        n / {blocks[0]} / {blocks[1]}}};
            warp = &warps[t / 32];
            lane = t % 32;
            {symbol}({listed});
        }});
        for (auto &thread : running) thread.join();
    }}
}}
"""
POOL = (
    "extern __shared__ __align__(1024) unsigned char shared_memory[];",
    "",
)
ASM = re.compile(r'asm(?: volatile)?\(((?:"[^"]*"\s*)+):([^:]*):([^:;]*)(?:: "memory")?\);')


def _called(found):
    name = found[1].split()[0].strip('";').replace("::", "_").replace(".", "_")
    operands = re.findall(r'"\W*\w"\((.*?)\)', found[2] + found[3])
    return f"{name}({', '.join(operands)});"


def run_on_cpu(func, folder, arrays, architecture=800, groups=False):
    """Runs a function of one kernel, as CUDA text for a device, on arrays. With `groups`, four
    warps multiply together.
    """
    emitted = emit({"main": func}, CUDA)
    (launch,) = emitted.functions["main"][1]
    x, y, z = launch.kernel.block
    params = [func.params.index(buffer) for buffer in launch.kernel.params]
    listed = ", ".join(f"Pointer{{arrays[{number}]}}" for number in params)
    start = LAUNCH.format(
        symbol=launch.symbol, x=x, y=y, z=z, blocks=launch.kernel.grid, listed=listed
    )
    source, library = folder / "kernel.cpp", folder / "kernel.so"
    head = HEAD.replace("__ ARCH", f"__ {architecture}")
    head += "#define __CUDA_ARCH_FEAT_SM90_ALL 1\n" * groups
    text = emitted.text.replace(*POOL)
    source.write_text(head + ASM.sub(_called, text) + start, "utf-8")
    command = [shutil.which("g++"), "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-w"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    ctypes.CDLL(str(library))[f"launch_{launch.symbol}"](pointers)
