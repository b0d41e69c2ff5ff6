// Code shared by the handlers of XLA's foreign functions: the kernels by number, and the parsing of
// calls.
//
// XLA passes buffers in C order, each with its own shape. Each state of an array has a fixed number of
// elements; all states of the batch share an array with the size of a single state.
#ifndef GRIDGEN_XLA_H
#define GRIDGEN_XLA_H

#include <stdio.h>
#include <stdlib.h>

#include "xla_ffi_c_api.h"

namespace gridgen {

using int64 = long long;

// One array of a call: address, and strides in elements.
struct Array {
    void* data;
    int64 batch;
    int64 component;
};

constexpr int most_arrays = 48;

// The arrays of a call, inputs first, and the number of its states.
struct Arrays {
    Array array[most_arrays];
    int64 states;
};

inline XLA_FFI_Error* error(const XLA_FFI_CallFrame* frame, XLA_FFI_Error_Code code,
                            const char* message) {
    XLA_FFI_Error_Create_Args args = {};
    args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
    args.message = message;
    args.errc = code;
    return frame->api->XLA_FFI_Error_Create(&args);
}

// Frees the error of a function whose result is not used.
inline bool dropped(const XLA_FFI_CallFrame* frame, XLA_FFI_Error* found) {
    if (!found) return false;
    XLA_FFI_Error_Destroy_Args args = {};
    args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
    args.error = found;
    frame->api->XLA_FFI_Error_Destroy(&args);
    return true;
}

// Answers XLA's query for the interface version of a handler.
inline bool tells_version(XLA_FFI_CallFrame* frame, XLA_FFI_Handler_Traits traits) {
    XLA_FFI_Extension_Base* extension = frame->extension_start;
    if (!extension || extension->type != XLA_FFI_Extension_Metadata) return false;
    XLA_FFI_Metadata* told = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    told->api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                         XLA_FFI_API_MINOR};
    told->traits = traits;
    return true;
}

// The kernel number of a call: its only attribute.
inline int64 kernel_number(const XLA_FFI_CallFrame* frame) {
    if (frame->attrs.size != 1 || frame->attrs.types[0] != XLA_FFI_AttrType_SCALAR) return 0;
    const auto scalar = static_cast<const XLA_FFI_Scalar*>(frame->attrs.attrs[0]);
    return scalar->dtype == XLA_FFI_DataType_S64 ? *static_cast<const int64*>(scalar->value) : 0;
}

inline int64 count(const XLA_FFI_Buffer* buffer) {
    int64 numbers = 1;
    for (int64 i = 0; i < buffer->rank; ++i) numbers *= buffer->dims[i];
    return numbers;
}

// Parses the arrays of a call. `numbers`: per state, for each array; negative
// for a row of any length. Returns an error for other shapes.
inline const char* read_arrays(const XLA_FFI_CallFrame* frame, const int64* numbers, int inputs,
                               int arrays, Arrays& found) {
    if (frame->args.size != inputs || frame->rets.size != arrays - inputs)
        return "the number of arrays differs from the kernel's";
    const auto buffer = [&](int i) {
        return static_cast<const XLA_FFI_Buffer*>(i < inputs ? frame->args.args[i]
                                                             : frame->rets.rets[i - inputs]);
    };
    found.states = 0;
    for (int i = inputs; i < arrays; ++i)
        if (numbers[i]) found.states = count(buffer(i)) / numbers[i];
    for (int i = 0; i < arrays; ++i) {
        const int64 there = count(buffer(i)), rank = buffer(i)->rank;
        const bool is_open = numbers[i] < 0 && rank > 0;
        const int64 own = is_open ? buffer(i)->dims[rank - 1] : numbers[i];
        const bool is_batch = there == found.states * own && (!is_open || rank > 1);
        if (!is_batch && (i >= inputs || there != own))
            return "the shape of an array differs from the kernel's";
        found.array[i] = {buffer(i)->data, is_batch ? own : 0, 1};
    }
    return nullptr;
}

// The kernels of a process by number. Kernels are added concurrently with calls, and never removed.
template <class Kernel> struct Table {
    Kernel* first = nullptr;

    void add(Kernel* kernel) {
        kernel->next = __atomic_load_n(&first, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&first, &kernel->next, kernel, false, __ATOMIC_RELEASE,
                                            __ATOMIC_RELAXED)) {
        }
    }

    Kernel* find(int64 number) const {
        Kernel* kernel = __atomic_load_n(&first, __ATOMIC_ACQUIRE);
        while (kernel && kernel->number != number) kernel = kernel->next;
        return kernel;
    }
};

constexpr const char* unknown_kernel =
    "this program calls a robot's function that this process has not traced: trace it here first";

}  // namespace gridgen

#endif  // GRIDGEN_XLA_H
