// Code shared by the C++ interfaces of all robots: errors, and threads that share a batch.
#ifndef GRIDGEN_HPP
#define GRIDGEN_HPP

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "gridgen.h"

namespace gridgen {

// The exception of a robot's functions.
class Error : public std::runtime_error {
public:
    Error(gridgen_status status, const char* function)
        : std::runtime_error(std::string(function) + ": " + gridgen_status_text(status)),
          status_(status) {}
    gridgen_status status() const { return status_; }

private:
    gridgen_status status_;
};

inline void check(gridgen_status status, const char* function) {
    if (status != gridgen_done) throw Error(status, function);
}

// The array from an element offset on; null stays null.
template <class S> S* skip(S* array, long long elements) {
    return array ? array + elements : nullptr;
}

// The index of a name among others; in a constant expression an unknown name does not compile.
template <std::size_t N>
constexpr int index_of(const std::array<std::string_view, N>& names, std::string_view name) {
    for (std::size_t i = 0; i < N; ++i)
        if (names[i] == name) return int(i);
    throw std::out_of_range("no such name: " + std::string(name));
}

// Ranges of elements S or const S: std::array, std::vector, std::span, vectors and matrices of Eigen.
template <class R, class S>
using IfRange = std::enable_if_t<
    std::is_convertible_v<decltype(std::declval<R&>().data()), S*> &&
    std::is_integral_v<std::decay_t<decltype(std::declval<R&>().size())>>>;

// The number of elements that the type of a range specifies; -1 if it is dynamic.
template <class R, class = void> constexpr long long fixed_size = -1;
template <class R>
constexpr long long fixed_size<R, std::void_t<decltype(std::tuple_size<R>::value)>> =
    static_cast<long long>(std::tuple_size<R>::value);
template <class R>
constexpr long long fixed_size<R, std::enable_if_t<(R::extent < std::size_t(-1))>> =
    static_cast<long long>(R::extent);
template <class R>
constexpr long long fixed_size<R, std::enable_if_t<(R::SizeAtCompileTime > 0)>> =
    static_cast<long long>(R::SizeAtCompileTime);

// Whether a range is an Eigen matrix, whose storage may be column-major or strided.
template <class R, class = void> constexpr bool is_eigen = false;
template <class R> constexpr bool is_eigen<R, std::void_t<decltype(R::IsRowMajor)>> = true;

// The elements of an argument in row-major order: of a range itself, or of a copy for other layouts. An
// argument with -1 rows has any number of elements.
template <class S, int Rows, int Columns> class Elements {
public:
    S* data() { return copied_ ? copy_.data() : data_; }

protected:
    using Number = std::remove_const_t<S>;

    explicit Elements(S* data) : data_(data) {}
    template <class R> explicit Elements(R& range, int) : data_(range.data()) {
        constexpr long long size = fixed_size<std::remove_const_t<R>>;
        static_assert(size == -1 || Rows < 0 || size == Rows * Columns, "another number of elements");
        bool fits = Rows < 0 || static_cast<long long>(range.size()) == Rows * Columns;
        if constexpr (is_eigen<R>) {
            if constexpr (Columns > 1 && Rows > 1) {
                fits = range.rows() == Rows && range.cols() == Columns;
                copied_ = !R::IsRowMajor || range.innerStride() != 1 || range.outerStride() != Columns;
            } else {
                fits = fits && (range.rows() == 1 || range.cols() == 1) && range.innerStride() == 1;
            }
        }
        if (!fits) throw Error(gridgen_bad_size, "an argument");
    }
    // Calls f with every element of the copy and that of the range, if there is a copy.
    template <class R, class F> void for_each(R& range, F f) {
        if constexpr (is_eigen<R> && Columns > 1 && Rows > 1)
            if (copied_)
                for (int i = 0; i < Rows; ++i)
                    for (int j = 0; j < Columns; ++j) f(copy_[i * Columns + j], range(i, j));
    }

private:
    static constexpr std::size_t room = Columns > 1 && Rows > 1 ? Rows * Columns : 1;
    std::array<Number, room> copy_;
    S* data_;
    bool copied_ = false;
};

// An input of a function of one state: a pointer, or a range of the given number of elements.
template <class S, int Rows, int Columns = 1>
class In : public Elements<const S, Rows, Columns> {
    using Base = Elements<const S, Rows, Columns>;

public:
    In(const S* data) : Base(data) {}
    In(std::nullptr_t) : Base(nullptr) {}
    template <class R, class = IfRange<const R, const S>> In(const R& range) : Base(range, 0) {
        Base::for_each(range, [](S& kept, const S& element) { kept = element; });
    }
};

// A result of such a function.
template <class S, int Rows, int Columns = 1> class Out : public Elements<S, Rows, Columns> {
    using Base = Elements<S, Rows, Columns>;

public:
    Out(S* data) : Base(data) {}
    template <class R, class = IfRange<R, S>>
    Out(R&& range)
        : Base(range, 0), range_(const_cast<void*>(static_cast<const void*>(&range))),
          store_(&Out::into<std::remove_reference_t<R>>) {}
    // Copies results to the range, if its layout differs.
    void store() {
        if (store_) (this->*store_)();
    }

private:
    template <class R> void into() {
        Base::for_each(*static_cast<R*>(range_), [](S& kept, S& element) { element = kept; });
    }

    void* range_ = nullptr;
    void (Out::*store_)() = nullptr;
};

// Threads that persist between calls; the first call that needs them starts them.
class Workers {
public:
    // The threads of this process. After a fork, the child has none of its parent's threads, and cannot
    // join them.
    static Workers& shared() {
        static Owner owner(new Workers);
        Workers* found = owner.workers.load();
        while (found->process_ != getpid()) {
            Workers* const fresh = new Workers;
            if (owner.workers.compare_exchange_strong(found, fresh)) return *fresh;
            delete fresh;
        }
        return *found;
    }
    // $GRIDGEN_NUM_THREADS, else every core.
    static int usual_threads() {
        static const int threads = [] {
            const char* named = std::getenv("GRIDGEN_NUM_THREADS");
            const int count = named ? std::atoi(named) : 0;
            return count > 0 ? count : std::max(1, int(std::thread::hardware_concurrency()));
        }();
        return threads;
    }
    // Runs a task once on each of up to `count` threads, asynchronously, or as many as the system grants.
    void hand_out(const std::function<void()>& task, int count) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            while (int(threads_.size()) < count && start()) {}
            count = std::min(count, int(threads_.size()));
            for (int i = 0; i < count; ++i) tasks_.push_back(task);
        }
        awake_.notify_all();
    }
    ~Workers() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ends_ = true;
        }
        awake_.notify_all();
        for (const pthread_t thread : threads_) pthread_join(thread, nullptr);
    }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

