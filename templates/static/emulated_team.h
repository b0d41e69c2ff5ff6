// The threads of an emulated CUDA block: one OS thread each, blocks one after another.
//
// Threads meet: all live threads of the block at __syncthreads, the live lanes named by a mask at
// __syncwarp, a shuffle or a vote. No one waits for a thread that has returned from the kernel.
//
// What ThreadSanitizer sees. The bookkeeping below is hidden from it, the locks included: a lock
// shared by the whole block would order threads that CUDA does not order, and hide races. Of a
// meeting it sees one atomic, `order`, and only where CUDA orders memory: at __syncthreads and at
// __syncwarp. Shuffles and votes carry values but order nothing, as in CUDA.
#pragma once

#include "emulated_memory.h"

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__SANITIZE_THREAD__)
#define GRIDGEN_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define GRIDGEN_THREAD_SANITIZER 1
#endif
#endif

#if defined(GRIDGEN_THREAD_SANITIZER)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace gridgen::emulated {

constexpr unsigned warp_lanes = 32;

// Hides what a scope does from ThreadSanitizer.
struct Hidden {
    Hidden() { begin(); }
    ~Hidden() { end(); }
    Hidden(const Hidden&) = delete;
    Hidden& operator=(const Hidden&) = delete;

    static void begin() {
#if defined(GRIDGEN_THREAD_SANITIZER)
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
    }

    static void end() {
#if defined(GRIDGEN_THREAD_SANITIZER)
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
#endif
    }
};

// Shows it one scope inside a hidden one.
struct Shown {
    Shown() { Hidden::end(); }
    ~Shown() { Hidden::begin(); }
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;
};

// Unwinds a thread out of a kernel that has been given up.
struct Stop {};

struct Warp {
    unsigned index = 0;
    std::uint32_t live = 0;  // lanes that have not returned
};

// What those who meet hand to each other.
struct Exchange {
    std::uint32_t votes = 0;      // lanes with a true predicate (a warp's meeting)
    unsigned agreed = 0;          // threads with a true predicate
    unsigned arrived = 0;         // threads that came
    std::uint64_t values[warp_lanes];
};

struct Meeting {
    static constexpr int pending = 0;
    static constexpr int complete = 1;
    static constexpr int given_up = 2;

    const Warp* warp = nullptr;  // null: the block's
    std::string_view operation;
    std::source_location place;
    std::uint32_t mask = 0;      // lanes called for (a warp's meeting)
    std::uint32_t lanes = 0;     // lanes that came
    Exchange exchange;
    std::atomic<int> state{pending};
    std::atomic<unsigned> inside{0};  // threads that came and have not left
    std::atomic<unsigned> order{0};   // carries happens-before, for ThreadSanitizer to see
};

// One thread's place in its block.
struct Lane {
    unsigned thread;
    unsigned lane;
    Warp* warp;
};

class Team {
  public:
    Team(unsigned threads, std::size_t shared_bytes)
        : threads_(threads),
          shared_bytes_(shared_bytes),
          dynamic_shared_(new unsigned char[shared_bytes]),
          static_shared_(shared_variables()),
          warps_((threads + warp_lanes - 1) / warp_lanes),
          gate_(static_cast<std::ptrdiff_t>(threads), BeginBlock{this}) {}

    // Runs `enter(lane, block)` once for every thread of every block.
    // Returns what the kernel did wrong; empty when nothing.
    // Throws std::system_error where the machine does not grant that many threads.
    template <class Enter>
    std::string run(unsigned long long blocks, const Enter& enter) {
        std::vector<std::thread> members;
        members.reserve(threads_);
        std::exception_ptr refusal;
        try {
            for (unsigned thread = 0; thread < threads_; ++thread) {
                members.emplace_back([this, thread, blocks, &enter] {
                    serve(Lane{thread, thread % warp_lanes, &warps_[thread / warp_lanes]}, blocks,
                          enter);
                });
            }
        } catch (const std::system_error&) {
            refusal = std::current_exception();
            failed_ = true;
            for (std::size_t i = members.size(); i < threads_; ++i) gate_.arrive_and_drop();
        }
        for (std::thread& member : members) member.join();
        if (refusal) std::rethrow_exception(refusal);
        return failure_;
    }

