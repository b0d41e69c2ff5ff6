// The threads of an emulated CUDA block: one fiber each, blocks in sequence.
//
// Collectives synchronize threads: all live threads of the block at __syncthreads, a given number of them
// at a numbered barrier, the live lanes of a mask at __syncwarp, a shuffle or a vote. Only numbered
// barriers wait for threads that have returned from the kernel. A thread runs until it has to wait; then
// the thread that has been ready for longest runs. Launches are therefore deterministic.
//
// Memory is ordered for ThreadSanitizer only where CUDA orders it: at barriers and __syncwarp.
// Shuffles and votes carry values but order nothing, as in CUDA.
#pragma once

#include "emulated_fiber.h"
#include "emulated_kernel.h"
#include "emulated_memory.h"

#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gridgen::emulated {

struct Warp {
    unsigned index = 0;
    std::uint32_t live = 0;  // lanes that have not returned
};

struct Thread {
    Thread(unsigned number, Warp& its_warp, unsigned char* stack, void (*run)())
        : index(number),
          bit(std::uint32_t{1} << number % warpSize),
          warp(&its_warp),
          fiber(stack, run) {}

    const unsigned index;
    const std::uint32_t bit;  // of its lane
    Warp* const warp;
    Thread* next = nullptr;  // in its queue
    Fiber fiber;
};

// Threads in order of arrival. Fibers use no container that allocates memory: sanitizers attribute
// allocations to threads.
class Queue {
  public:
    bool empty() const { return first_ == nullptr; }

    void push(Thread& thread) {
        thread.next = nullptr;
        (first_ == nullptr ? first_ : last_->next) = &thread;
        last_ = &thread;
    }

    Thread& pop() {
        Thread& thread = *first_;
        first_ = thread.next;
        return thread;
    }

  private:
    Thread* first_ = nullptr;
    Thread* last_ = nullptr;
};

struct Meeting {
    Meeting* next = nullptr;  // in the list of open or of free ones
    const Warp* warp;         // null for the block's
    int number;               // of a numbered barrier; 0: __syncthreads
    unsigned called;          // number of threads of a numbered barrier
    bool ordered;             // whether an arriving thread wrote data for others
    Place place;
    std::uint32_t mask;       // requested lanes (in a warp)
    std::uint32_t came;       // arrived lanes
    Votes votes;
    unsigned inside = 0;      // threads that arrived and have not left
    Queue waiting;
    Order order;
    std::uint64_t values[warpSize];  // of each lane
};

// The location of a barrier to omit: for tests that a check detects a missing barrier.
struct LeftOut {
    std::string file;
    int line = 0;  // 0: none

    bool operator()(const Place& place) const {
        if (line != place.line) return false;
        const std::string_view path = place.file;
        return path.substr(path.find_last_of('/') + 1) == file;
    }
};

class Team {
    static constexpr int most_barriers = 16;

  public:
    // Throws std::system_error if the system has no memory for the stacks.
    Team(unsigned threads, std::size_t shared_bytes, void (*serve)(), LeftOut left_out)
        : shared_bytes_(shared_bytes),
          dynamic_shared_(new unsigned char[shared_bytes]),
          stacks_(threads),
          left_out_(std::move(left_out)),
          warps_((threads + warpSize - 1) / warpSize),
          // Each thread is in one, or about to enter one; it may have arrived at others without waiting.
          meetings_(threads + 1 + most_barriers) {
        for (Meeting& meeting : meetings_) link(free_, meeting);
        for (unsigned i = 0; i < warps_.size(); ++i) warps_[i].index = i;
        for (unsigned i = 0; i < threads; ++i) {
            threads_.emplace_back(i, warps_[i / warpSize], stacks_.stack(i), serve);
        }
    }

    // Runs a block: every thread runs `serve` once, with the given argument.
    // Returns the error message of the kernel; empty on success.
    std::string run_block() {
        poison(dynamic_shared_.get(), shared_bytes_);
        for (const Region& region : shared_variables()) poison(region.memory, region.size);
        for (Warp& warp : warps_) warp.live = 0;
        begin_.enter_first();
        end_.enter_first();
        live_ = static_cast<unsigned>(threads_.size());
        for (Thread& thread : threads_) {
            thread.warp->live |= thread.bit;
            ready_.push(thread);
        }
        self_ = &ready_.pop();
        threadIdx.x = self_->index;
        outside_.switch_to(self_->fiber);
        end_.leave();
        return failure_;
    }

    // The loop of a thread on its fiber, block after block.
    template <class Run>
    [[noreturn]] void serve(const Run& run) {
        self_->fiber.arrived();
        for (;;) {
            begin_.leave();
            run();
            end_.enter();
            leave();
        }
    }

