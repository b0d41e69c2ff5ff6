// Pipelines: warps of one chain pass records to warps of another, which process them concurrently.
#ifndef GRIDGEN_PIPELINE_CUH
#define GRIDGEN_PIPELINE_CUH

#include "gridgen_scan.cuh"

namespace gridgen {
namespace pipeline {

// The samples per trajectory, and in total; passed in place of an array.
struct Length {
    int64 none;  // in place of an array's address
    int64 samples;
    int64 all;
};

// Input of the backward chain for a body: its placement in its parent, and the wrench of its
// motion.
template <class T> struct Handed {
    scan::Placement<T> X;
    scan::Spatial<T> F;
};

// Two slots in shared memory, each with a record for every lane of the forward chain. One is read while
// the other is filled.
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

    // Consecutive lanes: each in a bank of its own.
    __device__ __forceinline__ T& at(int slot, int c, int lane) const {
        return data_[(slot * numbers + c) * lanes + lane];
    }

    T* data_;
};

// Numbered barriers, 1 to 15, of some threads: a barrier opens after `threads` threads have arrived.
// barrier_arrive() does not wait; after barrier_wait() all writes before arrival are visible.
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
