// Fibers: threads of control that share one OS thread. Each has its own stack, and runs until it
// switches to another one.
//
// Sanitizers are notified of every switch. ThreadSanitizer treats each fiber as a thread; switches do not
// order memory, so that it detects races between fibers as between threads. An `Order` orders memory.
// This file itself is not compiled with -fsanitize.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(GRIDGEN_THREAD_SANITIZER)
extern "C" {
void* __tsan_get_current_fiber(void);
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_atomic32_store(volatile int* address, int value, int order);
int __tsan_atomic32_fetch_add(volatile int* address, int value, int order);
int __tsan_atomic32_load(const volatile int* address, int order);
}
#elif defined(GRIDGEN_ADDRESS_SANITIZER)
extern "C" {
void __sanitizer_start_switch_fiber(void** save, const void* bottom, std::size_t size);
void __sanitizer_finish_switch_fiber(void* saved, const void** bottom, std::size_t* size);
}
#endif

// gridgen_switch saves the callee-saved registers on the stack of the current fiber, stores that stack's
// pointer in *from, and continues where the stack `to` was suspended.
#if defined(__x86_64__) && !defined(_WIN32)
#define GRIDGEN_SWITCH 1
void gridgen_switch(void** from, void* to) __asm__("gridgen_switch");
__asm__(
    ".text\n"
    "gridgen_switch:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n");
#elif defined(__aarch64__) && !defined(_WIN32)
#define GRIDGEN_SWITCH 1
void gridgen_switch(void** from, void* to) __asm__("gridgen_switch");
__asm__(
    ".text\n"
    ".p2align 2\n"
    "gridgen_switch:\n"
    "    sub sp, sp, #160\n"
    "    stp x19, x20, [sp]\n"
    "    stp x21, x22, [sp, #16]\n"
    "    stp x23, x24, [sp, #32]\n"
    "    stp x25, x26, [sp, #48]\n"
    "    stp x27, x28, [sp, #64]\n"
    "    stp x29, x30, [sp, #80]\n"
    "    stp d8, d9, [sp, #96]\n"
    "    stp d10, d11, [sp, #112]\n"
    "    stp d12, d13, [sp, #128]\n"
    "    stp d14, d15, [sp, #144]\n"
    "    mov x9, sp\n"
    "    str x9, [x0]\n"
    "    mov sp, x1\n"
    "    ldp x19, x20, [sp]\n"
    "    ldp x21, x22, [sp, #16]\n"
    "    ldp x23, x24, [sp, #32]\n"
    "    ldp x25, x26, [sp, #48]\n"
    "    ldp x27, x28, [sp, #64]\n"
    "    ldp x29, x30, [sp, #80]\n"
    "    ldp d8, d9, [sp, #96]\n"
    "    ldp d10, d11, [sp, #112]\n"
    "    ldp d12, d13, [sp, #128]\n"
    "    ldp d14, d15, [sp, #144]\n"
    "    add sp, sp, #160\n"
    "    ret\n");
#else
#include <ucontext.h>  // elsewhere: a hundred times slower because of system calls
#endif

namespace gridgen::emulated {

// Memory for the stacks of several fibers, with a guard page below each. Only used pages are
// committed.
class Stacks {
  public:
    explicit Stacks(std::size_t count)
        : guard_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))), bytes_(count * (guard_ + size)) {
        memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!allocated()) return;
        for (std::size_t i = 0; i < count; ++i) mprotect(stack(i) - guard_, guard_, PROT_NONE);
    }
    ~Stacks() {
        if (allocated()) munmap(memory_, bytes_);
    }
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;

    // Whether the system had memory for them.
    bool allocated() const { return memory_ != MAP_FAILED; }

    // The lowest address of a stack of `size` bytes.
    unsigned char* stack(std::size_t i) const {
        return static_cast<unsigned char*>(memory_) + i * (guard_ + size) + guard_;
    }

    static constexpr std::size_t size = std::size_t{4} << 20;

  private:
    const std::size_t guard_;
    const std::size_t bytes_;
    void* memory_;
};