    // Synchronizes all live threads of the block.
    Votes meet_block(const Place& place, bool vote) {
        if (left_out_(place)) return {};
        Meeting* meeting = find(nullptr, 0, 0);
        if (meeting == nullptr) {
            meeting = &open(nullptr, 0, place);
        } else if (std::string_view(meeting->place.operation) != place.operation ||
                   meeting->place.line != place.line) {
            give_up(at(place) + " is reached by some threads of the block while others wait in " +
                    at(meeting->place) + ": a barrier of the block must not stand in divergent code");
        }
        await(*meeting, vote, true);
        const Votes votes = meeting->votes;
        depart(*meeting);
        return votes;
    }

    // Synchronizes some threads at a numbered barrier. A thread at an omitted barrier is counted, so that
    // the others continue, but it neither waits nor publishes its writes.
    void meet_some(const Place& place, int number, int threads, bool waits) {
        if (number < 1 || number >= most_barriers || threads < warpSize || threads % warpSize) {
            give_up(at(place) + " names barrier " + std::to_string(number) + " of " +
                    std::to_string(threads) + " threads: CUDA has barriers 1 to 15, of whole warps");
        }
        Meeting* found = find(nullptr, 0, 0, number);
        if (found == nullptr) {
            found = &open(nullptr, 0, place);
            found->number = number;
            found->called = static_cast<unsigned>(threads);
        } else if (found->called != static_cast<unsigned>(threads)) {
            give_up(at(place) + " calls for " + std::to_string(threads) + " threads while " +
                    at(found->place) + " has called for " + std::to_string(found->called));
        }
        Meeting& meeting = *found;
        const bool is_left_out = left_out_(place);
        if (!is_left_out) {
            if (meeting.ordered) {
                meeting.order.enter();
            } else {
                meeting.order.enter_first();
            }
            meeting.ordered = true;
        }
        ++meeting.votes.arrived;
        const bool stays = waits && !is_left_out;
        if (stays) ++meeting.inside;
        if (all_came(meeting)) {
            dismiss(meeting);
            if (meeting.inside == 0) link(free_, meeting);
        } else if (stays) {
            meeting.waiting.push(*self_);
            go_on(self_->fiber);
        }
        if (stays) {
            meeting.order.leave();
            depart(meeting);
        }
    }

    // Synchronizes the live lanes of a mask; `ordered` if CUDA orders memory there.
    Votes meet_warp(const Place& place, std::uint32_t mask, bool ordered, bool vote) {
        if (left_out_(place)) return {};
        Meeting& meeting = join(place, mask);
        await(meeting, vote, ordered);
        const Votes votes = meeting.votes;
        depart(meeting);
        return votes;
    }

    // The bits of lane `from`.
    std::uint64_t exchange(const Place& place, std::uint32_t mask, std::uint64_t bits, int from) {
        Meeting& meeting = join(place, mask);
        meeting.values[self_->index % warpSize] = bits;
        await(meeting, false, false);
        const std::uint64_t value = meeting.values[from];
        depart(meeting);
        return value;
    }

    void* dynamic_shared() const { return dynamic_shared_.get(); }

    // Ends the run; all fibers stay suspended.
    [[noreturn]] void give_up(std::string reason) {
        failure_ = std::move(reason);
        end_.enter();
        self_->fiber.switch_to(outside_);
        std::abort();  // no fiber switches back
    }

  private:
    // The meeting of these lanes for the current thread.
    Meeting& join(const Place& place, std::uint32_t mask) {
        const Thread& self = *self_;
        if ((mask & self.bit) == 0) {
            give_up(at(place) + " is reached by lane " + std::to_string(self.index % warpSize) +
                    ", which its mask " + hexadecimal(mask) + " does not name");
        }
        Meeting* meeting = find(self.warp, mask, self.bit);
        if (meeting == nullptr) {
            meeting = &open(self.warp, mask, place);
        } else if (std::string_view(meeting->place.operation) != place.operation) {
            give_up(at(place) + " is reached by lane " + std::to_string(self.index % warpSize) +
                    " while lanes " + hexadecimal(meeting->came) + " of the same mask " +
                    hexadecimal(mask) + " wait in " + at(meeting->place));
        }
        meeting->came |= self.bit;
        return *meeting;
    }

    // The open meeting of the block (no warp), at one of its barriers, or of these lanes, if `bit` has not
    // arrived yet.
    Meeting* find(const Warp* warp, std::uint32_t mask, std::uint32_t bit, int number = 0) {
        for (Meeting* meeting = open_; meeting != nullptr; meeting = meeting->next) {
            if (meeting->warp == warp && meeting->mask == mask && (meeting->came & bit) == 0 &&
                meeting->number == number) {
                return meeting;
            }
        }
        return nullptr;
    }

