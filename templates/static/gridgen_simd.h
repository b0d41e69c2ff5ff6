// The CPU's entry points: SIMD packs with one state per lane, the change of layout between batch and packs,
// and one state in scalar registers.
//
// Needs GCC or Clang (vector extensions) and no library. The widest unit that the compiler may use
// (-march=native) decides W, the number of states computed together. <immintrin.h> would cost GCC
// 0.4 s per file, so instructions that vector extensions cannot express are builtins, each with a
// portable loop as an alternative.
#ifndef GRIDGEN_SIMD_H
#define GRIDGEN_SIMD_H

// One region of register allocation: half of GCC's memory for a long program with loops, and a fifth
// less time, for code of the same speed.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("-fira-region=one")
#endif

#include "gridgen.h"
#include "gridgen_math.cuh"

#if defined(__has_builtin)
#define GRIDGEN_HAS_BUILTIN(name) __has_builtin(name)
#else
#define GRIDGEN_HAS_BUILTIN(name) 0
#endif
// GCC before version 10 has these builtins, but no __has_builtin.
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)
#define GRIDGEN_AARCH64_GCC 1
#else
#define GRIDGEN_AARCH64_GCC 0
#endif

namespace gridgen {

// --- Packs --------------------------------------------------------------------------------------

#if defined(__AVX512F__)
constexpr int pack_bytes = 64;
#elif defined(__AVX__)
constexpr int pack_bytes = 32;
#else
constexpr int pack_bytes = 16;
#endif

template <class S> constexpr int pack_size = pack_bytes / int(sizeof(S));  // W

template <class S, int bytes> struct Vector {
    typedef S type __attribute__((vector_size(bytes)));
    typedef S anywhere __attribute__((vector_size(bytes), aligned(alignof(S)), may_alias));
};
template <class S> using Pack = typename Vector<S, pack_bytes>::type;

template <class S> struct PackLanes {
    using Real = S;
    using Bits = Pack<typename Lanes<S>::Bits>;
    using Signed = Pack<typename Lanes<S>::Signed>;
    static constexpr int count = pack_size<S>;

    // value + 0 would lose the sign of -0.
    static GRIDGEN_DEVICE Pack<S> broadcast(S value) { return value - Pack<S>{}; }
    static GRIDGEN_DEVICE Bits bits(Pack<S> x) { return (Bits)x; }
    static GRIDGEN_DEVICE Pack<S> from_bits(Bits x) { return (Pack<S>)x; }
    static GRIDGEN_DEVICE auto is_negative(Bits x) { return (Signed)x < 0; }

    static GRIDGEN_DEVICE Pack<S> fma(Pack<S> a, Pack<S> b, Pack<S> c) {
#if GRIDGEN_FUSES && GRIDGEN_HAS_BUILTIN(__builtin_elementwise_fma)
        return __builtin_elementwise_fma(a, b, c);
#elif defined(__AVX512F__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_vfmaddps512_mask)
        constexpr int current_rounding = 4;
        if constexpr (sizeof(S) == 4) {
            return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, current_rounding);
        } else {
            return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, current_rounding);
        }
#elif defined(__FMA__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_vfmaddps256)
        if constexpr (sizeof(S) == 4) {
            return __builtin_ia32_vfmaddps256(a, b, c);
        } else {
            return __builtin_ia32_vfmaddpd256(a, b, c);
        }
#elif GRIDGEN_AARCH64_GCC
        if constexpr (sizeof(S) == 4) {
            return __builtin_aarch64_fmav4sf(a, b, c);
        } else {
            return __builtin_aarch64_fmav2df(a, b, c);
        }
#else
        Pack<S> result;
        for (int i = 0; i < count; ++i) result[i] = Lanes<S>::fma(a[i], b[i], c[i]);
        return result;
#endif
    }
    // GCC would compute -a once and reuse it.
    static GRIDGEN_DEVICE Pack<S> fnma(Pack<S> a, Pack<S> b, Pack<S> c) {
#if defined(__AVX512F__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_vfnmaddps512_mask)
        constexpr int current_rounding = 4;
        if constexpr (sizeof(S) == 4) {
            return __builtin_ia32_vfnmaddps512_mask(a, b, c, -1, current_rounding);
        } else {
            return __builtin_ia32_vfnmaddpd512_mask(a, b, c, -1, current_rounding);
        }
#elif defined(__FMA__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_vfnmaddps256)
        if constexpr (sizeof(S) == 4) {
            return __builtin_ia32_vfnmaddps256(a, b, c);
        } else {
            return __builtin_ia32_vfnmaddpd256(a, b, c);
        }
#elif GRIDGEN_AARCH64_GCC
        if constexpr (sizeof(S) == 4) {
            return __builtin_aarch64_fnmav4sf(a, b, c);
        } else {
            return __builtin_aarch64_fnmav2df(a, b, c);
        }
#else
        return fma(-a, b, c);
#endif
    }

    static GRIDGEN_DEVICE Pack<S> sqrt(Pack<S> x) {
#if GRIDGEN_HAS_BUILTIN(__builtin_elementwise_sqrt)
        return __builtin_elementwise_sqrt(x);
#elif defined(__AVX512F__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_sqrtps512_mask)
        constexpr int current_rounding = 4;
        if constexpr (sizeof(S) == 4) {
            return __builtin_ia32_sqrtps512_mask(x, x, -1, current_rounding);
        } else {
            return __builtin_ia32_sqrtpd512_mask(x, x, -1, current_rounding);
        }
#elif defined(__AVX__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_sqrtps256)
        if constexpr (sizeof(S) == 4) {
            return __builtin_ia32_sqrtps256(x);
        } else {
            return __builtin_ia32_sqrtpd256(x);
        }
#elif GRIDGEN_AARCH64_GCC
        if constexpr (sizeof(S) == 4) {
            return __builtin_aarch64_sqrtv4sf(x);
        } else {
            return __builtin_aarch64_sqrtv2df(x);
        }
#else
        Pack<S> result;
        for (int i = 0; i < count; ++i) result[i] = Lanes<S>::sqrt(x[i]);
        return result;
#endif
    }

    static GRIDGEN_DEVICE bool any_negative(Pack<S> x) {
#if defined(__AVX512F__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_cmpps512_mask)
        constexpr int less = 1, current_rounding = 4;
        if constexpr (sizeof(S) == 4) {
            return __builtin_ia32_cmpps512_mask(x, Pack<S>{}, less, -1, current_rounding);
        } else {
            return __builtin_ia32_cmppd512_mask(x, Pack<S>{}, less, -1, current_rounding);
        }
#else
        const auto negative = x < S(0);
#if GRIDGEN_HAS_BUILTIN(__builtin_reduce_or)
        return __builtin_reduce_or(negative);
#elif defined(__AVX__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_movmskps256)
        return __builtin_ia32_movmskps256((Pack<float>)negative);
#else
        const auto words = (Pack<int64>)negative;
        int64 any = 0;
        for (int i = 0; i < pack_bytes / 8; ++i) any |= words[i];
        return any;
#endif
#endif
    }

    static GRIDGEN_DEVICE bool any_beyond(Pack<S> x, S limit) {
#if defined(__AVX512F__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_cmpps512_mask)
        constexpr int not_less_or_equal = 6, current_rounding = 4;
        const Pack<S> size = from_bits(bits(x) & ~Lanes<S>::sign_bit), limits = broadcast(limit);
        if constexpr (sizeof(S) == 4) {
            return __builtin_ia32_cmpps512_mask(size, limits, not_less_or_equal, -1,
                                                current_rounding);
        } else {
            return __builtin_ia32_cmppd512_mask(size, limits, not_less_or_equal, -1,
                                                current_rounding);
        }
#else
        const auto within = (x <= limit) & (x >= -limit);
#if GRIDGEN_HAS_BUILTIN(__builtin_reduce_and)
        return !__builtin_reduce_and(within);
#elif defined(__AVX__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_movmskps256)
        return __builtin_ia32_movmskps256((Pack<float>)within) != 0xff;
#else
        const auto words = (Pack<int64>)within;
        int64 all = -1;
        for (int i = 0; i < pack_bytes / 8; ++i) all &= words[i];
        return all != -1;
#endif
#endif
    }
};

