// Memory access of kernels with one thread per state.
//
// For any strides, all loads of a state are issued before the first wait. In rows, the numbers of a
// state are consecutive, and so are the states: a thread that read its own row would touch one cache
// line per number, and its neighbors the same lines again. Kernels for rows therefore stage the rows of a
// warp's states in shared memory: the warp copies them together, 16 bytes per thread at a time, and each
// thread then reads its row there.
#ifndef GRIDGEN_STATES_CUH
#define GRIDGEN_STATES_CUH

#include "gridgen_math.cuh"
#include "gridgen_shared.cuh"

namespace gridgen {

// Component j of one state is data[j * component]. A single instruction computes each address: a
// compiler that knew them to be multiples of one stride would derive each from the previous one, and
// hold many of them in registers.
template <class T> struct Components {
    T* data;
    int component;

    GRIDGEN_DEVICE T& operator[](int j) const {
        int step = component;
#if defined(__CUDA_ARCH__)
        asm volatile("" : "+r"(step));
#endif
        return data[int64(j) * step];
    }
};

template <class T> GRIDGEN_DEVICE Components<T> components(const Strided<T>& array, int64 state) {
    return {array.data + state * array.batch, int(array.component)};
}

// See gridgen_math.cuh.
template <int begin, int end, class T> GRIDGEN_DEVICE void fill(Components<T> result, T value) {
    T* next = &result[begin];
    GRIDGEN_ROLLED
    for (int j = begin; j < end; ++j, next += result.component) *next = value;
}

// An argument of one state: a pointer, or its components.
template <class T, int length> struct Loaded {
    T x[length];

    Loaded() = default;
    template <class State> GRIDGEN_DEVICE explicit Loaded(State state) {
        GRIDGEN_UNROLLED
        for (int j = 0; j < length; ++j) x[j] = state[j];
        settle(x);
    }
};

// --- Rows ---------------------------------------------------------------------------------------

constexpr int warp_states = 32;

// The states of a warp, one per thread. Threads beyond the batch compute its last state, because all
// threads take part in every copy, and write nothing.
struct Warp {
    int states;     // zero beyond the end of the batch
    uint32 lane;
    uint32 row;     // of this thread's state
    uint32 number;  // of the warp; there is no memory for 2^32 of them

    static GRIDGEN_DEVICE uint32 own_number() {
        return blockIdx.x * (blockDim.x / warp_states) + threadIdx.x / warp_states;
    }

    GRIDGEN_DEVICE explicit Warp(int64 batch) : Warp(batch, own_number()) {}
    GRIDGEN_DEVICE Warp(int64 batch, uint32 own)
        : lane(threadIdx.x % warp_states), number(own) {
        const int64 left = batch - begin();
        states = left < warp_states ? int(left) : warp_states;
        row = uint32(int(lane) < states - 1 ? int(lane) : states - 1);
    }

    // The number of its rows.
    GRIDGEN_DEVICE uint32 numbers(int length) const { return uint32(states) * uint32(length); }

    GRIDGEN_DEVICE bool is_whole() const { return states == warp_states; }

    // The first of its states.
    GRIDGEN_DEVICE int64 begin() const { return int64(uint64(number) * warp_states); }

    // The start of its rows of an array.
    template <int length, class T> GRIDGEN_DEVICE T* rows(T* array) const {
        return array + uint64(number) * (warp_states * length);
    }

    // The state of this thread in an array of any stride.
    template <class T> GRIDGEN_DEVICE T* state(T* array, int64 stride) const {
        return array + (begin() + row) * stride;
    }