    Meeting& open(const Warp* warp, std::uint32_t mask, const Place& place) {
        Meeting& meeting = *free_;
        free_ = meeting.next;
        link(open_, meeting);
        meeting.warp = warp;
        meeting.number = 0;
        meeting.ordered = false;
        meeting.place = place;
        meeting.mask = mask;
        meeting.came = 0;
        meeting.votes = {};
        poison(meeting.values, sizeof meeting.values);
        return meeting;
    }

    static void link(Meeting*& first, Meeting& meeting) {
        meeting.next = first;
        first = &meeting;
    }

    // Waits until all have arrived.
    void await(Meeting& meeting, bool vote, bool ordered) {
        Thread& self = *self_;
        if (ordered && meeting.votes.arrived == 0) {
            meeting.order.enter_first();
        } else if (ordered) {
            meeting.order.enter();
        }
        ++meeting.inside;
        ++meeting.votes.arrived;
        if (vote) {
            ++meeting.votes.agreed;
            meeting.votes.lanes |= self.bit;
        }
        if (all_came(meeting)) {
            dismiss(meeting);
        } else {
            meeting.waiting.push(self);
            go_on(self.fiber);
        }
        if (ordered) meeting.order.leave();
    }

    bool all_came(const Meeting& meeting) const {
        if (meeting.number) return meeting.votes.arrived == meeting.called;
        return meeting.warp == nullptr ? meeting.votes.arrived == live_
                                       : (meeting.mask & meeting.warp->live & ~meeting.came) == 0;
    }

    // All have arrived: they are ready, and the meeting is closed.
    void dismiss(Meeting& meeting) {
        Meeting** place = &open_;
        while (*place != &meeting) place = &(*place)->next;
        *place = meeting.next;
        while (!meeting.waiting.empty()) ready_.push(meeting.waiting.pop());
    }

    // The last thread to leave frees the meeting for reuse.
    void depart(Meeting& meeting) {
        if (--meeting.inside == 0) link(free_, meeting);
    }

    // A thread returns from the kernel and continues with the next block.
    void leave() {
        Thread& self = *self_;
        self.warp->live &= ~self.bit;
        --live_;
        for (Meeting* meeting = open_; meeting != nullptr;) {
            Meeting& candidate = *meeting;
            meeting = meeting->next;
            if (all_came(candidate)) dismiss(candidate);
        }
        if (live_ > 0) {
            go_on(self.fiber);
        } else if (open_ != nullptr) {
            give_up_stuck();
        } else {
            self.fiber.switch_to(outside_);
        }
    }

    // Switches to the thread that has been ready for longest.
    void go_on(Fiber& fiber) {
        if (ready_.empty()) give_up_stuck();
        Thread& next = ready_.pop();
        self_ = &next;
        threadIdx.x = next.index;
        fiber.switch_to(next.fiber);
    }

    [[noreturn]] void give_up_stuck() {
        std::string reason = live_ ? "deadlock: every thread waits"
                                   : "every thread has returned, and barriers are not complete";
        for (const Meeting* meeting = open_; meeting != nullptr; meeting = meeting->next) {
            reason += "\n  " + at(meeting->place);
            if (meeting->number) {
                reason += " is reached by " + std::to_string(meeting->votes.arrived) + " of " +
                          std::to_string(meeting->called) + " threads at barrier " +
                          std::to_string(meeting->number);
            } else if (meeting->warp == nullptr) {
                reason += " is reached by " + std::to_string(meeting->votes.arrived) + " of " +
                          std::to_string(live_) + " threads of the block";
            } else {
                reason += " is reached by lanes " + hexadecimal(meeting->came) + " of mask " +
                          hexadecimal(meeting->mask) + " in warp " +
                          std::to_string(meeting->warp->index);
            }
        }
        give_up(std::move(reason));
    }

    static std::string at(const Place& place) {
        const std::string_view path = place.file;
        return std::string(path.substr(path.find_last_of('/') + 1)) + ":" +
               std::to_string(place.line) + ": " + place.operation;
    }

    static std::string hexadecimal(std::uint32_t mask) {
        char digits[11];
        std::snprintf(digits, sizeof digits, "0x%08x", static_cast<unsigned>(mask));
        return digits;
    }

    const std::size_t shared_bytes_;
    const std::unique_ptr<unsigned char[]> dynamic_shared_;  // exact size, so that ASan detects overruns
    const Stacks stacks_;
    const LeftOut left_out_;
    std::vector<Warp> warps_;
    std::deque<Thread> threads_;

    Fiber outside_;                // of the caller of the launch
    Thread* self_ = nullptr;       // the current thread
    Queue ready_;                  // threads that can run
    std::vector<Meeting> meetings_;
    Meeting* open_ = nullptr;      // meetings with waiting threads
    Meeting* free_ = nullptr;      // meetings for reuse
    unsigned live_ = 0;            // threads that have not returned from the block
    std::string failure_;
    Order begin_, end_;            // of a block
};

}  // namespace gridgen::emulated