template <> struct Lanes<Pack<float>> : PackLanes<float> {};
template <> struct Lanes<Pack<double>> : PackLanes<double> {};

// --- Tiles: W rows of one chunk of a row-major batch, transposed in registers -------------------

// A chunk is 4 numbers, or 2 doubles where a pack has 16 bytes.
template <class S> constexpr int chunk_size = pack_bytes == 16 ? 16 / int(sizeof(S)) : 4;

// GCC before version 12 has no __builtin_shufflevector; its batches are copied number by number.
#if GRIDGEN_HAS_BUILTIN(__builtin_shufflevector)
constexpr bool has_tiles = true;

template <class V, int... i> GRIDGEN_DEVICE auto concatenate(V a, V b, Indices<i...>) {
    return __builtin_shufflevector(a, b, i...);
}

// In every 16 bytes: a0 b0 [a1 b1] for the lower half, [a2 b2] a3 b3 for the upper.
template <int upper, class V, int... i> GRIDGEN_DEVICE V interleave(V a, V b, Indices<i...>) {
    constexpr int width = sizeof...(i), group = 16 / int(sizeof(a[0]));
    return __builtin_shufflevector(
        a, b, (i / group * group + (upper * group + i % group) / 2 + i % 2 * width)...);
}

// In every four numbers: a0 a1 b0 b1 for the lower half, a2 a3 b2 b3 for the upper.
template <int upper, class V, int... i> GRIDGEN_DEVICE V join_halves(V a, V b, Indices<i...>) {
    constexpr int width = sizeof...(i);
    return __builtin_shufflevector(
        a, b, (i / 4 * 4 + upper * 2 + i % 2 + i / 2 % 2 * width)...);
}