    // Its part of the block's shared memory, with this many numbers per state.
    template <class T> GRIDGEN_DEVICE T* shared(int numbers) const {
        return dynamic_shared<T>() + (threadIdx.x - lane) * numbers;
    }
};

// Numbers that one instruction copies.
template <class T, int size> struct alignas(size * sizeof(T)) Piece {
    T x[size];
};

// The largest piece that divides rows of this length, from any offset.
template <class T> GRIDGEN_DEVICE constexpr int piece_size(int length) {
    const int most = 16 / int(sizeof(T));
    return length % most == 0 ? most : length % 2 == 0 ? 2 : 1;
}

// Numbers from one row in shared memory to the next; see symbolic/tiles.py.
GRIDGEN_DEVICE constexpr int pitch(int length) { return length % 4 == 0 ? length + 1 : length; }

// The copy of a whole warp's rows: pieces of 16 bytes, consecutive threads on consecutive pieces. Pieces
// of successive iterations are one warp apart; the last iteration may have fewer.
template <class T, int length> struct Pieces {
    static constexpr int size = 16 / int(sizeof(T));
    static constexpr int count = warp_states * length / size;
    static constexpr int turns = (count + warp_states - 1) / warp_states;
    using Type = Piece<T, size>;

    static GRIDGEN_DEVICE bool has(int turn, const Warp& warp) {
        return (turn + 1) * warp_states <= count || int(warp.lane) < count % warp_states;
    }
};

// Loads the rows of an argument by a whole warp, and stores them in shared memory. All arguments are
// loaded before the first is stored, without branches between them.
template <class T, int length> class InputRows {
    using Copied = Pieces<T, length>;
    using P = typename Copied::Type;

    P piece_[Copied::turns];
    T* const shared_;
    const Warp& warp_;

  public:
    GRIDGEN_DEVICE InputRows(const T* array, T* shared, const Warp& warp)
        : shared_(shared), warp_(warp) {
        const auto from = reinterpret_cast<const P*>(warp.template rows<length>(array)) + warp.lane;
        GRIDGEN_UNROLLED
        for (int turn = 0; turn < Copied::turns; ++turn)
            if (Copied::has(turn, warp)) piece_[turn] = from[turn * warp_states];
    }

    // Threads must synchronize before they read them there.
    GRIDGEN_DEVICE void store() const {
        P* const dense = reinterpret_cast<P*>(shared_) + warp_.lane;
        GRIDGEN_UNROLLED
        for (int turn = 0; turn < Copied::turns; ++turn) {
            if (!Copied::has(turn, warp_)) continue;
            if constexpr (pitch(length) == length) {
                dense[turn * warp_states] = piece_[turn];
            } else {
                const uint32 p = turn * warp_states + warp_.lane;
                T* const to = shared_ + p * Copied::size + p / (length / Copied::size);
                GRIDGEN_UNROLLED
                for (int k = 0; k < Copied::size; ++k) to[k] = piece_[turn].x[k];
            }
        }
    }
};

// Copies one number of the rows at the end of the batch, if it exists.
template <int length, class T>
GRIDGEN_DEVICE void store_number(uint32 i, const T* array, T* shared, const Warp& warp) {
    if (i < warp.numbers(length))
        shared[i + i / length * (pitch(length) - length)] = warp.rows<length>(array)[i];
}

// The row of this thread's state.
template <int length, class T> GRIDGEN_DEVICE const T* row(T* shared, const Warp& warp) {
    return shared + warp.row * pitch(length);
}

// Long-lived values of a state's program. In float, on multiprocessors with 227 kB of shared memory, they
// are parked there: the values of a warp's threads are interleaved, after `staged` numbers of each.
// Elsewhere fewer warps would fit, and doubles are too large: the compiler decides where to hold them.
template <class T, int count> class Parked {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200)
    static constexpr bool is_shared = false;
#else
    static constexpr bool is_shared = sizeof(T) == 4;
#endif

    T own_[is_shared ? 1 : count];
    T* first_;

    // Written values are read from there again, without a copy in a register.
    struct Values {
        volatile T* first;

        GRIDGEN_DEVICE volatile T& operator[](int slot) const { return first[slot * warp_states]; }
    };

  public:
    static constexpr int shared = is_shared ? count : 0;

