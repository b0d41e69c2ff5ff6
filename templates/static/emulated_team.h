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

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gridgen::emulated {

// The name of a file without its folder.
inline const char* name_of(const char* path) {
    const char* slash = std::strrchr(path, '/');
    return slash == nullptr ? path : slash + 1;
}

// What went wrong; a long message is cut.
class Message {
  public:
    __attribute__((format(printf, 2, 3))) Message& add(const char* format, ...) {
        const std::size_t room = sizeof text_ - length_;
        std::va_list arguments;
        va_start(arguments, format);
        const int length = std::vsnprintf(text_ + length_, room, format, arguments);
        va_end(arguments);
        if (length > 0) length_ += std::size_t(length) < room ? std::size_t(length) : room - 1;
        return *this;
    }

    Message& add(const Place& place) {
        return add("%s:%d: %s", name_of(place.file), place.line, place.operation);
    }

    bool empty() const { return length_ == 0; }
    const char* text() const { return text_; }

  private:
    char text_[1 << 14] = "";
    std::size_t length_ = 0;
};

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
    const char* file = "";
    int line = 0;  // 0: none

    bool operator()(const Place& place) const {
        return line == place.line && std::strcmp(name_of(place.file), file) == 0;
    }
};

class Team {
    static constexpr int most_barriers = 16;

  public:
    Team(unsigned threads, std::size_t shared_bytes, void (*serve)(), LeftOut left_out)
        : shared_bytes_(shared_bytes),
          dynamic_shared_(shared_bytes),
          static_shared_(SharedVariables::of_this_file().count()),
          stacks_(threads),
          left_out_(left_out),
          warps_((threads + warpSize - 1) / warpSize),
          threads_(threads),
          // Each thread is in one, or about to enter one; it may have arrived at others without waiting.
          meetings_(threads + 1 + most_barriers) {
        if (!allocated()) return;
        SharedVariables::of_this_file().each(
            [this](const Region& region) { static_shared_.add(region); });
        for (unsigned i = 0; i < threads + 1 + most_barriers; ++i) link(free_, meetings_.add());
        for (unsigned i = 0; i < threads; ++i) {
            if (i % warpSize == 0) warps_.add(i / warpSize);
            threads_.add(i, warps_[i / warpSize], stacks_.stack(i), serve);
        }
    }

    // Whether the system had memory for the threads.
    bool allocated() const {
        return dynamic_shared_.allocated() && static_shared_.allocated() && stacks_.allocated() &&
               warps_.allocated() && threads_.allocated() && meetings_.allocated();
    }

    // Runs a block: every thread runs `serve` once, with the given argument.
    // Returns the error message of the kernel; empty on success.
    const Message& run_block() {
        poison(dynamic_shared_.begin(), shared_bytes_);
        for (const Region& region : static_shared_) poison(region.memory, region.size);
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
        } else if (differ(meeting->place, place) || meeting->place.line != place.line) {
            failure_.add(place).add(" is reached by some threads of the block while others wait in ");
            failure_.add(meeting->place);
            failure_.add(": a barrier of the block must not stand in divergent code");
            give_up();
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
            failure_.add(place).add(" names barrier %d of %d threads: ", number, threads);
            failure_.add("CUDA has barriers 1 to 15, of whole warps");
            give_up();
        }
        Meeting* found = find(nullptr, 0, 0, number);
        if (found == nullptr) {
            found = &open(nullptr, 0, place);
            found->number = number;
            found->called = static_cast<unsigned>(threads);
        } else if (found->called != static_cast<unsigned>(threads)) {
            failure_.add(place).add(" calls for %d threads while ", threads);
            failure_.add(found->place).add(" has called for %u", found->called);
            give_up();
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

    void* dynamic_shared() const { return dynamic_shared_.begin(); }

    [[noreturn]] void give_up(const char* reason) {
        failure_.add("%s", reason);
        give_up();
    }

  private:
    // Ends the run with a message; all fibers stay suspended.
    [[noreturn]] void give_up() {
        end_.enter();
        self_->fiber.switch_to(outside_);
        std::abort();  // no fiber switches back
    }

    static bool differ(const Place& one, const Place& other) {
        return std::strcmp(one.operation, other.operation) != 0;
    }

    // The meeting of these lanes for the current thread.
    Meeting& join(const Place& place, std::uint32_t mask) {
        const Thread& self = *self_;
        if ((mask & self.bit) == 0) {
            failure_.add(place).add(" is reached by lane %u, ", self.index % warpSize);
            failure_.add("which its mask 0x%08x does not name", mask);
            give_up();
        }
        Meeting* meeting = find(self.warp, mask, self.bit);
        if (meeting == nullptr) {
            meeting = &open(self.warp, mask, place);
        } else if (differ(meeting->place, place)) {
            failure_.add(place).add(" is reached by lane %u while ", self.index % warpSize);
            failure_.add("lanes 0x%08x of the same mask 0x%08x wait in ", meeting->came, mask);
            failure_.add(meeting->place);
            give_up();
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
        failure_.add(live_ ? "deadlock: every thread waits"
                           : "every thread has returned, and barriers are not complete");
        for (const Meeting* meeting = open_; meeting != nullptr; meeting = meeting->next) {
            failure_.add("\n  ").add(meeting->place);
            if (meeting->number) {
                failure_.add(" is reached by %u of %u threads at barrier %d", meeting->votes.arrived,
                             meeting->called, meeting->number);
            } else if (meeting->warp == nullptr) {
                failure_.add(" is reached by %u of %u threads of the block", meeting->votes.arrived,
                             live_);
            } else {
                failure_.add(" is reached by lanes 0x%08x of mask 0x%08x in warp %u", meeting->came,
                             meeting->mask, meeting->warp->index);
            }
        }
        give_up();
    }

    const std::size_t shared_bytes_;
    const Items<unsigned char> dynamic_shared_;  // exact size, so that ASan detects overruns
    Items<Region> static_shared_;
    const Stacks stacks_;
    const LeftOut left_out_;
    Items<Warp> warps_;
    Items<Thread> threads_;

    Fiber outside_;                // of the caller of the launch
    Thread* self_ = nullptr;       // the current thread
    Queue ready_;                  // threads that can run
    Items<Meeting> meetings_;
    Meeting* open_ = nullptr;      // meetings with waiting threads
    Meeting* free_ = nullptr;      // meetings for reuse
    unsigned live_ = 0;            // threads that have not returned from the block
    Message failure_;
    Order begin_, end_;            // of a block
};

}  // namespace gridgen::emulated