// Transposes the squares that the chunks of x[0], x[1] ... form, written one below the other.
template <class S> GRIDGEN_DEVICE void transpose_chunks(Pack<S>* x) {
    constexpr UpTo<pack_size<S>> lanes;
    if constexpr (chunk_size<S> == 2) {
        const Pack<S> a = x[0], b = x[1];
        x[0] = interleave<0>(a, b, lanes);
        x[1] = interleave<1>(a, b, lanes);
    } else {
        const Pack<S> a = interleave<0>(x[0], x[1], lanes), b = interleave<1>(x[0], x[1], lanes);
        const Pack<S> c = interleave<0>(x[2], x[3], lanes), d = interleave<1>(x[2], x[3], lanes);
        constexpr int other = int(sizeof(S)) / 4;  // a and c hold column 0 and this one
        x[0] = join_halves<0>(a, c, lanes);
        x[other] = join_halves<1>(a, c, lanes);
        x[3 - other] = join_halves<0>(b, d, lanes);
        x[3] = join_halves<1>(b, d, lanes);
    }
}

// The chunks at row, row + stride, row + 2 stride ... in one vector.
template <class S, int chunks> GRIDGEN_DEVICE auto read_chunks(const S* row, int64 stride) {
    if constexpr (chunks == 1) {
        typename Vector<S, chunk_size<S> * int(sizeof(S))>::type chunk;
        __builtin_memcpy(&chunk, row, sizeof chunk);
        return chunk;
    } else {
        return concatenate(read_chunks<S, chunks / 2>(row, stride),
                           read_chunks<S, chunks / 2>(row + chunks / 2 * stride, stride),
                           UpTo<chunks * chunk_size<S>>());
    }
}

template <int chunk = 0, class S, int... i>
GRIDGEN_DEVICE void write_chunks(S* row, int64 stride, Pack<S> x, Indices<i...> lanes) {
    // No memcpy: GCC 12 writes 1 1 1 1 for constants 1 1 0 0 that it copies as an integer.
    using Anywhere = typename Vector<S, chunk_size<S> * int(sizeof(S))>::anywhere;
    *reinterpret_cast<Anywhere*>(row) =
        __builtin_shufflevector(x, x, (chunk * chunk_size<S> + i)...);
    if constexpr (chunk + 1 < pack_size<S> / chunk_size<S>)
        write_chunks<chunk + 1>(row + stride, stride, x, lanes);
}

template <class S> GRIDGEN_DEVICE void read_tile(const S* first, int64 stride, Pack<S>* x) {
    constexpr int size = chunk_size<S>;
    Pack<S> tile[size];
    for (int k = 0; k < size; ++k)
        tile[k] = read_chunks<S, pack_size<S> / size>(first + k * stride, size * stride);
    transpose_chunks<S>(tile);
    for (int k = 0; k < size; ++k) x[k] = tile[k];
}

template <class S> GRIDGEN_DEVICE void write_tile(S* first, int64 stride, Pack<S>* tile) {
    constexpr int size = chunk_size<S>;
    transpose_chunks<S>(tile);
    for (int k = 0; k < size; ++k)
        write_chunks(first + k * stride, size * stride, tile[k], UpTo<size>());
}
#else
constexpr bool has_tiles = false;
template <class S> void read_tile(const S*, int64, Pack<S>*);
template <class S> void write_tile(S*, int64, Pack<S>*);
#endif

// --- Streams: results that outgrow the cache -----------------------------------------------------

// A processor reads a cache line from memory before it writes a part of it. Streaming stores of whole
// lines avoid that read, half of the traffic, if a call's results exceed the cache. One thread, which
// waits for its own lines, gains at a smaller size than several threads, whose waits overlap.
constexpr int64 outgrown_by_one = int64(8) << 20, outgrown_by_several = int64(12) << 20;  // bytes
// Rows are assembled in a buffer before they are written. If the buffer exceeds the first-level cache,
// this costs one thread up to a tenth; several threads are limited by bandwidth and gain a fifth.
constexpr int64 near_bytes = int64(64) << 10;

// Whether to stream the results of states [begin, end) of a batch, n numbers per state.
template <class S>
GRIDGEN_DEVICE bool are_streamed(int64 begin, int64 end, int64 batch, int64 n) {
    const int64 bytes = batch * n * int64(sizeof(S));
    if (end - begin < batch) return bytes > outgrown_by_several;
    return bytes > outgrown_by_one && n * pack_bytes <= near_bytes;
}

#if GRIDGEN_HAS_BUILTIN(__builtin_nontemporal_store)
constexpr bool has_streams = true;
template <class V> GRIDGEN_DEVICE void write_past_cache(void* to, V x) {
    __builtin_nontemporal_store(x, static_cast<V*>(to));
}
#elif defined(__AVX512F__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_movntps512)
constexpr bool has_streams = true;
template <class V> GRIDGEN_DEVICE void write_past_cache(void* to, V x) {
    __builtin_ia32_movntps512(static_cast<float*>(to), (Pack<float>)x);
}
#elif defined(__AVX__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_movntps256)
constexpr bool has_streams = true;
template <class V> GRIDGEN_DEVICE void write_past_cache(void* to, V x) {
    __builtin_ia32_movntps256(static_cast<float*>(to), (Pack<float>)x);
}
#else
constexpr bool has_streams = false;
template <class V> void write_past_cache(void*, V);
#endif