    GRIDGEN_DEVICE explicit Parked(int staged = 0) {
        if constexpr (is_shared) {
            const int lane = threadIdx.x % warp_states;
            const int begin = (threadIdx.x - lane) * (staged + count) + warp_states * staged;
            first_ = dynamic_shared<T>() + begin + lane;
        }
    }

    GRIDGEN_DEVICE auto values() {
        if constexpr (is_shared) return Values{first_};
        else return static_cast<T*>(own_);
    }
};

template <class T, int count> GRIDGEN_DEVICE constexpr int parked_in_shared_memory() {
    if constexpr (count > 0) return Parked<T, count>::shared;
    else return 0;
}

// The tiles of array k of a function, a result.
template <class F, int k> struct TilesOf {
    static constexpr int length = size_of<F, k>, width = F::widths[k - F::inputs];
    static constexpr bool is_apart = F::is_apart;

    static GRIDGEN_DEVICE constexpr int first(int array) {  // of its tiles
        int tiles = 0;
        for (int i = F::inputs; i < array; ++i)
            tiles += (F::axes[i].size() - 1) / F::widths[i - F::inputs] + 1;
        return tiles;
    }
    static GRIDGEN_DEVICE constexpr Tile tile(int number) {
        constexpr int begin = first(k);
        return F::tiles[begin + number];
    }
};

// A result whose tiles stay in shared memory until they are complete. Plan is its TilesOf. A separate
// function copies tiles (is_apart) if inlined copies would not fit in the instruction caches.
template <class T, class Plan> class ResultRows {
    static constexpr int length = Plan::length;
    static constexpr bool is_dense = Plan::width == length && pitch(length) == length;

    T* shared_;
    T* own_;  // the thread's row in the tile that begins first
    T* rows_;
    T* row_;  // of this thread's state
    Warp warp_;

  public:
    GRIDGEN_DEVICE ResultRows(T* array, T* shared, const Warp& warp)
        : shared_(shared),
          own_(shared + warp.lane * pitch(Plan::width)),
          rows_(warp.template rows<length>(array)),
          row_(rows_ + warp.row * length),
          warp_(warp) {}

    struct Element {
        const ResultRows& result;
        int j;

        GRIDGEN_DEVICE void operator=(T value) const { result.store(j, value); }
    };

    GRIDGEN_DEVICE Element operator[](int j) const { return {*this, j}; }

    // Sets elements [begin, end) to one value, tile by tile.
    template <int begin, int end> GRIDGEN_DEVICE void fill(T value) const {
        constexpr int number = begin / Plan::width, next = (number + 1) * Plan::width;
        constexpr int stop = next < end ? next : end;
        constexpr Tile tile = Plan::tile(number);
        constexpr int rest = stop - begin - (tile.last == stop - 1);  // those before the last one
        if constexpr (tile.begin < 0) {
            if (int(warp_.lane) < warp_.states) fill_places<rest>(row_ + begin, value);
        } else {
            fill_places<rest>(own_ + tile.begin * warp_states + begin % Plan::width, value);
        }
        if constexpr (begin + rest < stop) store(begin + rest, value);
        if constexpr (stop < end) fill<stop, end>(value);
    }

  private:
    template <int count> static GRIDGEN_DEVICE void fill_places(T* places, T value) {
        gridgen::fill<0, count>(View<T>{places, 1}, value);
    }

    GRIDGEN_DEVICE void store(int j, T value) const {
        const Tile tile = Plan::tile(j / Plan::width);
        if (tile.begin < 0) {
            if (int(warp_.lane) < warp_.states) row_[j] = value;
            return;
        }
        own_[tile.begin * warp_states + j % Plan::width] = value;
        if (j != tile.last) return;
        const T* const complete = shared_ + tile.begin * warp_states;
        if constexpr (Plan::is_apart) write_apart(*this, j / Plan::width, complete);
        else write(j / Plan::width, complete);
    }

    static GRIDGEN_PART void write_apart(const ResultRows result, int number, const T* tile) {
        result.write(number, tile);
    }

    // Copies a complete tile from shared to global memory.
    GRIDGEN_DEVICE void write(int number, const T* tile) const {
        __syncwarp();
        if constexpr (is_dense) {
            write_dense(tile);
        } else if ((number + 1) * Plan::width <= length) {
            write_part<Plan::width>(number, tile);
        } else {
            write_part<(length - 1) % Plan::width + 1>(number, tile);
        }
        __syncwarp();  // before the next tile uses the memory
    }

    GRIDGEN_DEVICE void write_dense(const T* tile) const {
        using Copied = Pieces<T, length>;
        using P = typename Copied::Type;
        if (warp_.is_whole()) {
            const auto from = reinterpret_cast<const P*>(tile) + warp_.lane;
            const auto to = reinterpret_cast<P*>(rows_) + warp_.lane;
            GRIDGEN_UNROLLED
            for (int turn = 0; turn < Copied::turns; ++turn)
                if (Copied::has(turn, warp_)) to[turn * warp_states] = from[turn * warp_states];
        } else {
            GRIDGEN_ROLLED
            for (uint32 i = warp_.lane; i < warp_.numbers(length); i += warp_states)
                rows_[i] = tile[i];
        }
    }

    // A tile of `width` elements: several threads per row, several rows at a time.
    template <int width> GRIDGEN_DEVICE void write_part(int number, const T* tile) const {
        constexpr int size = piece_size<T>(length), of_row = width / size;
        static_assert(width % size == 0, "a tile ends where a piece does");
        // Threads beyond the last whole row of an iteration are idle.
        constexpr int rows = warp_states / of_row, turns = (warp_states + rows - 1) / rows;
        const int row = int(warp_.lane / of_row), part = int(warp_.lane % of_row) * size;
        const int end = row < rows ? warp_.states - row : 0;
        const T* const from = tile + row * pitch(Plan::width) + part;
        T* const to = rows_ + row * length + number * Plan::width + part;
        GRIDGEN_UNROLLED
        for (int turn = 0; turn < turns; ++turn) {
            if (turn * rows >= end) continue;
            Piece<T, size> piece;
            GRIDGEN_UNROLLED
            for (int k = 0; k < size; ++k) piece.x[k] = from[turn * rows * pitch(Plan::width) + k];
            *reinterpret_cast<Piece<T, size>*>(to + turn * rows * length) = piece;
        }
    }
};

