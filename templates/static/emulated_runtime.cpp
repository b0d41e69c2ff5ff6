// Runtime of every emulated kernel: launches, from a library or as a standalone program, and thread
// synchronization.
#include "emulated_team.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>

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

// Runs the kernel over a grid. Returns an error message; empty on success.
std::string launch(const std::vector<Array>& arrays, std::int64_t states, const Grid& grid,
                   LeftOut left_out) {
    if (static_cast<int>(arrays.size()) != kernel.arrays) {
        return "the kernel takes " + std::to_string(kernel.arrays) + " arrays, but " +
               std::to_string(arrays.size()) + " are given";
    }
    // Launches share the variables above, and the static `__shared__` variables of this library.
    static std::mutex one_at_a_time;
    const std::lock_guard hold(one_at_a_time);

    Team team(static_cast<unsigned>(grid.threads), static_cast<std::size_t>(grid.shared_bytes),
              serve, std::move(left_out));
    current = {&team, arrays.data(), states};
    blockDim.x = static_cast<unsigned>(grid.threads);
    gridDim.x = static_cast<unsigned>(grid.blocks);
    std::string failure;
    for (std::int64_t block = 0; block < grid.blocks && failure.empty(); ++block) {
        blockIdx.x = static_cast<unsigned>(block);
        failure = team.run_block();
    }
    return failure;
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
    const auto report = [message, capacity](const char* text) {
        std::snprintf(message, static_cast<std::size_t>(capacity), "%s", text);
    };
    try {
        std::vector<Array> all;
        for (std::int64_t i = 0; i < count; ++i) {
            all.push_back({arrays[3 * i], arrays[3 * i + 1], arrays[3 * i + 2]});
        }
        const std::string failure = launch(all, states, Grid{grid[0], grid[1], grid[2]}, LeftOut());
        report(failure.c_str());
        return failure.empty() ? 0 : 1;
    } catch (const std::exception& error) {
        report(error.what());
        return 2;
    }
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
    std::vector<std::size_t> sizes(static_cast<std::size_t>(integer()));
    std::vector<Array> arrays(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        sizes[i] = static_cast<std::size_t>(integer());
        arrays[i].batch = integer();
        arrays[i].component = integer();
    }
    // One allocation each, of the exact size, so that AddressSanitizer detects accesses beyond the end.
    std::vector<std::unique_ptr<unsigned char[]>> memory;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        memory.emplace_back(new unsigned char[sizes[i]]);
        if (std::fread(memory[i].get(), 1, sizes[i], input) != sizes[i]) return 2;
        arrays[i].address = reinterpret_cast<std::int64_t>(memory[i].get());
    }
    std::fclose(input);

    LeftOut left_out;
    if (count == 5) left_out = {words[3], std::atoi(words[4])};
    const std::string failure = launch(arrays, states, grid, left_out);
    if (!failure.empty()) {
        std::fprintf(stderr, "%s\n", failure.c_str());
        return 3;
    }
    std::FILE* output = std::fopen(words[2], "wb");
    if (output == nullptr) return 2;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        std::fwrite(memory[i].get(), 1, sizes[i], output);
    }
    return std::fclose(output) == 0 ? 0 : 2;
}