private:
    struct Owner {
        std::atomic<Workers*> workers;
        explicit Owner(Workers* first) : workers(first) {}
        ~Owner() {
            Workers* const last = workers.load();
            if (last->process_ == getpid()) delete last;
        }
    };

    Workers() = default;
    // Starts a thread, if the system grants one. The packs of large matrices take more stack than threads
    // have by default with some C libraries (128 kB).
    bool start() {
        constexpr std::size_t needed = std::size_t(2) << 20;
        threads_.reserve(threads_.size() + 1);
        pthread_attr_t attributes;
        if (pthread_attr_init(&attributes)) return false;
        std::size_t usual = 0;
        pthread_attr_getstacksize(&attributes, &usual);
        pthread_t thread;
        const auto run = [](void* self) -> void* {
            static_cast<Workers*>(self)->work();
            return nullptr;
        };
        const bool is_started =
            !pthread_attr_setstacksize(&attributes, std::max(usual, needed)) &&
            !pthread_create(&thread, &attributes, run, this);
        pthread_attr_destroy(&attributes);
        if (is_started) threads_.push_back(thread);
        return is_started;
    }
    void work() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            awake_.wait(lock, [this] { return ends_ || !tasks_.empty(); });
            if (ends_) return;
            const std::function<void()> task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            task();
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable awake_;
    std::deque<std::function<void()>> tasks_;
    std::vector<pthread_t> threads_;
    bool ends_ = false;
    const pid_t process_ = getpid();
};

