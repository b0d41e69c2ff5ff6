// How an emulated kernel is started: from a library, or as a program of its own.
#pragma once

#include "emulated_cuda.h"

namespace gridgen::emulated {

// An array as the caller describes it; strides counted in elements.
struct Array {
    std::int64_t address;
    std::int64_t batch;
    std::int64_t component;
};

struct Grid {
    std::int64_t threads;       // of a block
    std::int64_t blocks;
    std::int64_t shared_bytes;  // of dynamic shared memory for each block
};

// The kernel's parameter of a given place: a strided array, or the number of states.
template <class Parameter>
Parameter argument(const Array& array, std::int64_t states) {
    if constexpr (std::is_integral_v<Parameter>) {
        return static_cast<Parameter>(states);
    } else {
        using Data = decltype(Parameter::data);
        return Parameter{reinterpret_cast<Data>(array.address), array.batch, array.component};
    }
}

// Runs a kernel over a grid. Returns what went wrong; empty when nothing did.
template <class... Parameters>
std::string launch(void (*kernel)(Parameters...), const std::vector<Array>& arrays,
                   std::int64_t states, const Grid& grid) {
    if (arrays.size() + 1 != sizeof...(Parameters)) {
        return "the kernel takes " + std::to_string(sizeof...(Parameters) - 1) + " arrays, but " +
               std::to_string(arrays.size()) + " are given";
    }
    // Launches share the static `__shared__` variables of this library.
    static std::mutex one_at_a_time;
    const std::lock_guard hold(one_at_a_time);

    std::vector<Array> all = arrays;
    all.push_back(Array{});  // stands for the number of states
    Team members(static_cast<unsigned>(grid.threads), static_cast<std::size_t>(grid.shared_bytes));
    const auto enter = [&](const Lane& lane, unsigned long long block) {
        team = &members;
        self = &lane;
        threadIdx = uint3{lane.thread, 0, 0};
        blockIdx = uint3{static_cast<unsigned>(block), 0, 0};
        blockDim = dim3{static_cast<unsigned>(grid.threads), 1, 1};
        gridDim = dim3{static_cast<unsigned>(grid.blocks), 1, 1};
        [&]<std::size_t... Index>(std::index_sequence<Index...>) {
            kernel(argument<Parameters>(all[Index], states)...);
        }(std::index_sequence_for<Parameters...>{});
    };
    return members.run(static_cast<unsigned long long>(grid.blocks), enter);
}

// The entry of a library. Returns 0; 1 where the kernel went wrong and 2 where the machine refused
// the threads, with the reason in `message`.
template <class Kernel>
int enter(Kernel kernel, const std::int64_t* arrays, std::int64_t count, std::int64_t states,
          const std::int64_t* grid, char* message, std::int64_t capacity) {
    std::vector<Array> all;
    for (std::int64_t i = 0; i < count; ++i) {
        all.push_back({arrays[3 * i], arrays[3 * i + 1], arrays[3 * i + 2]});
    }
    const auto report = [message, capacity](const char* text) {
        std::snprintf(message, static_cast<std::size_t>(capacity), "%s", text);
    };
    try {
        const std::string failure = launch(kernel, all, states, Grid{grid[0], grid[1], grid[2]});
        report(failure.c_str());
        return failure.empty() ? 0 : 1;
    } catch (const std::exception& error) {
        report(error.what());
        return 2;
    }
}

// The main function of a program: `program inputs outputs`.
//
// The file of inputs holds 64-bit integers: number of states, threads, blocks, shared bytes, number
// of arrays; for each array its size in bytes and its two strides; then the arrays' bytes. The file
// of outputs holds the bytes of all arrays after the run. Returns 3 where the kernel gave up.
template <class Kernel>
int standalone(Kernel kernel, int count, char** words) {
    std::FILE* input = count == 3 ? std::fopen(words[1], "rb") : nullptr;
    if (input == nullptr) {
        std::fprintf(stderr, "usage: program inputs outputs\n");
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
    // One allocation each, of the exact size, so that AddressSanitizer sees where an array ends.
    std::vector<std::unique_ptr<unsigned char[]>> memory;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        memory.emplace_back(new unsigned char[sizes[i]]);
        if (std::fread(memory[i].get(), 1, sizes[i], input) != sizes[i]) return 2;
        arrays[i].address = reinterpret_cast<std::int64_t>(memory[i].get());
    }
    std::fclose(input);

    const std::string failure = launch(kernel, arrays, states, grid);
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

}  // namespace gridgen::emulated
