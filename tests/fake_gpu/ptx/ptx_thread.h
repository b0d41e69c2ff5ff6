// Functions for translated PTX: instructions for which C++ has no operator.
//
// Results are bitwise equal to PTX's, except for the payload and sign of NaNs. Addresses are host
// addresses; shared addresses are offsets into the block's shared memory. Accesses that fault on a
// GPU (unaligned or outside shared memory) end the launch.
#pragma once

#include "emulated_kernel.h"

// Of C alone: Zig builds its library of C++ in a minute.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

namespace ptx {

using gridgen::emulated::Place;

template <class To, class From>
To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// ---- floating point ----

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
// Two floats in one register.
template <class F> inline uint64_t packed(F result) {
    uint64_t both = 0;
    for (int half = 0; half < 2; ++half) {
        const float x = result([half](uint64_t from) {
            const uint32_t bits = uint32_t(from >> (32 * half));
            float number;
            __builtin_memcpy(&number, &bits, sizeof number);
            return number;
        });
        uint32_t bits;
        __builtin_memcpy(&bits, &x, sizeof bits);
        both |= uint64_t(bits) << (32 * half);
    }
    return both;
}
inline uint64_t packed_add(uint64_t a, uint64_t b) {
    return packed([=](auto half) { return half(a) + half(b); });
}
inline uint64_t packed_multiply(uint64_t a, uint64_t b) {
    return packed([=](auto half) { return half(a) * half(b); });
}
inline uint64_t packed_fused(uint64_t a, uint64_t b, uint64_t c) {
    return packed([=](auto half) { return fused(half(a), half(b), half(c)); });
}
// Subnormal numbers are zeros. GPUs return the nearest number or the next one.
inline float approximate_reciprocal(float a) {
    const float least = __FLT_MIN__;
    const float result = 1 / (__builtin_fabsf(a) < least ? __builtin_copysignf(0, a) : a);
    return __builtin_fabsf(result) < least ? __builtin_copysignf(0, result) : result;
}
inline float square_root(float a) { return __builtin_sqrtf(a); }
inline double square_root(double a) { return __builtin_sqrt(a); }
inline float absolute(float a) { return __builtin_fabsf(a); }
inline double absolute(double a) { return __builtin_fabs(a); }
inline float with_sign_of(float sign, float a) { return __builtin_copysignf(a, sign); }
inline double with_sign_of(double sign, double a) { return __builtin_copysign(a, sign); }
inline float even(float a) { return __builtin_rintf(a); }
inline double even(double a) { return __builtin_rint(a); }
inline float truncated(float a) { return __builtin_truncf(a); }
inline double truncated(double a) { return __builtin_trunc(a); }
inline float floor(float a) { return __builtin_floorf(a); }
inline double floor(double a) { return __builtin_floor(a); }
inline float ceiling(float a) { return __builtin_ceilf(a); }
inline double ceiling(double a) { return __builtin_ceil(a); }

// A NaN is ignored, and -0 is less than +0.
template <class T>
T least(T a, T b) {
    if (a != a) return b;
    if (b != b || a < b) return a;
    return a == b && __builtin_signbit(a) ? a : b;
}

template <class T>
T greatest(T a, T b) {
    if (a != a) return b;
    if (b != b || a > b) return a;
    return a == b && !__builtin_signbit(a) ? a : b;
}

template <class T>
constexpr bool is_signed = T(-1) < T(0);
template <class T>
constexpr T lowest = is_signed<T> ? T(uint64_t{1} << (8 * sizeof(T) - 1)) : T(0);
template <class T>
constexpr T highest = T(~lowest<T>);

// Converts an integral floating-point number to an integer; saturates.
template <class To, class From>
To integer(From whole) {
    if (whole != whole) {
        const bool wide = sizeof(To) == 8 || sizeof(From) == 8;
        return wide ? To(uint64_t{1} << (8 * sizeof(To) - 1)) : To(0);
    }
    // From may not represent the maximum, but does represent the maximum plus one, a power of two.
    const From beyond = From(highest<To> / 2 + 1) * 2;
    if (whole >= beyond) return highest<To>;
    if (whole <= From(lowest<To>)) return lowest<To>;
    return To(whole);
}

// ---- integers ----

inline uint32_t high_half(uint32_t a, uint32_t b) {
    return uint32_t((uint64_t(a) * b) >> 32);
}
inline int32_t high_half(int32_t a, int32_t b) {
    return int32_t((int64_t(a) * b) >> 32);
}
inline uint64_t high_half(uint64_t a, uint64_t b) {
    return uint64_t((static_cast<unsigned __int128>(a) * b) >> 64);
}
inline int64_t high_half(int64_t a, int64_t b) {
    return int64_t((static_cast<__int128>(a) * b) >> 64);
}

// Division by zero: the quotient has all bits set, the remainder is the dividend, as on GPUs. PTX
// does not define the results.
template <class T>
T quotient(T a, T b) {
    if (b == 0) return T(-1);
    if (is_signed<T> && b == T(-1)) return T(-a);
    return T(a / b);
}

template <class T>
T remainder(T a, T b) {
    if (b == 0) return a;
    if (is_signed<T> && b == T(-1)) return 0;
    return T(a % b);
}

// Shifts by the width or more result in 0, or in the sign of a negative number.
template <class T>
T shifted_left(T a, uint32_t by) {
    return by < 8 * sizeof(T) ? T(a << by) : T(0);
}

template <class T>
T shifted_right(T a, uint32_t by) {
    if (by < 8 * sizeof(T)) return T(a >> by);
    return is_signed<T> && a < 0 ? T(-1) : T(0);
}

// The upper or lower half of 64 bits, shifted by at most 32.
inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t by) {
    const uint64_t both = uint64_t(high) << 32 | low;
    return by < 32 ? uint32_t(both << by >> 32) : low;
}
inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t by) {
    const uint64_t both = uint64_t(high) << 32 | low;
    return by < 32 ? uint32_t(both >> by) : high;
}