// A batch that several threads compute: each takes the next part until none is left, so that a thread
// that starts late or is interrupted does not delay the others. A thread may start after the end of the
// batch: it then finds no part, in memory that is still valid.
template <class Compute> class SharedBatch {
public:
    SharedBatch(long long states, long long part, Compute compute)
        : states_(states), part_(part), left_(states), compute_(compute) {}

    void take_parts() {
        for (;;) {
            const long long begin = next_.fetch_add(part_, std::memory_order_relaxed);
            if (begin >= states_) return;
            const long long end = std::min(begin + part_, states_);
            const gridgen_status found = compute_(begin, end);
            if (found != gridgen_done) status_.store(found, std::memory_order_relaxed);
            if (left_.fetch_sub(end - begin, std::memory_order_acq_rel) == end - begin) {
                const std::lock_guard<std::mutex> lock(mutex_);
                done_.notify_all();
            }
        }
    }
    // The other threads need microseconds, less than a wake-up by the system.
    gridgen_status wait() {
        constexpr int patience = 4000;
        for (int i = 0; i < patience && left_.load(std::memory_order_acquire); ++i) pause();
        if (left_.load(std::memory_order_acquire)) {
            std::unique_lock<std::mutex> lock(mutex_);
            done_.wait(lock, [this] { return !left_.load(std::memory_order_acquire); });
        }
        return status_.load(std::memory_order_relaxed);
    }

private:
    static void pause() {
#if defined(__SSE2__)
        __builtin_ia32_pause();
#endif
    }

    const long long states_, part_;
    std::atomic<long long> next_{0}, left_;
    std::atomic<gridgen_status> status_{gridgen_done};
    const Compute compute_;
    std::mutex mutex_;
    std::condition_variable done_;
};

// Computes a batch on several threads, if it is large enough.
// states        of the batch
// instructions  per state, for one SIMD lane
// threads       maximum; 0: Workers::usual_threads()
// compute       computes states [begin, end)
template <class S, class Compute>
gridgen_status in_parts(long long states, double instructions, int threads, Compute compute) {
    // Waking another thread takes 20 to 60 us; a state of this many instructions takes about this time.
    constexpr double least_share = 80e-6, seconds = 0.4e-9 * double(sizeof(S)) / 32;
    constexpr long long block = 64, parts = 16;
    const int most = threads > 0 ? threads : Workers::usual_threads();
    const double worth = double(states) * instructions * seconds / least_share;
    const long long blocks = (states + block - 1) / block;
    const auto shares = int(std::min({double(most), double(blocks), worth}));
    if (shares <= 1) return compute(0, states);
    const long long part = block * std::max(1LL, states / (shares * parts * block));
    const auto batch = std::make_shared<SharedBatch<Compute>>(states, part, compute);
    Workers::shared().hand_out([batch] { batch->take_parts(); }, shares - 1);
    batch->take_parts();
    return batch->wait();
}

// --- Calls of C functions -----------------------------------------------------------------------

// A type that is not deduced.
template <class T> using Given = std::common_type_t<T>;

// The function for an element type.
template <class S, class F32, class F64> auto of_type(F32* f32, F64* f64) {
    if constexpr (std::is_same_v<S, float>) return f32;
    else return f64;
}

// An argument of one state for C, and the copy of its results after the call.
template <class A> A argument(A number) { return number; }
template <class S, int Rows, int Columns> const S* argument(In<S, Rows, Columns>& array) {
    return array.data();
}
template <class S, int Rows, int Columns> S* argument(Out<S, Rows, Columns>& array) {
    return array.data();
}
template <class A> void store(A&) {}
template <class S, int Rows, int Columns> void store(Out<S, Rows, Columns>& array) { array.store(); }

// Calls a C function of one state.
template <class Function, class... Arguments>
void call(const char* name, Function function, Arguments&&... arguments) {
    check(function(argument(arguments)...), name);
    (store(arguments), ...);
}

// An argument for states [begin, end): an array with this many numbers per state; 0 for an array
// shared by all states, `states` for the number of states.
constexpr int states = -1;
template <int size, class A> A part_of(A argument, long long begin, long long end) {
    if constexpr (size == states) return end - begin;
    else if constexpr (size > 0) return skip(argument, size * begin);
    else return argument;
}

// Calls a C function of n states, on several threads if the batch is large enough; see in_parts.
template <class S, int... sizes, class Function, class... Arguments>
void call_batch(const char* name, Function function, double instructions, int threads, long long n,
                Arguments... arguments) {
    const auto compute = [=](long long begin, long long end) {
        return function(part_of<sizes>(arguments, begin, end)...);
    };
    check(in_parts<S>(n, instructions, threads, compute), name);
}

}  // namespace gridgen

#endif  // GRIDGEN_HPP