    // Meets all live threads of the block.
    Exchange meet_block(std::string_view operation, bool vote, std::source_location place) {
        Meeting* meeting;
        {
            const Hidden hidden;
            const std::lock_guard hold(lock_);
            stop_if_given_up();
            meeting = find(nullptr, 0, 0);
            if (meeting == nullptr) {
                meeting = open(nullptr, 0, operation, place);
            } else if (meeting->operation != operation || meeting->place.line() != place.line()) {
                give_up(at(place) + std::string(operation) +
                        " is reached by some threads of the block while others wait in " +
                        at(meeting->place) + std::string(meeting->operation) +
                        ": a barrier of the block must not stand in divergent code");
                throw Stop{};
            }
            arrive(*meeting, vote, true);
        }
        return await(*meeting, true);
    }

    // Meets the live lanes of a mask; `ordered` if CUDA orders memory there.
    Exchange meet_warp(const Lane& self, std::string_view operation, std::uint32_t mask,
                       bool ordered, std::uint64_t value, bool vote, std::source_location place) {
        const std::uint32_t bit = std::uint32_t{1} << self.lane;
        Meeting* meeting;
        {
            const Hidden hidden;
            const std::lock_guard hold(lock_);
            stop_if_given_up();
            if ((mask & bit) == 0) {
                give_up(at(place) + std::string(operation) + " is reached by lane " +
                        std::to_string(self.lane) + ", which its mask " + hexadecimal(mask) +
                        " does not name");
                throw Stop{};
            }
            meeting = find(self.warp, mask, bit);
            if (meeting == nullptr) {
                meeting = open(self.warp, mask, operation, place);
            } else if (meeting->operation != operation) {
                give_up(at(place) + std::string(operation) + " is reached by lane " +
                        std::to_string(self.lane) + " while lanes " + hexadecimal(meeting->lanes) +
                        " of the same mask " + hexadecimal(mask) + " wait in " +
                        at(meeting->place) + std::string(meeting->operation));
                throw Stop{};
            }
            meeting->lanes |= bit;
            meeting->exchange.values[self.lane] = value;
            if (vote) meeting->exchange.votes |= bit;
            arrive(*meeting, vote, ordered);
        }
        return await(*meeting, ordered);
    }

    void* dynamic_shared() const { return dynamic_shared_.get(); }

  private:
    struct BeginBlock {
        Team* team;
        void operator()() noexcept { team->begin_block(); }
    };

    template <class Enter>
    void serve(const Lane& self, unsigned long long blocks, const Enter& enter) {
        for (unsigned long long block = 0; block < blocks; ++block) {
            gate_.arrive_and_wait();
            {
                const Hidden hidden;
                if (failed_.load()) return gate_.arrive_and_drop();
            }
            try {
                enter(self, block);
            } catch (const Stop&) {
                // Whoever gave up has said why.
            } catch (const std::exception& error) {
                const Hidden hidden;
                const std::lock_guard hold(lock_);
                give_up(std::string("the kernel threw an exception: ") + error.what());
            }
            leave(self);
        }
    }

    // Run by one thread while all others wait at the gate.
    void begin_block() noexcept {
        live_ = threads_;
        for (unsigned i = 0; i < warps_.size(); ++i) {
            const unsigned lanes = threads_ - i * warp_lanes;
            warps_[i].index = i;
            warps_[i].live =
                lanes >= warp_lanes ? ~std::uint32_t{0} : (std::uint32_t{1} << lanes) - 1;
        }
        poison(dynamic_shared_.get(), shared_bytes_);
        for (const Region& region : static_shared_) poison(region.memory, region.size);
    }

    // A thread returns from the kernel.
    void leave(const Lane& self) {
        const Hidden hidden;
        const std::lock_guard hold(lock_);
        self.warp->live &= ~(std::uint32_t{1} << self.lane);
        --live_;
        if (failed_) return;
        for (std::size_t i = open_.size(); i-- > 0;) {
            if (all_came(*open_[i])) dismiss(*open_[i]);
        }
        give_up_if_stuck();
    }

    // The open meeting of the block (no warp) or of these lanes, if `bit` has yet to come to it.
    Meeting* find(const Warp* warp, std::uint32_t mask, std::uint32_t bit) {
        for (Meeting* meeting : open_) {
            if (meeting->warp == warp && meeting->mask == mask && (meeting->lanes & bit) == 0) {
                return meeting;
            }
        }
        return nullptr;
    }

