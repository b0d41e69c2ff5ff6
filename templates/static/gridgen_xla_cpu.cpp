// The XLA handler of the functions of the cpu backend. XLA's own threads share a batch, without entering
// Python.
#include <float.h>
#include <math.h>
#include <time.h>

#include "gridgen_xla.h"

#define GRIDGEN_EXPORT extern "C" __attribute__((visibility("default")))

namespace gridgen {

// As in gridgen_share.h.
struct Share {
    int64 next;
    int64 end;
    int64 part;
    int64 left;
    int64 off;
};

using Entry = void (*)(const Array*, int64, int64, int64);
using TakeParts = void (*)(const Array*, Share*, int64);
using Close = void (*)(Share*);
using Check = int (*)(const Array*, int64, int64);

// A function for calls by XLA; filled in by Python (frameworks/jax/cpu.py).
struct Kernel {
    Kernel* next;
    int64 number;
    Entry entry;
    TakeParts take_parts;
    Close close;
    Check has_unit_quaternions;
    const char* robot;
    const int64* numbers;      // per state, for each array
    const int64* quaternions;  // elements of a configuration where one begins, and then -1
    int64 inputs;
    int64 arrays;
    int64 configurations;  // number of inputs, the first ones, that are configurations
    int64 is_double;
    int64 most_threads;
    int64 block;       // batches are divided at multiples of this number of states
    double share;      // the least work for another thread [s]
    double tolerance;  // for the norm of a quaternion
    double per_state;  // seconds; 0 until measured
    int64 params;      // the input with rows of inertias to validate; -1 if none
    int64 rows;        // of a state
    const double* own_rows;  // those of the file, which are always valid
    const char* const* links;
    double row_tolerance;
    double row_left;
    int64 world;    // the inputs with obstacles and with a height field; -1 if none
    int64 terrain;
};

namespace {

Table<Kernel> kernels;

constexpr int64 parts_of_a_thread = 16;

int64 least(int64 a, int64 b) { return a < b ? a : b; }

double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// A batch that threads share. The last owner frees it: a late thread finds no part
// left.
struct Work {
    Kernel* kernel;
    Arrays arrays;
    Share share;
    int64 holders;
};

void let_go(Work* work) {
    if (__atomic_sub_fetch(&work->holders, 1, __ATOMIC_ACQ_REL) == 0) free(work);
}

void help(void* data) {
    Work* work = static_cast<Work*>(data);
    work->kernel->take_parts(work->arrays.array, &work->share, work->arrays.states);
    let_go(work);
}

int64 pool_threads(const XLA_FFI_CallFrame* frame) {
    int64_t threads = 1;
    XLA_FFI_ThreadPool_NumThreads_Args args = {};
    args.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    args.num_threads = &threads;
    return dropped(frame, frame->api->XLA_FFI_ThreadPool_NumThreads(&args)) ? 1 : int64(threads);
}

bool is_helped(const XLA_FFI_CallFrame* frame, Work* work) {
    XLA_FFI_ThreadPool_Schedule_Args args = {};
    args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    args.task = help;
    args.data = work;
    return !dropped(frame, frame->api->XLA_FFI_ThreadPool_Schedule(&args));
}

// Computes states from `begin` on with other threads.
bool divide(const XLA_FFI_CallFrame* frame, Kernel* kernel, const Arrays& arrays, int64 begin,
            int64 threads) {
    Work* work = static_cast<Work*>(malloc(sizeof(Work)));
    if (!work) return false;
    const int64 states = arrays.states - begin, block = kernel->block;
    const int64 blocks = states / (threads * parts_of_a_thread * block);
    *work = {kernel, arrays, {begin, arrays.states, block * (blocks < 1 ? 1 : blocks), states, 0},
             threads};
    for (int64 i = 1; i < threads; ++i)
        if (!is_helped(frame, work)) let_go(work);
    kernel->take_parts(work->arrays.array, &work->share, arrays.states);
    kernel->close(&work->share);
    let_go(work);
    return true;
}

// As CpuKernel for callers in Python (backends/cpu/backend.py).
void compute(const XLA_FFI_CallFrame* frame, Kernel* kernel, const Arrays& arrays) {
    const int64 batch = arrays.states, block = kernel->block;
    if (batch <= block || kernel->most_threads < 2) {
        kernel->entry(arrays.array, 0, batch, batch);
        return;
    }
    int64 begin = 0;
    double per_state;
    __atomic_load(&kernel->per_state, &per_state, __ATOMIC_RELAXED);
    if (per_state == 0) {  // not measured yet: the first block is the measurement
        const double start = seconds();
        kernel->entry(arrays.array, 0, block, batch);
        per_state = (seconds() - start) / double(block);
        begin = block;
    }
    const int64 worth = int64(double(batch - begin) * per_state / kernel->share);
    const int64 blocks = (batch - begin + block - 1) / block;
    int64 threads = least(least(kernel->most_threads, worth), blocks);
    if (threads > 1) threads = least(threads, pool_threads(frame));
    const double start = seconds();
    if (threads < 2 || !divide(frame, kernel, arrays, begin, threads)) {
        threads = 1;
        kernel->entry(arrays.array, begin, batch, batch);
    }
    // The shortest time so far: disturbances only lengthen a measurement.
    const double now = (seconds() - start) * double(threads) / double(batch - begin);
    if (now < per_state) per_state = now;
    __atomic_store(&kernel->per_state, &per_state, __ATOMIC_RELAXED);
}

// The smallest eigenvalue of a symmetric matrix: diagonal a, b, c; d, e, f are xy, xz, yz.
double smallest(double a, double b, double c, double d, double e, double f) {
    const double mean = (a + b + c) / 3, x = a - mean, y = b - mean, z = c - mean;
    const double p = sqrt((x * x + y * y + z * z + 2 * (d * d + e * e + f * f)) / 6);
    if (p == 0) return mean;
    const double det = x * (y * z - f * f) - d * (d * z - f * e) + e * (d * f - y * e);
    const double r = fmin(fmax(det / (2 * p * p * p), -1), 1);
    return mean + 2 * p * cos((acos(r) + 2 * acos(-1.0)) / 3);
}

// Returns whether a row of mass and inertia is physical, as `impossible` of runtime/parameters.py.
template <class S> bool is_possible(const Kernel* kernel, const S* row) {
    for (int i = 0; i < 10; ++i)
        if (!isfinite(row[i])) return false;
    const double m = row[0], h0 = row[1], h1 = row[2], h2 = row[3], share = m > 0 ? 1 / m : 0;
    const double half = (double(row[4]) + double(row[6]) + double(row[9])) / 2;
    const double around[3] = {half - row[4], half - row[6], half - row[9]};
    const double a = around[0] - share * h0 * h0, b = around[1] - share * h1 * h1;
    const double c = around[2] - share * h2 * h2, d = -double(row[5]) - share * h0 * h1;
    const double e = -double(row[7]) - share * h0 * h2, f = -double(row[8]) - share * h1 * h2;
    const double second = b - d * d / a, left = f - d * e / a;
    const double third = c - e * e / a - left * left / second;
    if (m > 0 && a > 0 && second > 0 && third > 0 && isfinite(third)) return true;
    if (m < 0 || (m == 0 && (h0 != 0 || h1 != 0 || h2 != 0)) || !isfinite(a + b + c)) return false;
    const double size = fmax(fabs(a), fmax(fabs(b), fabs(c)));
    const double about = fmax(fabs(around[0]), fmax(fabs(around[1]), fabs(around[2])));
    const double eps = sizeof(S) == 4 ? double(FLT_EPSILON) : DBL_EPSILON;
    const double slack = kernel->row_tolerance * size + kernel->row_left * eps * about;
    return smallest(a, b, c, d, e, f) >= -slack;
}

// Returns the error of the first row that is neither physical nor the file's.
template <class S>
XLA_FFI_Error* check_rows(const XLA_FFI_CallFrame* frame, const Kernel* kernel,
                          const Arrays& arrays) {
    const Array& array = arrays.array[kernel->params];
    const S* row = static_cast<const S*>(array.data);
    const int64 states = array.batch ? arrays.states : 1;
    for (int64 state = 0; state < states; ++state) {
        for (int64 i = 0; i < kernel->rows; ++i, row += 10) {
            if (is_possible(kernel, row)) continue;
            bool is_own = true;
            for (int k = 0; k < 10; ++k) is_own &= S(kernel->own_rows[10 * i + k]) == row[k];
            if (is_own) continue;
            char text[600];
            snprintf(text, sizeof text,
                     "params: state %lld: row %lld (link %s of %s): no body has this mass and "
                     "inertia: m = %.6g; robot.check_parameters(params) shows why, "
                     "gridgen.inertia() and gridgen.inertia_from_log_cholesky() make rows, "
                     "check_parameters=False of gridgen.load() leaves out the check",
                     state, i, kernel->links[i], kernel->robot, double(row[0]));
            return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
        }
    }
    return nullptr;
}

template <class S> bool is_count(S x) { return x >= 0 && x == floor(x); }

// Returns the length of an array with the first numbers of a world, negative for those of none, as
// `has_layout` of functions/worlds.py.
template <class S> double world_length(const S* head) {
    for (int i = 0; i < 8; ++i)
        if (!is_count(head[i])) return -1;
    const double points = double(head[4]) * double(head[5]) * double(head[6]);
    const bool has_grid = head[4] != 0 || head[5] != 0 || head[6] != 0;
    const double solids = 4 * (double(head[0]) + double(head[3])) + 7 * double(head[1]) +
                          10 * double(head[2]);
    return 8 + solids + (has_grid ? 4 + points : 0);
}

template <class S> double terrain_length(const S* head) {
    bool is_valid = is_count(head[0]) && is_count(head[1]) && head[0] >= 2 && head[1] >= 2 &&
                    head[4] > 0 && head[5] > 0;
    for (int i = 0; i < 6; ++i) is_valid = is_valid && isfinite(head[i]);
    return is_valid ? 6 + double(head[0]) * double(head[1]) : -1;
}

// Returns the error of an array whose first numbers do not fit its length: a kernel would read beyond
// its end. All states have the same first numbers.
template <class S, class F>
XLA_FFI_Error* check_layout(const XLA_FFI_CallFrame* frame, int64 input, const Arrays& arrays,
                            int size, const char* name, const F& length_of) {
    if (input < 0) return nullptr;
    const auto buffer = static_cast<const XLA_FFI_Buffer*>(frame->args.args[input]);
    const int64 length = buffer->rank ? buffer->dims[buffer->rank - 1] : 0;
    const S* head = static_cast<const S*>(arrays.array[input].data);
    const int64 batch = arrays.array[input].batch, states = batch ? arrays.states : 1;
    bool fits = length >= size && length_of(head) == double(length);
    for (int64 state = 1; fits && state < states; ++state)
        for (int i = 0; i < size; ++i) fits = fits && head[state * batch + i] == head[i];
    if (fits) return nullptr;
    char text[200];
    snprintf(text, sizeof text,
             "%s has %lld numbers, which its first ones do not fit; make it by gridgen.%s()", name,
             length, name);
    return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
}

template <class S>
XLA_FFI_Error* check_obstacles(const XLA_FFI_CallFrame* frame, const Kernel* kernel,
                               const Arrays& arrays) {
    const auto of_world = [](const S* head) { return world_length(head); };
    const auto of_terrain = [](const S* head) { return terrain_length(head); };
    if (XLA_FFI_Error* found = check_layout<S>(frame, kernel->world, arrays, 8, "world", of_world))
        return found;
    return check_layout<S>(frame, kernel->terrain, arrays, 6, "terrain", of_terrain);
}

// Normalizes the quaternions of a copy, or returns the error of one that is too far off.
template <class S>
XLA_FFI_Error* normalize(const XLA_FFI_CallFrame* frame, const Kernel* kernel, int input, S* q,
                         int64 states) {
    for (int64 state = 0; state < states; ++state, q += kernel->numbers[input]) {
        for (const int64* first = kernel->quaternions; *first >= 0; ++first) {
            S* turn = q + *first;
            double square = 0;
            for (int k = 0; k < 4; ++k) square += double(turn[k]) * double(turn[k]);
            const double norm = sqrt(square);
            if (!isfinite(norm)) continue;  // propagates to the results, as in any other coordinate
            if (!(fabs(norm - 1) <= kernel->tolerance)) {
                char text[400];
                snprintf(text, sizeof text,
                         "%s: state %lld: a quaternion has norm %.6g, which is not within %g of 1; "
                         "its order is (x, y, z, w), at [%lld:%lld] of argument %d: divide it by its "
                         "norm if that is what is meant",
                         kernel->robot, state, norm, kernel->tolerance, (long long)*first,
                         (long long)*first + 4, input + 1);
                return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, text);
            }
            if (fabs(square - 1) > (sizeof(S) == 4 ? 1e-6 : 1e-12))
                for (int k = 0; k < 4; ++k) turn[k] = S(double(turn[k]) / norm);
        }
    }
    return nullptr;
}

// Computes with copies of the configurations whose quaternions are not of unit norm.
XLA_FFI_Error* compute_normalized(const XLA_FFI_CallFrame* frame, Kernel* kernel, Arrays& arrays) {
    const int64 itemsize = kernel->is_double ? 8 : 4;
    void* copies[most_arrays] = {};
    XLA_FFI_Error* found = nullptr;
    for (int i = 0; i < kernel->configurations && !found; ++i) {
        Array& array = arrays.array[i];
        const int64 states = array.batch ? arrays.states : 1;
        const int64 bytes = states * kernel->numbers[i] * itemsize;
        copies[i] = malloc(size_t(bytes));
        if (!copies[i]) {
            found = error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory for a copy of q");
            break;
        }
        __builtin_memcpy(copies[i], array.data, size_t(bytes));
        array.data = copies[i];
        found = kernel->is_double
                    ? normalize(frame, kernel, i, static_cast<double*>(copies[i]), states)
                    : normalize(frame, kernel, i, static_cast<float*>(copies[i]), states);
    }
    if (!found) compute(frame, kernel, arrays);
    for (int i = 0; i < kernel->configurations; ++i) free(copies[i]);
    return found;
}

}  // namespace
}  // namespace gridgen

