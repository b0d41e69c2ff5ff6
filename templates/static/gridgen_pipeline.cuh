// Pipelines: warps of one chain hand records to warps of another, which work on them meanwhile.
#ifndef GRIDGEN_PIPELINE_CUH
#define GRIDGEN_PIPELINE_CUH

#include "gridgen_scan.cuh"

namespace gridgen {
namespace pipeline {

// How many samples a trajectory has, and how many there are in all; in the place of an array.
struct Length {
    int64 none;  // where an array has its address
    int64 samples;
    int64 all;
};

// What the backward chain needs of a body: its placement in its parent, and the wrench that its
// motion takes.
template <class T> struct Handed {
    scan::Placement<T> X;
    scan::Spatial<T> F;
};

// Two slots in shared memory, each with a record for every lane of the forward chain. While one is
// read the other is filled.
template <class T, class Record, int lanes> class Slots {
  public:
    __device__ __forceinline__ explicit Slots(T* data) : data_(data) {}

    __device__ __forceinline__ void put(int slot, int lane, const Record& record) const {
        for (int c = 0; c < numbers; ++c) at(slot, c, lane) = scan::component<T>(record, c);
    }
    __device__ __forceinline__ void take(int slot, int lane, Record& record) const {
        for (int c = 0; c < numbers; ++c) scan::component<T>(record, c) = at(slot, c, lane);
    }

  private:
    static constexpr int numbers = sizeof(Record) / sizeof(T);

    // Lanes side by side: each in a bank of its own.
    __device__ __forceinline__ T& at(int slot, int c, int lane) const {
        return data_[(slot * numbers + c) * lanes + lane];
    }

    T* data_;
};

// Barriers of some threads by number, 1 to 15: it is passed when so many have come. Who arrives goes
// on at once, who waits goes on then, and sees what the others wrote before they came.
#if defined(GRIDGEN_EMULATED)
using emulated::barrier_arrive;
using emulated::barrier_wait;
#else
__device__ __forceinline__ void barrier_arrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void barrier_wait(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
#endif

}  // namespace pipeline
}  // namespace gridgen

#endif  // GRIDGEN_PIPELINE_CUH
