// A CPU function that Python calls with NumPy arrays and that parses them itself: for one state, this
// costs less than validating the arguments in the interpreter.
//
// It needs no Python header. Python passes the required data of the interpreter once (Interpreter), and
// the function reads only the public fields at the start of a NumPy array object, which are unchanged
// since NumPy 1.7. It declines uncommon cases, which Python then handles.
#ifndef GRIDGEN_CALL_H
#define GRIDGEN_CALL_H

#include "gridgen_share.h"

namespace gridgen {

struct Interpreter {
    int64 head;              // bytes before an object's own fields
    const void* array_type;  // numpy.ndarray
    const void* dtype;       // the array's element type, one object for all arrays that have it
    void* done;              // returned when the states have been computed
    void* declined;          // returned if Python must handle the call
    void (*own)(void*);      // Py_IncRef
    void* (*make_bytes)(const char*, int64);  // PyBytes_FromStringAndSize
    Kernel one, many;        // code for one state, for any number; null until it is compiled
};

// PyArrayObject_fields, as far as they are read.
struct NumpyArray {
    char* data;
    int axes;
    const int64* shape;
    const int64* strides;
    const void* base;
    const void* dtype;
    int flags;
};

constexpr int numpy_aligned = 0x100, numpy_writeable = 0x400;

// The bytes from the first to the last element of an array.
struct Extent {
    const char* begin;
    const char* end;

    bool meets(const Extent& other) const { return begin < other.end && other.begin < end; }
};

inline Extent extent(const NumpyArray& array, int64 itemsize) {
    Extent all = {array.data, array.data + itemsize};
    for (int i = 0; i < array.axes; ++i) {
        const int64 reach = (array.shape[i] - 1) * array.strides[i];
        (reach < 0 ? all.begin : all.end) += reach;
    }
    return all;
}

// Returns whether the step of each axis exceeds the extent of all axes with smaller steps: then no two
// elements share memory.
inline bool is_spread(const NumpyArray& array, int64 itemsize) {
    const int64* strides = array.strides;
    const auto step = [&](int i) { return strides[i] < 0 ? -strides[i] : strides[i]; };
    for (int i = 0; i < array.axes; ++i) {
        if (array.shape[i] < 2) continue;
        int64 reach = itemsize;
        for (int j = 0; j < array.axes; ++j)
            if (j != i && step(j) <= step(i)) reach += (array.shape[j] - 1) * step(j);
        if (step(i) < reach) return false;
    }
    return true;
}

// Strides of an array for a kernel, or false for another type, shape or layout. A shared array, which is
// any input, may lack the batch axis: all states then read the same numbers.
inline bool read_array(const NumpyArray& array, const Axes& axes, bool shared, bool batched,
                       int64 batch, int64 itemsize, Array& result) {
    const bool has_batch = array.axes == axes.count + 1;
    if (has_batch ? !batched : array.axes != axes.count || (batched && !shared)) return false;
    if (has_batch && array.shape[0] != batch) return false;
    const int64* shape = array.shape + has_batch;
    const int64* strides = array.strides + has_batch;
    for (int i = 0; i < axes.count; ++i)
        if (shape[i] != axes.extent[i]) return false;
    const int64 component = axes.count ? strides[axes.count - 1] : itemsize;
    const int64 batch_stride = has_batch ? array.strides[0] : 0;
    for (int i = 0; i + 1 < axes.count; ++i)
        if (shape[i] > 1 && strides[i] != strides[i + 1] * shape[i + 1]) return false;
    if (component % itemsize || batch_stride % itemsize) return false;
    result = {array.data, batch_stride / itemsize, component / itemsize};
    return true;
}

// Returns whether the quaternions of states [begin, end) have unit norm up to rounding, or are NaN;
// Python normalizes or rejects all others. The limits are those of runtime/configurations.py. `first`:
// elements of q where a quaternion begins, and then -1. The loop is limited by memory, which is fastest
// in sequential order.
template <class S>
bool has_unit_quaternions(const Array& q, const int* first, int64 begin, int64 end) {
    constexpr S limit = sizeof(S) == 4 ? S(1e-6) : S(1e-12);
    int off = 0;
    for (; *first >= 0 && !off; ++first) {
        const S* state = static_cast<const S*>(q.data) + begin * q.batch + *first * q.component;
        for (int64 i = begin; i < end; ++i, state += q.batch) {
            const S x = state[0], y = state[q.component], z = state[2 * q.component];
            const S w = state[3 * q.component], beyond = x * x + y * y + z * z + w * w - S(1);
            off |= (beyond > limit) | (beyond < -limit);
        }
    }
    return !off;
}

// Computes up to `most` states at once; for more, returns the kernel's arguments as bytes, and Python
// validates the quaternions.
template <class S, class F>
void* call(const Interpreter& python, int64 most, void* const* objects, int64 given) {
    constexpr int arrays = array_count<F>, inputs = F::inputs;
    constexpr int64 itemsize = sizeof(S);
    const auto declined = [&] { return python.own(python.declined), python.declined; };
    if (given != arrays) return declined();
    const NumpyArray* array[arrays];
    for (int i = 0; i < arrays; ++i) {
        const char* object = static_cast<const char*>(objects[i]);
        const void* type = *reinterpret_cast<void* const*>(object + python.head - sizeof(void*));
        if (type != python.array_type) return declined();
        array[i] = reinterpret_cast<const NumpyArray*>(object + python.head);
        const int needed = i < inputs ? numpy_aligned : numpy_aligned | numpy_writeable;
        if (array[i]->dtype != python.dtype || (array[i]->flags & needed) != needed) return declined();
    }
    const bool batched = array[0]->axes == F::axes[0].count + 1;
    const int64 batch = batched ? array[0]->shape[0] : 1;
    if (batch == 0) return declined();
    Array strided[arrays];
    for (int i = 0; i < arrays; ++i)
        if (!read_array(*array[i], F::axes[i], i < inputs, batched, batch, itemsize, strided[i]))
            return declined();
    for (int i = inputs; i < arrays; ++i) {
        if (!is_spread(*array[i], itemsize)) return declined();
        for (int j = 0; j < i; ++j)
            if (extent(*array[i], itemsize).meets(extent(*array[j], itemsize))) return declined();
    }
    const Kernel kernel = batch == 1 && python.one ? python.one : python.many;
    if (!kernel) return declined();
    if (batch > most)
        return python.make_bytes(reinterpret_cast<const char*>(strided), int64(sizeof strided));
    for (int i = 0; i < F::configurations; ++i)
        if (!has_unit_quaternions<S>(strided[i], F::quaternions, 0, batch)) return declined();
    kernel(strided, 0, batch, batch);
    python.own(python.done);
    return python.done;
}

}  // namespace gridgen

#endif  // GRIDGEN_CALL_H