template <int begin, int end, class T, class Plan>
GRIDGEN_DEVICE void fill(const ResultRows<T, Plan>& result, T value) {
    result.template fill<begin, end>(value);
}

// --- Kernels ------------------------------------------------------------------------------------

// The argument of a function: registers with its values, or an accessor.
template <class State> GRIDGEN_DEVICE State given(const State& state) { return state; }
template <class T, int length> GRIDGEN_DEVICE const T* given(const Loaded<T, length>& state) {
    return state.x;
}

// Calls F with the arrays of a state. `staged` is the state's shared memory for them.
template <class T, class In, class F, class... States>
GRIDGEN_DEVICE void compute(int staged, const States&... states) {
    if constexpr (F::parked > 0) {
        Parked<T, F::parked> parked(staged);
        F::template compute<T, In>(given(states)..., parked.values());
    } else {
        F::template compute<T, In>(given(states)...);
    }
}

// Array k of a function: inputs, results, then scratch memory.
template <class T, class F, int k, class Element>
GRIDGEN_DEVICE auto state_of(const Strided<Element>& array, int64 i) {
    if constexpr (k == array_count<F>) {
        return array[i];
    } else if constexpr (F::is_loaded && is_input<F, k>) {
        return Loaded<T, size_of<F, k>>(components(array, i));
    } else {
        return components(array, i);
    }
}

// Whether a thread computes two states; see gridgen_pairs.cuh.
template <class T, class F> GRIDGEN_DEVICE constexpr bool is_paired() {
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 1000 || __CUDA_ARCH__ == 1030)
    return F::pairs && are_same<T, float>;
#else
    return false;
