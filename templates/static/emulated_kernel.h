// Interface between an emulated kernel and emulated_runtime.cpp. It includes no library.
#pragma once

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

// Coordinates of the current thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace gridgen {
namespace emulated {

// The source location of a kernel's collective call.
struct Place {
    const char* operation;
    const char* file;
    int line;
};

// The predicates of the threads of a collective.
struct Votes {
    unsigned lanes;    // lanes with a true predicate (in a warp)
    unsigned agreed;   // number of threads with a true predicate
    unsigned arrived;  // number of threads
};

// ---- services of the runtime for a kernel ----

Votes meet_block(Place place, bool predicate);
// Synchronizes some threads of the block at a barrier numbered 1 to 15; a thread that only arrives does
// not wait.
void meet_some(Place place, int number, int threads, bool waits);
// Synchronizes the live lanes of a mask; `ordered` if CUDA orders memory there.
Votes meet_warp(Place place, unsigned mask, bool ordered, bool predicate);
// The bits of lane `from`.
unsigned long long exchange(Place place, unsigned mask, unsigned long long bits, int from);
void* dynamic_shared();
// Ends the launch with this error message.
[[noreturn]] void give_up(const char* reason);

// ---- kernel calls of the runtime, for any parameters ----

// An array as the caller describes it; strides counted in elements.
struct Array {
    long long address;
    long long batch;
    long long component;
};

// A kernel that reads its arguments from a list.
struct Entry {
    int arrays;  // number of its arrays
    void (*run)(const Array* arrays, long long states);
};

// The kernel of this unit.
extern const Entry kernel;

// The kernel's parameter with a given index: a strided array, or a type with the same bytes; or the
// number of states, which is last.
template <class Parameter>
struct Argument {
    static Parameter of(const Array& array, long long) {
        static_assert(sizeof(Parameter) == sizeof array, "a parameter has three words");
        Parameter parameter;
        __builtin_memcpy(&parameter, &array, sizeof array);
        return parameter;
    }
};

template <>
struct Argument<long long> {
    static long long of(const Array&, long long states) { return states; }
};

template <int... Index>
struct Places {};

template <int count, int... Index>
struct Count : Count<count - 1, count - 1, Index...> {};

template <int... Index>
struct Count<0, Index...> {
    using type = Places<Index...>;
};

template <auto function>
struct Called;

template <class... Parameters, void (*function)(Parameters...)>
struct Called<function> {
    static constexpr int arrays = sizeof...(Parameters) - 1;

    static void run(const Array* given, long long states) {
        run(given, states, typename Count<arrays + 1>::type());
    }

  private:
    template <int... Index>
    static void run(const Array* given, long long states, Places<Index...>) {
        // The last parameter, the number of states, has no array.
        function(Argument<Parameters>::of(given[Index < arrays ? Index : 0], states)...);
    }
};

}  // namespace emulated
}  // namespace gridgen
