// What the C++ interfaces of all robots have in common: errors, and threads that share a batch.
#ifndef GRIDGEN_HPP
#define GRIDGEN_HPP

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "gridgen.h"

namespace gridgen {

// What the functions of a robot throw.
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

// The array from so many elements on; one that is not given stays so.
template <class S> S* skip(S* array, long long elements) {
    return array ? array + elements : nullptr;
}

// Threads that outlive a call, started when they are first needed.
class Workers {
public:
    // This process's. A child of a fork has none of its parent's threads, and cannot end what is left
    // of them.
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
    // Has so many threads, or as many as the system grants, each do a task once, some time.
    void hand_out(const std::function<void()>& task, int count) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            try {
                while (int(threads_.size()) < count) threads_.emplace_back([this] { work(); });
            } catch (const std::system_error&) {
                count = int(threads_.size());
            }
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
        for (std::thread& thread : threads_) thread.join();
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
    std::vector<std::thread> threads_;
    bool ends_ = false;
    const pid_t process_ = getpid();
};

// A batch that several threads compute: each takes the next part until none is left, so that one
// that starts late or is interrupted holds nobody up. It may start when all is done: it then finds
// nothing to do, in memory that is still there.
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
    // The others need microseconds, and to be woken by the system would take longer.
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

// Computes a batch on several threads, where there is enough to do.
// states        of the batch
// instructions  of a state, for one lane of a SIMD unit
// threads       at most so many; 0: Workers::usual_threads()
// compute       computes states [begin, end)
template <class S, class Compute>
gridgen_status in_parts(long long states, double instructions, int threads, Compute compute) {
    // Another thread takes 20 to 60 us to wake; a state of so many instructions about this long.
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

}  // namespace gridgen

#endif  // GRIDGEN_HPP
