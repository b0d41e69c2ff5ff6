// What an emulated kernel and emulated_runtime.cpp know of each other. It includes no library.
#pragma once

struct uint3 {
    unsigned x, y, z;
};

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

// Those of the thread that runs.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace gridgen {
namespace emulated {

// Where a kernel calls for others.
struct Place {
    const char* operation;
    const char* file;
    int line;
};

// What those who met said about a predicate.
struct Votes {
    unsigned lanes;    // with a true predicate (a warp's meeting)
    unsigned agreed;   // how many with a true predicate
    unsigned arrived;  // how many came
};

// ---- what the runtime does for a kernel ----

Votes meet_block(Place place, bool predicate);
// Meets so many threads of the block at a barrier with a number from 1 to 15; who does not wait has
// come, and goes on.
void meet_some(Place place, int number, int threads, bool waits);
// Meets the live lanes of a mask; `ordered` if CUDA orders memory there.
Votes meet_warp(Place place, unsigned mask, bool ordered, bool predicate);
// The bits that lane `from` hands over.
unsigned long long exchange(Place place, unsigned mask, unsigned long long bits, int from);
void* dynamic_shared();
// Ends the launch, which has failed for this reason.
[[noreturn]] void give_up(const char* reason);

// ---- how the runtime calls a kernel, whatever its parameters ----

// An array as the caller describes it; strides counted in elements.
struct Array {
    long long address;
    long long batch;
    long long component;
};

// A kernel that takes its arguments from a list.
struct Entry {
    int arrays;  // that it takes
    void (*run)(const Array* arrays, long long states);
};

// The kernel of this unit.
extern const Entry kernel;

// The kernel's parameter of a given place: a strided array, or what has the bytes of one; or the
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
        // There is no array in the place of the number of states.
        function(Argument<Parameters>::of(given[Index < arrays ? Index : 0], states)...);
    }
};

}  // namespace emulated
}  // namespace gridgen