template <class T>
uint32_t leading_zeros(T a) {
    const unsigned unused = 64 - 8 * sizeof(T);
    return a == 0 ? 8 * sizeof(T) : unsigned(__builtin_clzll(a)) - unused;
}

template <class T>
T reversed(T a) {
    T result = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) result = T(result << 1 | (a >> i & 1));
    return result;
}

// The field of `length` bits from bit `begin`. A signed field is extended by its highest bit, or by
// that of `a` if the field reaches beyond it.
template <class T>
T extracted(T a, uint32_t begin, uint32_t length) {
    using Bits = uint64_t;
    const uint32_t width = 8 * sizeof(T);
    begin &= 0xff;
    length &= 0xff;
    const uint32_t last = begin + length <= width ? begin + length - 1 : width - 1;
    const bool extended = is_signed<T> && length > 0 && (Bits(a) >> last & 1);
    Bits result = 0;
    for (uint32_t i = 0; i < width; ++i) {
        const bool inside = i < length && begin + i < width;
        const Bits bit = inside ? Bits(a) >> (begin + i) & 1 : Bits(extended);
        result |= Bits(bit << i);
    }
    return T(result);
}

// Replaces `length` bits of `a` from bit `begin` with `field`.
template <class T>
T inserted(T field, T a, uint32_t begin, uint32_t length) {
    begin &= 0xff;
    length &= 0xff;
    const T ones = length < 8 * sizeof(T) ? T((T(1) << length) - 1) : T(~T(0));
    const T mask = shifted_left(ones, begin);
    return T((a & ~mask) | (shifted_left(field, begin) & mask));
}