#endif
}
template <class T, class F, int... k, class... Arrays>
GRIDGEN_DEVICE void run_state_pairs(Indices<k...>, int64 n, const Arrays&... arrays);
template <class T, class F, int... k, class... Arrays>
GRIDGEN_DEVICE void run_row_pairs(Indices<k...>, int64 n, const Arrays&... arrays);

template <class T, class F, int... k, class... Arrays>
GRIDGEN_DEVICE void run_states(Indices<k...>, int64 n, const Arrays&... arrays) {
    using In = decltype(given(state_of<T, F, 0>(Input<T>(), 0)));
    const int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) compute<T, In, F>(0, state_of<T, F, k>(arrays, i)...);
}

// Computes one state per thread, for arrays with any strides: those of F, then scratch memory.
template <class T, class F, class... Arrays>
GRIDGEN_DEVICE void run_states(int64 n, const Arrays&... arrays) {
    constexpr UpTo<sizeof...(Arrays)> all;
    if constexpr (is_paired<T, F>()) run_state_pairs<T, F>(all, n, arrays...);
    else run_states<T, F>(all, n, arrays...);
}

// Whether an input is staged in shared memory, and the length of the longest such input.
template <class F> GRIDGEN_DEVICE constexpr bool is_staged(int k) {
    return k < F::inputs && F::begins[k] >= 0;
}
template <class F> GRIDGEN_DEVICE constexpr int longest_row() {
    int longest = 0;
    for (int k = 0; k < F::inputs; ++k)
        if (is_staged<F>(k) && F::axes[k].size() > longest) longest = F::axes[k].size();
    return longest;
}

// An input that is not staged in shared memory.
struct NotStaged {
    GRIDGEN_DEVICE NotStaged pieces() const { return {}; }
    GRIDGEN_DEVICE void store() const {}
    GRIDGEN_DEVICE void store_number(uint32) const {}
    GRIDGEN_DEVICE void load() {}
};

// Array k of a function for rows, for one thread. A result:
template <class T, class F, int k, bool is_input, bool is_staged> struct RowOf : NotStaged {
    ResultRows<T, TilesOf<F, k>> rows;

    GRIDGEN_DEVICE RowOf(const Output<T>& array, T* shared, const Warp& warp)
        : rows(array.data, shared, warp) {}
    GRIDGEN_DEVICE const auto& state() const { return rows; }
};

// An input that is read without staging.
template <class T, class F, int k> struct RowOf<T, F, k, true, false> : NotStaged {
    static constexpr int length = F::is_loaded ? size_of<F, k> : 1;

    const T* begin;
    Loaded<T, length> loaded;

    GRIDGEN_DEVICE RowOf(const Input<T>& array, T*, const Warp& warp)
        : begin(warp.state(array.data, array.batch)) {
        if constexpr (F::is_loaded) loaded = Loaded<T, length>(begin);
    }
    GRIDGEN_DEVICE const auto& state() const {
        if constexpr (F::is_loaded) return loaded;
        else return begin;
    }
};

// An input that is staged in shared memory.
template <class T, class F, int k> struct RowOf<T, F, k, true, true> {
    static constexpr int length = size_of<F, k>;

    const T* data;
    T* rows;
    const Warp& warp;
    const T* own;  // the thread's row
    Loaded<T, length> loaded;

    GRIDGEN_DEVICE RowOf(const Input<T>& array, T* shared, const Warp& warp)
        : data(array.data),
          rows(shared + warp_states * F::begins[k]),
          warp(warp),
          own(row<length>(rows, warp)) {}
    GRIDGEN_DEVICE InputRows<T, length> pieces() const { return {data, rows, warp}; }
    GRIDGEN_DEVICE void store_number(uint32 i) const {
        gridgen::store_number<length>(i, data, rows, warp);
    }
    GRIDGEN_DEVICE void load() {
        if constexpr (F::is_read) loaded = Loaded<T, length>(own);
    }
    GRIDGEN_DEVICE const auto& state() const {
        if constexpr (F::is_read) return loaded;
        else return own;
    }
};

