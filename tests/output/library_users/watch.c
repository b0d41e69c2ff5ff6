// Counts what a call allocates, frees and locks: preloaded, it stands before the C library.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t), __libc_free(void *);

static __thread int is_watched, found;

void *malloc(size_t size) { return found += is_watched, __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return found += is_watched, __libc_calloc(count, size); }
void *realloc(void *memory, size_t size) { return found += is_watched, __libc_realloc(memory, size); }
void *aligned_alloc(size_t to, size_t size) { return found += is_watched, __libc_memalign(to, size); }
void free(void *memory) { found += is_watched, __libc_free(memory); }

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    static int (*lock)(pthread_mutex_t *);
    found += is_watched;
    if (!lock) lock = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
    return lock(mutex);
}

typedef int Function(const void *, long long, long long, long long);

// Calls a function for `end` states; returns its status, and writes what it did.
int watched(Function *function, const void *arrays, long long end, int *did)
{
    found = 0;
    is_watched = 1;
    const int status = function(arrays, 0, end, end);
    is_watched = 0;
    *did = found;
    return status;
}

static struct {
    Function *function;
    const void *arrays;
    long long end;
} call;

static void *run(void *is_called)
{
    if (is_called) call.function(call.arrays, 0, call.end, call.end);
    return NULL;
}

// Returns the bytes of a thread's stack of 128 kB that have been written.
static long written(void *is_called)
{
    static char stack[128 << 10] __attribute__((aligned(4096)));
    memset(stack, 0x5a, sizeof stack);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, sizeof stack);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, run, is_called)) return -1;
    pthread_join(thread, NULL);
    long untouched = 0;
    while (untouched < (long)sizeof stack && stack[untouched] == 0x5a) ++untouched;
    return (long)sizeof stack - untouched;
}

// Returns the stack that a function takes on a thread.
long stack_of(Function *function, const void *arrays, long long end)
{
    call.function = function;
    call.arrays = arrays;
    call.end = end;
    return written(&call) - written(NULL);
}