// Four of the eight bytes of two words. Four bits select each; the highest replicates the sign.
inline uint32_t permuted(uint32_t low, uint32_t high, uint32_t choice) {
    const uint64_t both = uint64_t(high) << 32 | low;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const unsigned chosen = choice >> 4 * i & 0xf;
        uint32_t byte = uint32_t(both >> 8 * (chosen & 7)) & 0xff;
        if (chosen & 8) byte = byte & 0x80 ? 0xff : 0;
        result |= byte << 8 * i;
    }
    return result;
}

// ---- memory ----

// Bytes of shared memory of a block, static and dynamic.
inline uint64_t shared_bytes = 0;

inline uint64_t at(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

inline uint64_t shared_memory() { return at(gridgen::emulated::dynamic_shared()); }

[[noreturn]] inline void fault(const Place& place, uint64_t address, const char* what) {
    char reason[200];
    snprintf(reason, sizeof reason, "%s:%d: %s of address 0x%llx, which is %s", place.file,
                  place.line, place.operation, static_cast<unsigned long long>(address), what);
    gridgen::emulated::give_up(reason);
}

// Checks the alignment of an access of `bytes` bytes.
inline uint64_t aligned(uint64_t address, unsigned bytes, const Place& place) {
    if (address % bytes != 0) fault(place, address, "not a multiple of the bytes that it moves");
    return address;
}

inline uint64_t in_shared(uint64_t address, unsigned bytes, const Place& place) {
    if (address > shared_bytes || shared_bytes - address < bytes) {
        fault(place, address, "beyond the block's shared memory");
    }
    return shared_memory() + aligned(address, bytes, place);
}

// Memory with a record of reads and writes, by word.
struct Watched {
    uint64_t begin = 0;
    uint64_t bytes = 0;
    unsigned char* marks = nullptr;
};
inline Watched watched;

enum Mark : unsigned char { was_read = 1, was_written = 2 };

inline void note(Mark mark, uint64_t address, unsigned bytes) {
    const uint64_t offset = address - watched.begin;
    if (offset >= watched.bytes) return;
    for (uint64_t word = offset / 4; word <= (offset + bytes - 1) / 4; ++word) {
        watched.marks[word] |= mark;
    }
}

template <class T>
T load(uint64_t address) {
    note(was_read, address, sizeof(T));
    T value;
    memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
    return value;
}

template <class T>
void store(uint64_t address, T value) {
    note(was_written, address, sizeof(T));
    memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
}

// Fills uninitialized local memory with NaNs.
inline void poison(void* memory, size_t bytes) { memset(memory, 0xff, bytes); }

// Atomic, because only one thread of a grid runs at a time.
template <class T, class Change>
T exchange_memory(uint64_t address, Change change) {
    const T before = load<T>(address);
    store<T>(address, change(before));
    return before;
}

// ---- warps ----

inline uint32_t lane() { return threadIdx.x % warpSize; }

enum class Shuffle { up, down, bfly, idx };

struct Shuffled {
    uint32_t value;
    bool in_segment;
};

// As in PTX: bits 8 to 12 of `segment` mask the lane bits that lanes of a segment share; its low
// bits are the clamp value.
template <Shuffle mode>
Shuffled shuffled(const Place& place, uint32_t value, uint32_t by, uint32_t segment,
                  uint32_t members) {
    const int mask = segment >> 8 & 0x1f;
    const int first = int(lane()) & mask;
    const int last = first | (int(segment & 0x1f) & ~mask);
    const int step = int(by & 0x1f);
    int from = int(lane());
    if (mode == Shuffle::up) from -= step;
    if (mode == Shuffle::down) from += step;
    if (mode == Shuffle::bfly) from ^= step;
    if (mode == Shuffle::idx) from = first | (step & ~mask);
    const bool in_segment = mode == Shuffle::up ? from >= last : from <= last;
    if (!in_segment) from = int(lane());
    const auto bits = gridgen::emulated::exchange(place, members, value, from);
    return {uint32_t(bits), in_segment};
}

}  // namespace ptx