template <class... Pieces> GRIDGEN_DEVICE void store_all(const Pieces&... pieces) {
    (pieces.store(), ...);
}

// The states of a warp, and of another one after it, or of one warp twice.
template <class T, class In, class F, class... Rows>
GRIDGEN_DEVICE void compute_rows(const Warp& warp, const Warp& other, Rows&&... rows) {
    if (other.is_whole()) {
        store_all(rows.pieces()...);
    } else {
        GRIDGEN_ROLLED
        for (uint32 i = warp.lane; i < warp.numbers(longest_row<F>()); i += warp_states)
            (rows.store_number(i), ...);
    }
    __syncwarp();
    (rows.load(), ...);
    compute<T, In, F>(F::staged, rows.state()...);
}

template <class T, class F, int... k, class... Arrays>
GRIDGEN_DEVICE void run_rows(Indices<k...>, int64 n, const Arrays&... arrays) {
    const Warp warp(n);
    if (warp.states <= 0) return;
    T* const shared = warp.shared<T>(F::staged + parked_in_shared_memory<T, F::parked>());
    compute_rows<T, const T*, F>(
        warp, warp, RowOf<T, F, k, is_input<F, k>, is_staged<F>(k)>(arrays, shared, warp)...);
}

// Computes one state per thread, for arrays in rows.
template <class T, class F, class... Arrays>
GRIDGEN_DEVICE void run_rows(int64 n, const Arrays&... arrays) {
    constexpr UpTo<array_count<F>> all;
    if constexpr (is_paired<T, F>()) run_row_pairs<T, F>(all, n, arrays...);
    else run_rows<T, F>(all, n, arrays...);
}

// --- Rollouts -----------------------------------------------------------------------------------

