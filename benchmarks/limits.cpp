// What this machine can do at most: multiply-adds from registers, integer steps, bytes written.
//
// Each loop runs a number of steps and returns a value that depends on all of them.
#include <cstring>

namespace {

#if defined(__AVX512F__)
constexpr int bytes = 64;
#elif defined(__AVX__)
constexpr int bytes = 32;
#else
constexpr int bytes = 16;
#endif

// Enough independent sums to hide the latency of a multiply-add, few enough for the registers.
constexpr int sums = 12;

template <class S> double multiply_add(long steps)
{
    typedef S Pack __attribute__((vector_size(bytes)));
    Pack a[sums], x = Pack{} + S(0.999), y = Pack{} + S(0.001);
    for (int k = 0; k < sums; ++k) a[k] = Pack{} + S(k);
    for (long i = 0; i < steps; ++i)
        for (int k = 0; k < sums; ++k) a[k] = a[k] * x + y;
    Pack total = a[0];
    for (int k = 1; k < sums; ++k) total += a[k];
    double result = 0.0;
    for (int i = 0; i < int(bytes / sizeof(S)); ++i) result += total[i];
    return result;
}

}  // namespace

extern "C" {

// Floating-point operations of one step: a multiply-add is two.
long operations_float32() { return 2 * sums * bytes / 4; }
long operations_float64() { return 2 * sums * bytes / 8; }

double multiply_add_float32(long steps) { return multiply_add<float>(steps); }
double multiply_add_float64(long steps) { return multiply_add<double>(steps); }

// Eight independent chains of integer additions and shifts.
double integer_steps(long steps)
{
    unsigned long a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (long i = 0; i < steps; ++i) {
        for (int k = 0; k < 8; ++k) a[k] += a[k] >> 7;
        asm volatile("" : "+r"(a[0]), "+r"(a[1]), "+r"(a[2]), "+r"(a[3]));
        asm volatile("" : "+r"(a[4]), "+r"(a[5]), "+r"(a[6]), "+r"(a[7]));
    }
    unsigned long total = 0;
    for (int k = 0; k < 8; ++k) total += a[k];
    return double(total);
}

// One chain of multiplications, each waiting for the one before.
double integer_chain(long steps)
{
    unsigned long a = 3;
    for (long i = 0; i < steps; ++i) {
        a = a * 3 + 1;
        asm volatile("" : "+r"(a));
    }
    return double(a);
}

void write_bytes(char* target, long size) { std::memset(target, 1, size); }
}