GRIDGEN_EXPORT void gridgen_add(gridgen::Kernel* kernel) { gridgen::kernels.add(kernel); }

GRIDGEN_EXPORT XLA_FFI_Error* gridgen_call(XLA_FFI_CallFrame* frame) {
    using namespace gridgen;
    if (tells_version(frame, 0)) return nullptr;
    Kernel* kernel = kernels.find(kernel_number(frame));
    if (!kernel) return error(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION, unknown_kernel);
    Arrays arrays;
    if (const char* wrong = read_arrays(frame, kernel->numbers, int(kernel->inputs),
                                        int(kernel->arrays), arrays))
        return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, wrong);
    if (!arrays.states) return nullptr;
    if (kernel->params >= 0) {
        XLA_FFI_Error* found = kernel->is_double ? check_rows<double>(frame, kernel, arrays)
                                                 : check_rows<float>(frame, kernel, arrays);
        if (found) return found;
    }
    if (XLA_FFI_Error* found = kernel->is_double ? check_obstacles<double>(frame, kernel, arrays)
                                                 : check_obstacles<float>(frame, kernel, arrays))
        return found;
    if (!kernel->has_unit_quaternions(arrays.array, 0, arrays.states))
        return compute_normalized(frame, kernel, arrays);
    compute(frame, kernel, arrays);
    return nullptr;
}
