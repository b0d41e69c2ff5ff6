// Runtime of every emulated kernel: launches, from a library or as a standalone program, and thread
// synchronization. Like all generated code it needs no C++ library.
#include "emulated_team.h"

#include <pthread.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace gridgen::emulated {

namespace {

struct Grid {
    std::int64_t threads;       // per block
    std::int64_t blocks;
    std::int64_t shared_bytes;  // of dynamic shared memory per block
};

struct Launch {
    Team* team;
    const Array* arrays;
    std::int64_t states;
};

Launch current;

void serve() {
    current.team->serve([] { kernel.run(current.arrays, current.states); });
}

// Launches share the variables above, and the static `__shared__` variables of this library.
pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

int launch_alone(const Items<Array>& arrays, std::int64_t states, const Grid& grid, LeftOut left_out,
                 Message& message) {
    Team team(static_cast<unsigned>(grid.threads), static_cast<std::size_t>(grid.shared_bytes), serve,
              left_out);
    if (!team.allocated()) {
        message.add("Cannot allocate memory");
        return 2;
    }
    current = {&team, arrays.begin(), states};
    blockDim.x = static_cast<unsigned>(grid.threads);
    gridDim.x = static_cast<unsigned>(grid.blocks);
    for (std::int64_t block = 0; block < grid.blocks; ++block) {
        blockIdx.x = static_cast<unsigned>(block);
        const Message& failure = team.run_block();
        if (failure.empty()) continue;
        message.add("%s", failure.text());
        return 1;
    }
    return 0;
}

// Runs the kernel over a grid. Returns 0; 1 for an error of the kernel and 2 if the system is out of
// memory, with a message.
int launch(const Items<Array>& arrays, std::int64_t states, const Grid& grid, LeftOut left_out,
           Message& message) {
    if (static_cast<int>(arrays.size()) != kernel.arrays) {
        message.add("the kernel takes %d arrays, but %zu are given", kernel.arrays, arrays.size());
        return 1;
    }
    pthread_mutex_lock(&one_at_a_time);
    const int status = launch_alone(arrays, states, grid, left_out, message);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}

}  // namespace

Votes meet_block(Place place, bool predicate) {
    return current.team->meet_block(place, predicate);
}

void meet_some(Place place, int number, int threads, bool waits) {
    current.team->meet_some(place, number, threads, waits);
}

Votes meet_warp(Place place, unsigned mask, bool ordered, bool predicate) {
    return current.team->meet_warp(place, mask, ordered, predicate);
}

unsigned long long exchange(Place place, unsigned mask, unsigned long long bits, int from) {
    return current.team->exchange(place, mask, bits, from);
}

void* dynamic_shared() { return current.team->dynamic_shared(); }

void give_up(const char* reason) { current.team->give_up(reason); }

}  // namespace gridgen::emulated

using namespace gridgen::emulated;

// The entry point of a library. Returns 0; 1 for an error of the kernel and 2 if the system is out of
// memory, with the message in `message`.
extern "C" __attribute__((visibility("default"))) int gridgen_entry(
    const std::int64_t* arrays, std::int64_t count, std::int64_t states, const std::int64_t* grid,
    char* message, std::int64_t capacity) {
    Message reason;
    Items<Array> all(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
        all.add(arrays[3 * i], arrays[3 * i + 1], arrays[3 * i + 2]);
    }
    const int status = launch(all, states, Grid{grid[0], grid[1], grid[2]}, LeftOut(), reason);
    std::snprintf(message, static_cast<std::size_t>(capacity), "%s", reason.text());
    return status;
}

// A program: `program inputs outputs [file line]`, where file and line select a barrier to omit.
//
// The file of inputs contains 64-bit integers: number of states, threads, blocks, shared bytes, number
// of arrays; for each array its size in bytes and its two strides; then the arrays' bytes. The file
// of outputs contains the bytes of all arrays after the run. Returns 3 for an error of the kernel.
int main(int count, char** words) {
    std::FILE* input = count == 3 || count == 5 ? std::fopen(words[1], "rb") : nullptr;
    if (input == nullptr) {
        std::fprintf(stderr, "usage: program inputs outputs [file line]\n");
        return 2;
    }
    const auto integer = [input] {
        std::int64_t value = 0;
        if (std::fread(&value, sizeof value, 1, input) != 1) std::exit(2);
        return value;
    };
    const std::int64_t states = integer();
    Grid grid{};
    grid.threads = integer();
    grid.blocks = integer();
    grid.shared_bytes = integer();
    const auto count_of_arrays = static_cast<std::size_t>(integer());
    Items<std::size_t> sizes(count_of_arrays);
    Items<Array> arrays(count_of_arrays);
    for (std::size_t i = 0; i < count_of_arrays; ++i) {
        sizes.add(static_cast<std::size_t>(integer()));
        Array& array = arrays.add();
        array.batch = integer();
        array.component = integer();
    }
    // One allocation each, of the exact size, so that AddressSanitizer detects accesses beyond the end.
    Items<Items<unsigned char>> memory(count_of_arrays);
    for (std::size_t i = 0; i < count_of_arrays; ++i) {
        unsigned char* bytes = memory.add(sizes[i]).begin();
        if (std::fread(bytes, 1, sizes[i], input) != sizes[i]) return 2;
        arrays[i].address = reinterpret_cast<std::int64_t>(bytes);
    }
    std::fclose(input);

    LeftOut left_out;
    if (count == 5) left_out = {words[3], std::atoi(words[4])};
    Message message;
    if (const int status = launch(arrays, states, grid, left_out, message)) {
        std::fprintf(stderr, "%s\n", message.text());
        return status == 1 ? 3 : 2;
    }
    std::FILE* output = std::fopen(words[2], "wb");
    if (output == nullptr) return 2;
    for (std::size_t i = 0; i < count_of_arrays; ++i) {
        std::fwrite(memory[i].begin(), 1, sizes[i], output);
    }
    return std::fclose(output) == 0 ? 0 : 2;
}
