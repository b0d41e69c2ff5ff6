// A batch that a GPU stream enqueues as a host function. The caller may hold the interpreter's lock while
// it waits for space in a full stream; therefore this code never acquires that lock. It creates the
// threads that share a batch, and they end with it.
#include <pthread.h>
#include <time.h>

#include "gridgen_share.h"

namespace {

using gridgen::int64;

// gridgen.papers.stream_task.Task
struct Task {
    gridgen::Kernel kernel;
    const gridgen::Array* arrays;
    int64 batch;
    int64 threads;      // the most for the batch
    int64 block;        // the batch is divided at multiples of this number of states
    double least_share; // least work per thread [s]
};

struct Shared {
    const Task& task;
    gridgen::Share left;
};

constexpr int64 most_threads = 64;

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void* take(void* given) {
    Shared& shared = *static_cast<Shared*>(given);
    const Task& task = shared.task;
    gridgen::take_parts(shared.left, [&task](int64 begin, int64 end) {
        task.kernel(task.arrays, begin, end, task.batch);
    });
    return nullptr;
}

int64 least(int64 a, int64 b) { return a < b ? a : b; }

}  // namespace

// The first block measures the time per state, which decides the number of threads.
extern "C" __attribute__((visibility("default"))) void gridgen_run_task(void* given) {
    const Task& task = *static_cast<const Task*>(given);
    const int64 first = least(task.batch, task.block), left = task.batch - first;
    const double start = now();
    task.kernel(task.arrays, 0, first, task.batch);
    if (left == 0) return;
    const double seconds = (now() - start) * double(left) / double(first);
    const int64 blocks = (left + task.block - 1) / task.block;
    const int64 worth = seconds < most_threads * task.least_share ? int64(seconds / task.least_share)
                                                                   : most_threads;
    const int64 threads = least(least(task.threads, most_threads), least(blocks, worth));
    Shared shared = {task, {first, task.batch, task.block, left, 0}};
    pthread_t others[most_threads];
    int64 started = 0;
    while (started + 1 < threads && !pthread_create(&others[started], nullptr, take, &shared))
        ++started;
    take(&shared);
    while (started > 0) pthread_join(others[--started], nullptr);
}