// Copies n bytes, a multiple of a pack's, from aligned memory to any address.
GRIDGEN_LARGE void stream(char* to, const char* from, int64 n) {
    const int64 head = -reinterpret_cast<uint64>(to) % pack_bytes;
    __builtin_memcpy(to, from, head);
    int64 i = head;
    for (; i + pack_bytes <= n; i += pack_bytes) {
        Pack<float> x;
        __builtin_memcpy(&x, from + i, sizeof x);
        write_past_cache(to + i, x);
    }
    __builtin_memcpy(to + i, from + i, n - i);
}

// Makes streamed data visible to other threads.
GRIDGEN_DEVICE void finish_streams() {
#if defined(__SSE__) && GRIDGEN_HAS_BUILTIN(__builtin_ia32_sfence)
    __builtin_ia32_sfence();
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

// A buffer that is too large for the stack, with the lifetime of a call. Matrices of large robots are
// also accessed by columns, which with pages of 4 kB causes one TLB miss per element.
#if defined(__linux__)
extern "C" int madvise(void* begin, unsigned long size, int advice);
constexpr int large_pages = 14;
#endif
constexpr uint64 large_page = uint64(2) << 20;

template <class X> class Borrowed {
public:
    Borrowed() : begin_(__builtin_malloc(sizeof(X) + alignment)) {
#if defined(__linux__)
        if (alignment == large_page && begin_) madvise(operator->(), sizeof(X), large_pages);
#endif
    }
    explicit operator bool() const { return begin_; }
    ~Borrowed() { __builtin_free(begin_); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    X* operator->() const {
        const uint64 end = reinterpret_cast<uint64>(begin_) + alignment - 1;
        return reinterpret_cast<X*>(end / alignment * alignment);
    }

private:
    static constexpr uint64 alignment = sizeof(X) > 2 * large_page ? large_page : pack_bytes;
    void* begin_;
};

// Scratch memory of one state: on the stack up to this size, so that nothing is allocated. A batch puts
// its packs there, and the rows that it assembles, as long as both leave memory for the computation.
#ifndef GRIDGEN_STACK_BYTES
#define GRIDGEN_STACK_BYTES (128 << 10)
#endif
constexpr int64 packs_on_stack = GRIDGEN_STACK_BYTES / 8 * 3, rows_on_stack = GRIDGEN_STACK_BYTES / 4;
template <class X> class OnStack {
public:
    explicit operator bool() { return true; }  // not const: GCC would report an uninitialized read
    X* operator->() { return &x_; }

private:
    X x_;
};
template <class X, bool fits> struct ScratchOf {
    using Type = OnStack<X>;
};
template <class X> struct ScratchOf<X, false> {
    using Type = Borrowed<X>;
};
template <class X, int64 limit> using Buffer = typename ScratchOf<X, (sizeof(X) <= limit)>::Type;
template <class S, int count> struct ScratchNumbers {
    S numbers[count];
};
template <class S, int count>
using Scratch = Buffer<ScratchNumbers<S, count>, int64(GRIDGEN_STACK_BYTES)>;

// In a long chain the effect of one joint on another decays. Below 1e-38, x86 processors take a hundred
// cycles for every float32 operation on such a number. During the lifetime of this object denormals are
// flushed to zero, on ARM64 as well.
template <class S> class NoSubnormals {
public:
    NoSubnormals() : before_(mode()) {
        if (sizeof(S) == 4) set_mode(before_ | flushing);
    }
    ~NoSubnormals() {
        if (sizeof(S) == 4) set_mode(before_);
    }
    NoSubnormals(const NoSubnormals&) = delete;
    NoSubnormals& operator=(const NoSubnormals&) = delete;

private:
#if defined(__SSE__) && (GRIDGEN_HAS_BUILTIN(__builtin_ia32_ldmxcsr) || !defined(__clang__))
    static constexpr uint64 flushing = 0x40 | 0x8000;  // as operands, as results
    static uint64 mode() { return __builtin_ia32_stmxcsr(); }
    static void set_mode(uint64 bits) { __builtin_ia32_ldmxcsr(uint32(bits)); }
#elif defined(__aarch64__)
    static constexpr uint64 flushing = 1 << 24;
    static uint64 mode() {
        uint64 bits;
        __asm__ volatile("mrs %0, fpcr" : "=r"(bits) : : "memory");
        return bits;
    }
    static void set_mode(uint64 bits) { __asm__ volatile("msr fpcr, %0" : : "r"(bits) : "memory"); }
#else
    static constexpr uint64 flushing = 0;
    static uint64 mode() { return 0; }
    static void set_mode(uint64) {}
#endif
    uint64 before_;
};

// --- Arguments and results ----------------------------------------------------------------------

// Untyped counterpart of Strided<T>: the arguments of a CPU entry point.
using Array = ::gridgen_array;

// Any strides and any tail, number by number: one function for all N, separate from the fast paths.
template <class S>
__attribute__((noinline)) void gather(const S* state, int64 batch, int64 component, int64 count,
                                      int n, S* lanes) {
    for (int i = 0; i < pack_size<S>; ++i, ++lanes) {
        for (int j = 0; j < n; ++j) lanes[j * pack_size<S>] = state[j * component];
        if (i + 1 < count) state += batch;
    }
}

template <class S>
__attribute__((noinline)) void scatter(S* state, int64 batch, int64 component, int64 count, int n,
                                       const int* places, const S* lanes) {
    for (int i = 0; i < count; ++i, ++lanes, state += batch)
        for (int j = 0; j < n; ++j)
            state[j * component] = lanes[(places ? places[j] : j) * pack_size<S>];
}

// The last tile of N components overlaps the previous one if the chunk does not divide N.
template <class S, int N> constexpr bool is_tiled = has_tiles && N >= chunk_size<S>;
template <class S, int N> constexpr int tile_begin(int j) {
    return j + chunk_size<S> <= N ? j : N - chunk_size<S>;
}

// Reads N components of W states. If fewer than W states remain, the last one fills the spare lanes, so
// that every lane contains a state of the caller and computes the same values as anywhere else in a
// batch.
template <class S, int N> struct Argument {
    Pack<S> x[N];

    // States [begin, begin + count) of the array, 1 <= count <= W.
    GRIDGEN_LARGE void load(const Array& array, int64 begin, int64 count) {
        constexpr int W = pack_size<S>;
        const S* first = static_cast<const S*>(array.data) + begin * array.batch;
        if (array.batch == 0) {
            for (int j = 0; j < N; ++j, first += array.component)
                x[j] = Lanes<Pack<S>>::broadcast(*first);
        } else if (array.batch == 1 && count == W) {
            for (int j = 0; j < N; ++j, first += array.component)
                __builtin_memcpy(&x[j], first, sizeof x[j]);
        } else if (is_tiled<S, N> && array.component == 1 && count == W) {
            if constexpr (is_tiled<S, N>) {
                for (int j = 0; j < N; j += chunk_size<S>) {
                    const int at = tile_begin<S, N>(j);
                    read_tile<S>(first + at, array.batch, x + at);
                }
            }
        } else {
            gather(first, array.batch, array.component, count, N, reinterpret_cast<S*>(x));
        }
    }
};

// Rows of W states that have no fixed length, read where they are; see gridgen_distance.cuh.
template <class S> struct OpenRow {
    const S* data;
    int64 batch, component, count;

    GRIDGEN_DEVICE Pack<S> operator[](int j) const {
        const S* const first = data + j * component;
        if (batch == 0) return Lanes<Pack<S>>::broadcast(*first);
        Pack<S> found;
        for (int i = 0; i < pack_size<S>; ++i) found[i] = first[lane(i)];
        return found;
    }
    GRIDGEN_DEVICE int64 lane(int i) const { return (i < count ? i : count - 1) * batch; }
};
template <class S> GRIDGEN_DEVICE S leading(const OpenRow<S>& row, int j) {
    return row.data[j * row.component];
}
template <class T, class S> T gathered(const OpenRow<S>& row, int begin, T index) {
    T found;
    for (int i = 0; i < pack_size<S>; ++i)
        found[i] = row.data[row.lane(i) + (begin + int(index[i])) * row.component];
    return found;
}
template <class T, class S> T gathered(const S* row, int begin, T index) {
    if constexpr (sizeof(T) == sizeof(Real<T>)) {
        return row[begin + int(index)];
    } else {
        T found;
        for (int i = 0; i < pack_size<Real<T>>; ++i) found[i] = row[begin + int(index[i])];
        return found;
    }
}
GRIDGEN_DEVICE int leading_index(Pack<float> x) { return int(x[0]); }
GRIDGEN_DEVICE int leading_index(Pack<double> x) { return int(x[0]); }
GRIDGEN_DEVICE Pack<float> truncated(Pack<float> x) {
    return __builtin_convertvector(__builtin_convertvector(x, Pack<int>), Pack<float>);
}
GRIDGEN_DEVICE Pack<double> truncated(Pack<double> x) {
    return __builtin_convertvector(__builtin_convertvector(x, Pack<int64>), Pack<double>);
}

// The pack of each of the N components of a result: its own.
template <int N> struct OwnPacks {
    static constexpr bool repeats = false;
    static constexpr int distinct = N;
    static GRIDGEN_DEVICE constexpr int of(int j) { return j; }
    static GRIDGEN_DEVICE constexpr const int* list() { return nullptr; }
};

// The same for result k of a function. Matrices have many equal components, zeros and those across the
// diagonal: equal ones share a pack, so that they are written once and all packs stay in the
// cache.
template <class F, int k> struct SharedPacks {
    static constexpr bool repeats = true;
    static constexpr int distinct = F::distinct[k - F::inputs];
    static constexpr int begin() {  // offset of its components in F::places
        int count = 0;
        for (int i = F::inputs; i < k; ++i)
            if (F::distinct[i - F::inputs] < F::axes[i].size()) count += F::axes[i].size();
        return count;
    }
    static constexpr const int* places = F::places + begin();
    static GRIDGEN_DEVICE constexpr int of(int j) { return places[j]; }
    static GRIDGEN_DEVICE constexpr const int* list() { return places; }
};

template <class F, int k> constexpr auto packs_of() {
    if constexpr (!F::repeats) return OwnPacks<size_of<F, k>>();
    else if constexpr (F::distinct[k - F::inputs] == size_of<F, k>) return OwnPacks<size_of<F, k>>();
    else return SharedPacks<F, k>();
}

// The components of a result, as the function writes them.
template <class S, class Packs> struct Elements {
    Pack<S>* x;

    GRIDGEN_DEVICE Pack<S>& operator[](int j) const { return x[Packs::of(j)]; }
};

// Elements [begin, end) of one value share a pack, if equal elements are written once.
template <int begin, int end, class S, class Packs>
GRIDGEN_DEVICE void fill(Elements<S, Packs> result, Pack<S> value) {
    for (int j = begin; j < (Packs::repeats ? begin + 1 : end); ++j) result[j] = value;
}

// Writes N components of W states.
template <class S, int N, class Packs = OwnPacks<N>> struct Result {
    Pack<S> x[Packs::distinct];

    GRIDGEN_DEVICE Elements<S, Packs> elements() { return {x}; }

    // States [begin, begin + count) of the array, 1 <= count <= W, with streaming stores if streamed.
    GRIDGEN_LARGE void store(const Array& array, int64 begin, int64 count, bool streamed) const {
        constexpr int W = pack_size<S>;
        S* first = static_cast<S*>(array.data) + begin * array.batch;
        if (array.batch == 1 && count == W) {
            for (int j = 0; j < N; ++j, first += array.component)
                __builtin_memcpy(first, &x[Packs::of(j)], sizeof x[0]);
        } else if (is_tiled<S, N> && array.component == 1 && count == W) {
            // W rows without gaps are whole lines except at the ends.
            constexpr bool is_assembled = N * pack_bytes <= 512 << 10;
            if constexpr (is_assembled) {
                const bool are_pages = array.batch * int64(sizeof(S)) % page == 0;
                if (are_pages && !streamed && store_apart(first, array.batch)) return;
            }
            if constexpr (has_streams && is_assembled) {
                if (streamed && array.batch == N && store_streamed(first)) return;
            }
            store_tiles(first, array.batch);
        } else {
            const S* lanes = reinterpret_cast<const S*>(x);
            scatter(first, array.batch, array.component, count, N, Packs::list(), lanes);
        }
    }

private:
    // Rows of W states, assembled before they are written. False without memory for them.
    template <int row> struct Rows {
        alignas(pack_bytes) S x[pack_size<S> * row];
    };
    template <int row> using Assembled = Buffer<Rows<row>, rows_on_stack>;

    // Rows that are pages apart map to the same few cache lines and evict each other before they are
    // complete.
    static constexpr int64 page = 4096;
    GRIDGEN_LARGE bool store_apart(S* first, int64 stride) const {
        constexpr int row = N + pack_size<S>;
        Assembled<row> rows;
        if (!rows) return false;
        store_tiles(rows->x, row);
        __asm__ __volatile__("" ::: "memory");  // as in write_chunks: hides the contents
        for (int i = 0; i < pack_size<S>; ++i)
            __builtin_memcpy(first + i * stride, rows->x + i * row, N * sizeof(S));
        return true;
    }
    GRIDGEN_LARGE bool store_streamed(S* first) const {
        Assembled<N> rows;
        if (!rows) return false;
        store_tiles(rows->x, N);
        stream(reinterpret_cast<char*>(first), reinterpret_cast<char*>(rows->x), sizeof(Rows<N>));
        return true;
    }
    GRIDGEN_DEVICE void store_tiles(S* first, int64 stride) const {
        constexpr int size = chunk_size<S>;
        if constexpr (is_tiled<S, N>) {
            for (int j = 0; j < N; j += size) {
                const int at = tile_begin<S, N>(j);
                Pack<S> tile[size];
                for (int k = 0; k < size; ++k) tile[k] = x[Packs::of(at + k)];
                write_tile<S>(first + at, stride, tile);
            }
        }
    }
};

// --- Entry points -------------------------------------------------------------------------------

// An input: n numbers of `packs` packs of states.
template <class S, int n, int packs> struct PackedInput {
    Argument<S, n> packed[packs];

    PackedInput() {}
    GRIDGEN_DEVICE void load(const Array& array, int64 p, int64 i, int64 count) {
        packed[p].load(array, i, count);
    }
    GRIDGEN_DEVICE const Pack<S>* elements(int64 p) { return packed[p].x; }
    GRIDGEN_DEVICE void store(const Array&, int64, int64, int64, bool) {}
};

// An input without a fixed length.
template <class S, int packs> struct PackedOpenRow {
    OpenRow<S> rows[packs];

    PackedOpenRow() {}
    GRIDGEN_DEVICE void load(const Array& array, int64 p, int64 i, int64 count) {
        rows[p] = {static_cast<const S*>(array.data) + i * array.batch, array.batch,
                   array.component, count};
    }
    GRIDGEN_DEVICE OpenRow<S> elements(int64 p) const { return rows[p]; }
    GRIDGEN_DEVICE void store(const Array&, int64, int64, int64, bool) {}
};

// A result.
template <class S, int n, int packs, class Packs> struct PackedResult {
    Result<S, n, Packs> packed[packs];

    PackedResult() {}
    GRIDGEN_DEVICE void load(const Array&, int64, int64, int64) {}
    GRIDGEN_DEVICE Elements<S, Packs> elements(int64 p) { return packed[p].elements(); }
    GRIDGEN_DEVICE void store(const Array& array, int64 p, int64 i, int64 count, bool streamed) {
        packed[p].store(array, i, count, streamed);
    }
};

// Array k of a function. Few types for many functions, which shortens compilation.
template <bool is_input, bool is_open> struct PackedArrayOf {
    template <class S, class F, int k, int packs> using Type = PackedInput<S, size_of<F, k>, packs>;
};
template <> struct PackedArrayOf<true, true> {
    template <class S, class F, int k, int packs> using Type = PackedOpenRow<S, packs>;
};
template <> struct PackedArrayOf<false, false> {
    template <class S, class F, int k, int packs>
    using Type = PackedResult<S, size_of<F, k>, packs, decltype(packs_of<F, k>())>;
};
template <class S, class F, int k, int packs = 1>
using PackedArray =
    typename PackedArrayOf<is_input<F, k>, (size_of<F, k> < 0)>::template Type<S, F, k, packs>;

// States of a batch.
struct States {
    const Array* arrays;
    int64 begin, end;
    bool streamed;
};

// Calls F with its arrays of a pack, and its scratch memory, if it has any.
template <class F, class T, class... Elements>
GRIDGEN_DEVICE void compute_pack(T* scratch, Elements... elements) {
    if constexpr (F::scratch > 0) F::template compute<T, const T*>(elements..., scratch);
    else F::template compute<T, const T*>(elements...);
}

// Computes states pack by pack.
template <class S, class F, int... k, class... Packed>
GRIDGEN_DEVICE void compute_packs(Indices<k...>, const States& states, Pack<S>* scratch,
                                  Packed&&... packed) {
    constexpr int64 lanes = pack_size<S>;
    for (int64 i = states.begin; i < states.end; i += lanes) {
        const int64 count = states.end - i < lanes ? states.end - i : lanes;
        (packed.load(states.arrays[k], 0, i, count), ...);
        compute_pack<F>(scratch, packed.elements(0)...);
        (packed.store(states.arrays[k], 0, i, count, states.streamed), ...);
    }
}

// Values that the parts of a function exchange.
template <class S, class F> struct PartMemory {
    Pack<S> stored[F::stored], parked[F::parked > 0 ? F::parked : 1];
};

// Computes part `part` of a function for several packs, from the state `first`: its instructions stay in
// the cache.
template <int part, class S, class F, int... k, class... Packed>
GRIDGEN_DEVICE void compute_part(Indices<k...>, const States& states, int64 first,
                                 PartMemory<S, F> (&memory)[F::packs], Packed&... packed) {
    constexpr int64 lanes = pack_size<S>;
    for (int64 i = first, p = 0; p < F::packs && i < states.end; i += lanes, ++p) {
        const int64 count = states.end - i < lanes ? states.end - i : lanes;
        if constexpr (part == 0) (packed.load(states.arrays[k], p, i, count), ...);
        F::template compute_part<part, Pack<S>, const Pack<S>*>(
            packed.elements(p)..., memory[p].stored, memory[p].parked);
        if constexpr (part == F::parts - 1)
            (packed.store(states.arrays[k], p, i, count, states.streamed), ...);
    }
}
template <class S, class F, int... part, class K, class... Packed>
GRIDGEN_DEVICE void compute_parts(Indices<part...>, K all, const States& states,
                                  PartMemory<S, F> (&memory)[F::packs], Packed&&... packed) {
    for (int64 first = states.begin; first < states.end; first += F::packs * pack_size<S>)
        (compute_part<part, S, F>(all, states, first, memory, packed...), ...);
}

// All arrays of a function, for the packs that it computes at once, and its scratch memory.
template <int k, class Packed> struct Member {
    Packed packed;
};
template <class S, class F, bool has_parts = (F::packs > 0)> struct BatchMemory {
    static constexpr int packs = 1;
    Pack<S> scratch[F::scratch > 0 ? F::scratch : 1];
};
template <class S, class F> struct BatchMemory<S, F, true> {
    static constexpr int packs = F::packs;
    PartMemory<S, F> parts[packs];
};
template <class S, class F, class K> struct PackedArrays;
template <class S, class F, int... k>
struct PackedArrays<S, F, Indices<k...>>
    : BatchMemory<S, F>, Member<k, PackedArray<S, F, k, BatchMemory<S, F>::packs>>... {
    PackedArrays() = delete;
};

// Computes states in memory of the heap. Returns false without it.
template <class S, class F, int... k>
bool run_borrowed(Indices<k...> all, const States& states) {
    const Borrowed<PackedArrays<S, F, Indices<k...>>> memory;
    if (!memory) return false;
    auto& own = *memory.operator->();
    if constexpr (F::packs > 0) {
        compute_parts<S, F>(UpTo<F::parts>(), all, states, own.parts,
                            own.Member<k, PackedArray<S, F, k, F::packs>>::packed...);
    } else {
        compute_packs<S, F>(all, states, own.scratch, own.Member<k, PackedArray<S, F, k>>::packed...);
    }
    return true;
}

template <class S, class F, int... k>
GRIDGEN_DEVICE bool run_packs(Indices<k...> all, const States& states) {
    if constexpr (F::scratch > 0) {
        const NoSubnormals<S> no_subnormals;
        return run_borrowed<S, F>(all, states);
    } else if constexpr (sizeof(PackedArrays<S, F, Indices<k...>>) > packs_on_stack) {
        return run_borrowed<S, F>(all, states);
    } else if constexpr (F::packs > 0) {
        PartMemory<S, F> memory[F::packs];
        compute_parts<S, F>(UpTo<F::parts>(), all, states, memory,
                            PackedArray<S, F, k, F::packs>()...);
    } else {
        compute_packs<S, F>(all, states, nullptr, PackedArray<S, F, k>()...);
    }
    return true;
}

// The number of results of a state.
template <class F> constexpr int64 result_size() {
    int64 size = 0;
    for (int k = F::inputs; k < array_count<F>; ++k) size += F::axes[k].size();
    return size;
}

// Computes states [begin, end) of a batch in packs. Packs of states are read, and their results are
// written, in registers. Returns false without memory.
template <class S, class F>
bool run_packs(const Array* arrays, int64 begin, int64 end, int64 batch) {
    constexpr int64 results = result_size<F>();
    const States states = {arrays, begin, end, are_streamed<S>(begin, end, batch, results)};
    const bool is_done = run_packs<S, F>(UpTo<array_count<F>>(), states);
    if (states.streamed) finish_streams();
    return is_done;
}

// --- One state in scalar registers ---------------------------------------------------------------

// Array k of a state.
template <class S, class F, int k> GRIDGEN_DEVICE auto row_of(const Array& row) {
    S* const data = static_cast<S*>(row.data);
    if constexpr (size_of<F, k> < 0) return View<const S>{data, row.component};
    else if constexpr (is_input<F, k>) return static_cast<const S*>(data);
    else return data;
}

// Computes a state; the numbers of each array are consecutive. Returns false without memory.
template <class S, class F, int... k>
__attribute__((noinline)) bool compute_rows(Indices<k...>, const Array* rows) {
    if constexpr (F::scratch > 0) {
        Scratch<S, F::scratch> scratch;
        if (!scratch) return false;
        const NoSubnormals<S> no_subnormals;
        F::template compute<S, const S*>(row_of<S, F, k>(rows[k])..., scratch->numbers);
    } else {
        F::template compute<S, const S*>(row_of<S, F, k>(rows[k])...);
    }
    return true;
}

// Computes a state in copies of its arrays. Returns false without memory.
template <class S, class F, int... k>
GRIDGEN_COLD bool compute_copies(Indices<k...> all, const Array* rows) {
    constexpr int sizes[] = {size_of<F, k>...};
    Scratch<S, ((size_of<F, k> > 0 ? size_of<F, k> : 0) + ... + 1)> copies;
    if (!copies) return false;
    Array own[] = {rows[k]...};
    S* next = copies->numbers;
    for (int i = 0; i < int(sizeof...(k)); next += sizes[i] > 0 ? sizes[i] : 0, ++i) {
        if (sizes[i] < 0) continue;
        own[i] = {next, 0, 1};
        if (i >= F::inputs) continue;
        for (int j = 0; j < sizes[i]; ++j)
            next[j] = static_cast<const S*>(rows[i].data)[j * rows[i].component];
    }
    if (!compute_rows<S, F>(all, own)) return false;
    for (int i = F::inputs; i < int(sizeof...(k)); ++i)
        for (int j = 0; j < sizes[i]; ++j)
            static_cast<S*>(rows[i].data)[j * rows[i].component] = static_cast<S*>(own[i].data)[j];
    return true;
}

template <class S, class F, int... k>
GRIDGEN_DEVICE bool run_scalars(Indices<k...> all, const Array* arrays, int64 begin, int64 end) {
    const bool are_rows = ((arrays[k].component == 1 || size_of<F, k> < 2) && ...);
    for (int64 i = begin; i < end; ++i) {
        const Array rows[] = {
            {static_cast<S*>(arrays[k].data) + i * arrays[k].batch, 0, arrays[k].component}...};
        if (!(are_rows ? compute_rows<S, F>(all, rows) : compute_copies<S, F>(all, rows))) return false;
    }
    return true;
}

// --- Both ----------------------------------------------------------------------------------------

// Computes states [begin, end) of a batch, one per lane of T: a pack, or a number. arrays: those of F.
// Returns false without memory.
template <class T, class F>
bool run_lanes(const Array* arrays, int64 begin, int64 end, int64 batch) {
    if constexpr (Lanes<T>::count > 1) return run_packs<Real<T>, F>(arrays, begin, end, batch);
    else return run_scalars<T, F>(UpTo<array_count<F>>(), arrays, begin, end);
}

}  // namespace gridgen

#endif  // GRIDGEN_SIMD_H