// The same number: what is computed from it is computed here, and not held in registers before.
GRIDGEN_DEVICE uint32 again(uint32 x) {
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

// A result of a rollout, n numbers at a time. If the results of a state are consecutive, a whole warp collects
// those of `steps` steps in shared memory and writes them together: a thread that wrote its own would
// write a part of a sector with each number.
template <class T, int n, int steps, bool is_backward> class RowsOverTime {
    static constexpr int width = steps * n, pitch = width | 1;  // odd: different banks
    static constexpr int of_row = width < warp_states ? width : warp_states;
    static constexpr int rows = warp_states / of_row;  // written at once

    const Output<T> array_;
    const int64 time_;
    T* const collected_;
    const Warp& warp_;
    uint32 end_ = 0;  // after the last step
    const bool in_rows_;

    // The results of a state of the warp at step t. Its address is computed anew: a compiler that held it
    // would take registers from the computation.
    GRIDGEN_DEVICE T* state(int64 t, int row) const {
        const int64 state = int64(again(warp_.number)) * warp_states + row;
        return array_.data + state * array_.batch + t * time_;
    }

    GRIDGEN_DEVICE void collect(int step, const T* x) const {
        T* const to = collected_ + again(warp_.lane) * pitch + step * n;
        GRIDGEN_UNROLLED
        for (int j = 0; j < n; ++j) to[j] = x[j];
    }

    // Writes `count` steps, starting at step t.
    GRIDGEN_DEVICE void write(int64 t, int count) const {
        const uint32 lane = again(warp_.lane);
        const int row = int(lane / of_row), place = int(lane % of_row);
        const int end = row < rows ? count * n - place : 0;
        const T* const from = collected_ + row * pitch + place;
        T* to = state(t, row) + place;
        __syncwarp();
        GRIDGEN_UNROLLED
        for (int done = 0; done < warp_states; done += rows, to += rows * array_.batch) {
            GRIDGEN_UNROLLED
            for (int part = 0; part < width; part += of_row)
                if (part < end && (done + rows <= warp_states || row < warp_states - done))
                    to[part] = from[done * pitch + part];
        }
        __syncwarp();  // before the next steps use the memory
    }

public:
    static constexpr int numbers = pitch;  // of shared memory per state

    GRIDGEN_DEVICE RowsOverTime(const Output<T>& array, int64 time, T* shared, const Warp& warp)
        : array_(array),
          time_(time),
          collected_(shared),
          warp_(warp),
          in_rows_(warp.is_whole() && array.component == 1 && time == n) {}

    template <int> GRIDGEN_DEVICE void put(int64 t, const T* x) {
        if (!in_rows_) {
            T* const to = state(t, int(warp_.lane));
            GRIDGEN_UNROLLED
            for (int j = 0; j < n; ++j) to[j * array_.component] = x[j];
        } else {
            const int step = int(uint32(t) % steps);
            collect(step, x);
            if (!is_backward || !end_) end_ = uint32(t) + 1;
            if (step != (is_backward ? 0 : steps - 1)) return;
            const uint32 left = end_ - uint32(t);
            write(t - step, is_backward && left < steps ? int(left) : steps);
        }
    }

    // Whether it has a time axis with more than one value.
    GRIDGEN_DEVICE bool moves() const { return time_ != 0; }

    // Writes the steps that are left after the last one.
    GRIDGEN_DEVICE void finish() const {
        if constexpr (steps > 1 && !is_backward)
            if (const int count = int(end_ % steps)) write(end_ - uint32(count), count);
    }
};
template <class Path> GRIDGEN_DEVICE void finish(const Path&) {}
template <class T, int n, int steps, bool is_backward>
GRIDGEN_DEVICE void finish(const RowsOverTime<T, n, steps, is_backward>& path) {
    path.finish();
}

// Array k of a rollout; see gridgen_rollout.cuh.
template <class T, class F, int k> using PathOf =
    RowsOverTime<T, size_of<F, k>, F::together[k - F::inputs], F::is_backward>;
template <class T, class F, int k> GRIDGEN_DEVICE constexpr int path_begin() {
    if constexpr (k == F::inputs) return 0;
    else if constexpr (F::together[k - 1 - F::inputs] == 0) return path_begin<T, F, k - 1>();
    else return path_begin<T, F, k - 1>() + PathOf<T, F, k - 1>::numbers;
}
template <class F, int k> GRIDGEN_DEVICE constexpr bool is_together() {
    if constexpr (k < F::inputs || k >= array_count<F>) return false;
    else return F::together[k - F::inputs] > 0;
}
template <class T, class F, int k, class Array>
GRIDGEN_DEVICE auto path_of(const Array& array, T* shared, const Warp& warp) {
    if constexpr (is_together<F, k>()) {
        T* const own = shared + warp_states * path_begin<T, F, k>();
        return PathOf<T, F, k>(array.array, array.time.first, own, warp);
    } else {
        return array[warp.begin() + warp.lane];
    }
}

struct RolloutOptions;
template <class T, class F, class... Paths>
GRIDGEN_DEVICE void compute_rollout(const RolloutOptions& options, Paths&&... paths) {
    F::template compute<T>(options, paths...);
    (finish(paths), ...);
}
template <class T, class F, int... k, class... Arrays>
GRIDGEN_DEVICE void run_rollouts(
    Indices<k...>, int64 n, const RolloutOptions& options, const Arrays&... arrays) {
    const Warp warp(n);
    if (int(warp.lane) >= warp.states) return;
    T* const shared = warp.shared<T>(F::staged);
    compute_rollout<T, F>(options, path_of<T, F, k>(arrays, shared, warp)...);
}

// Computes the rollout of one state per thread. arrays: those of F over time, then scratch memory.
template <class T, class F, class... Arrays>
GRIDGEN_DEVICE void run_rollouts(int64 n, const RolloutOptions& options, const Arrays&... arrays) {
    run_rollouts<T, F>(UpTo<sizeof...(Arrays)>(), n, options, arrays...);
}

}  // namespace gridgen

#endif  // GRIDGEN_STATES_CUH