    Meeting* open(const Warp* warp, std::uint32_t mask, std::string_view operation,
                  std::source_location place) {
        Meeting* meeting = nullptr;
        for (Meeting& candidate : meetings_) {
            if (candidate.state != Meeting::pending && candidate.inside == 0) {
                meeting = &candidate;
                break;
            }
        }
        if (meeting == nullptr) meeting = &meetings_.emplace_back();
        meeting->warp = warp;
        meeting->operation = operation;
        meeting->place = place;
        meeting->mask = mask;
        meeting->lanes = 0;
        meeting->exchange = Exchange{};
        poison(meeting->exchange.values, sizeof meeting->exchange.values);
        meeting->state = Meeting::pending;
        open_.push_back(meeting);
        return meeting;
    }

    void arrive(Meeting& meeting, bool vote, bool ordered) {
        const bool first = meeting.exchange.arrived == 0;
        if (ordered) {
            // The first one stores, which forgets whom an earlier meeting in this place ordered.
            const Shown shown;
            if (first) {
                meeting.order.store(0, std::memory_order_release);
            } else {
                meeting.order.fetch_add(1, std::memory_order_release);
            }
        }
        ++meeting.inside;
        ++meeting.exchange.arrived;
        meeting.exchange.agreed += vote ? 1 : 0;
        ++waiting_;
        if (all_came(meeting)) {
            dismiss(meeting);
        } else {
            give_up_if_stuck();
        }
    }

    Exchange await(Meeting& meeting, bool ordered) {
        Exchange result;
        int state;
        {
            const Hidden hidden;
            meeting.state.wait(Meeting::pending, std::memory_order_acquire);
            state = meeting.state.load(std::memory_order_acquire);
            result = meeting.exchange;
        }
        if (ordered) static_cast<void>(meeting.order.load(std::memory_order_acquire));
        const Hidden hidden;
        --meeting.inside;
        if (state == Meeting::given_up) throw Stop{};
        return result;
    }

    bool all_came(const Meeting& meeting) const {
        return meeting.warp == nullptr
                   ? meeting.exchange.arrived == live_
                   : (meeting.mask & meeting.warp->live & ~meeting.lanes) == 0;
    }

    void dismiss(Meeting& meeting) {
        std::erase(open_, &meeting);
        waiting_ -= meeting.exchange.arrived;
        meeting.state.store(Meeting::complete, std::memory_order_release);
        meeting.state.notify_all();
    }

    void stop_if_given_up() const {
        if (failed_) throw Stop{};
    }

    // Ends the run; the first reason is the one reported.
    void give_up(std::string reason) {
        if (failed_) return;
        failure_ = std::move(reason);
        failed_ = true;
        for (Meeting* meeting : open_) {
            meeting->state.store(Meeting::given_up, std::memory_order_release);
            meeting->state.notify_all();
        }
        open_.clear();
    }

    void give_up_if_stuck() {
        if (live_ == 0 || waiting_ != live_) return;
        std::string reason = "deadlock: every thread waits";
        for (const Meeting* meeting : open_) {
            reason += "\n  " + at(meeting->place) + std::string(meeting->operation);
            if (meeting->warp == nullptr) {
                reason += " has met " + std::to_string(meeting->exchange.arrived) + " of " +
                          std::to_string(live_) + " threads of the block";
            } else {
                reason += " has met lanes " + hexadecimal(meeting->lanes) + " of mask " +
                          hexadecimal(meeting->mask) + " in warp " +
                          std::to_string(meeting->warp->index);
            }
        }
        give_up(std::move(reason));
    }

    static std::string at(const std::source_location& place) {
        const std::string_view path = place.file_name();
        return std::string(path.substr(path.find_last_of('/') + 1)) + ":" +
               std::to_string(place.line()) + ": ";
    }

    static std::string hexadecimal(std::uint32_t mask) {
        char digits[11];
        std::snprintf(digits, sizeof digits, "0x%08x", static_cast<unsigned>(mask));
        return digits;
    }

    const unsigned threads_;
    const std::size_t shared_bytes_;
    const std::unique_ptr<unsigned char[]> dynamic_shared_;  // exact, so that ASan sees its end
    const std::vector<Region> static_shared_;

    std::mutex lock_;              // of everything below
    std::vector<Warp> warps_;
    std::deque<Meeting> meetings_; // every meeting there has been room for, used again
    std::vector<Meeting*> open_;
    unsigned live_ = 0;            // threads that have not returned from the block
    unsigned waiting_ = 0;         // threads inside an open meeting
    std::atomic<bool> failed_{false};
    std::string failure_;

    std::barrier<BeginBlock> gate_;  // between blocks
};

}  // namespace gridgen::emulated