class Fiber {
  public:
    // The current thread of control.
    Fiber() {
#if defined(GRIDGEN_THREAD_SANITIZER)
        sanitizer_ = __tsan_get_current_fiber();
#endif
    }

    // A fiber that starts with `run`, which must not return, at the first switch to it.
    Fiber(unsigned char* stack, void (*run)()) : stack_(stack) {
#if defined(GRIDGEN_SWITCH)
        // The layout of gridgen_switch: registers, then the return address; `run` has no caller.
        auto* top = reinterpret_cast<void**>(stack + Stacks::size);
#if defined(__x86_64__)
        top[-2] = reinterpret_cast<void*>(run);
        pointer_ = top - 8;
#else
        pointer_ = top - 20;
        static_cast<void**>(pointer_)[11] = reinterpret_cast<void*>(run);
#endif
#else
        getcontext(&context_);
        context_.uc_stack.ss_sp = stack;
        context_.uc_stack.ss_size = Stacks::size;
        makecontext(&context_, run, 0);
#endif
#if defined(GRIDGEN_THREAD_SANITIZER)
        sanitizer_ = __tsan_create_fiber(0);
#endif
    }

#if defined(GRIDGEN_THREAD_SANITIZER)
    ~Fiber() {
        if (stack_ != nullptr) __tsan_destroy_fiber(sanitizer_);
    }
#endif
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Switches from this fiber, the current one, to another; returns at the next switch to this one.
    void switch_to(Fiber& other) {
#if defined(GRIDGEN_THREAD_SANITIZER)
        constexpr unsigned no_order = 1;
        __tsan_switch_to_fiber(other.sanitizer_, no_order);
#elif defined(GRIDGEN_ADDRESS_SANITIZER)
        other.previous_ = this;
        __sanitizer_start_switch_fiber(&sanitizer_, other.stack_, other.size_);
#endif
#if defined(GRIDGEN_SWITCH)
        gridgen_switch(&pointer_, other.pointer_);
#else
        swapcontext(&context_, &other.context_);
#endif
        arrived();
    }

    // The first call of a new fiber.
    void arrived() {
#if defined(GRIDGEN_ADDRESS_SANITIZER)
        const void* bottom;
        std::size_t size;
        __sanitizer_finish_switch_fiber(sanitizer_, &bottom, &size);
        // The only way to obtain the stack of the OS thread.
        if (previous_->stack_ == nullptr) {
            previous_->stack_ = static_cast<unsigned char*>(const_cast<void*>(bottom));
            previous_->size_ = size;
        }
#endif
    }

  private:
    unsigned char* stack_ = nullptr;
#if defined(GRIDGEN_SWITCH)
    void* pointer_ = nullptr;
#else
    ucontext_t context_{};
#endif
#if defined(GRIDGEN_THREAD_SANITIZER) || defined(GRIDGEN_ADDRESS_SANITIZER)
    void* sanitizer_ = nullptr;
#endif
#if defined(GRIDGEN_ADDRESS_SANITIZER)
    std::size_t size_ = Stacks::size;
    Fiber* previous_ = nullptr;
#endif
};

// An order of memory between fibers for ThreadSanitizer: a fiber that leaves is ordered after all fibers
// that entered since the last one that entered first.
class Order {
  public:
    // A store discards the order of earlier uses of this word; an addition does not.
    void enter_first() {
#if defined(GRIDGEN_THREAD_SANITIZER)
        __tsan_atomic32_store(&word_, 0, __ATOMIC_RELEASE);
#endif
    }

    void enter() {
#if defined(GRIDGEN_THREAD_SANITIZER)
        __tsan_atomic32_fetch_add(&word_, 1, __ATOMIC_RELEASE);
#endif
    }

    void leave() {
#if defined(GRIDGEN_THREAD_SANITIZER)
        static_cast<void>(__tsan_atomic32_load(&word_, __ATOMIC_ACQUIRE));
#endif
    }

#if defined(GRIDGEN_THREAD_SANITIZER)
  private:
    int word_ = 0;
#endif
};

}  // namespace gridgen::emulated
