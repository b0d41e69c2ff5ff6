// The XLA handler of the kernels of the cuda backend. It launches kernels compiled by NVRTC on XLA's
// stream through the driver API, whose functions Python passes (frameworks/jax/cuda.py).
#include "gridgen_xla.h"

#define GRIDGEN_EXPORT extern "C" __attribute__((visibility("default")))

namespace gridgen {

using Status = int;  // CUresult; 0 is success
using Handle = void*;

struct Driver {
    Status (*get_context)(Handle*);
    Status (*load)(Handle* module, const void* image);
    Status (*find)(Handle* function, Handle module, const char* name);
    Status (*set_attribute)(Handle function, int attribute, int value);
    Status (*launch)(Handle function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     unsigned shared, Handle stream, void** parameters, void** extra);
    Status (*name)(Status, const char**);
};

// A kernel on the devices on which it is loaded: one for each context.
struct Loaded {
    Loaded* next;
    Handle context;
    Handle function;
};

// A kernel for calls by XLA; filled in by Python.
struct Kernel {
    Kernel* next;
    int64 number;
    const Driver* driver;
    const void* image;
    const char* entry;
    int64 shared;  // most dynamic shared memory per block; 0: the default limit
    Loaded* loaded;
    char is_loading;
};

namespace {

Table<Kernel> kernels;

constexpr int max_dynamic_shared = 8;                              // CU_FUNC_ATTRIBUTE_...
constexpr int64 buffer_pointer = 1, buffer_size = 2, end_of_extra = 0;  // CU_LAUNCH_PARAM_...

XLA_FFI_Error* refused(const XLA_FFI_CallFrame* frame, const Kernel* kernel, const char* what,
                       Status status) {
    const char* name = nullptr;
    char text[300];
    if (kernel->driver->name(status, &name) || !name) name = "an unknown error";
    snprintf(text, sizeof text, "%s: the driver cannot %s: %s (%d)", kernel->entry, what, name,
             status);
    return error(frame, XLA_FFI_Error_Code_INTERNAL, text);
}

// Returns a kernel in the current context, and loads it if necessary.
XLA_FFI_Error* load(const XLA_FFI_CallFrame* frame, Kernel* kernel, Handle& function) {
    const Driver& driver = *kernel->driver;
    Handle context = nullptr, module = nullptr;
    if (const Status status = driver.get_context(&context))
        return refused(frame, kernel, "return the current context", status);
    for (;;) {
        for (Loaded* one = __atomic_load_n(&kernel->loaded, __ATOMIC_ACQUIRE); one; one = one->next)
            if (one->context == context) return function = one->function, nullptr;
        if (!__atomic_test_and_set(&kernel->is_loading, __ATOMIC_ACQUIRE)) break;
    }
    XLA_FFI_Error* found = nullptr;
    Status status = driver.load(&module, kernel->image);
    if (status) found = refused(frame, kernel, "load the kernel", status);
    if (!found && (status = driver.find(&function, module, kernel->entry)))
        found = refused(frame, kernel, "find the kernel", status);
    if (!found && kernel->shared &&
        (status = driver.set_attribute(function, max_dynamic_shared, int(kernel->shared))))
        found = refused(frame, kernel, "set its shared memory", status);
    Loaded* one = found ? nullptr : static_cast<Loaded*>(malloc(sizeof(Loaded)));
    if (one) {
        *one = {kernel->loaded, context, function};
        __atomic_store_n(&kernel->loaded, one, __ATOMIC_RELEASE);
    } else if (!found) {
        found = error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "no memory for a kernel");
    }
    __atomic_clear(&kernel->is_loading, __ATOMIC_RELEASE);
    return found;
}

// The attributes of a call, sorted by name as in XLA: kernel, launch (states, most of a launch, of a block;
// threads of a block, its shared memory), strides (of states and of components, for each array). Launches
// of some of the states share scratch memory, the last array.
struct Call {
    int64 kernel;
    const int64* launch;
    const int64* strides;
    int64 arrays;
};

bool read_call(const XLA_FFI_CallFrame* frame, Call& call) {
    const XLA_FFI_Attrs& attrs = frame->attrs;
    if (attrs.size != 3 || attrs.types[0] != XLA_FFI_AttrType_SCALAR) return false;
    const auto array = [&](int i) { return static_cast<const XLA_FFI_Array*>(attrs.attrs[i]); };
    for (int i = 1; i < 3; ++i)
        if (attrs.types[i] != XLA_FFI_AttrType_ARRAY || array(i)->dtype != XLA_FFI_DataType_S64)
            return false;
    const auto number = static_cast<const XLA_FFI_Scalar*>(attrs.attrs[0]);
    call = {*static_cast<const int64*>(number->value), static_cast<const int64*>(array(1)->data),
            static_cast<const int64*>(array(2)->data), frame->args.size + frame->rets.size};
    return array(1)->size == 5 && int64(array(2)->size) == 2 * call.arrays &&
           call.arrays <= most_arrays;
}

}  // namespace
}  // namespace gridgen

GRIDGEN_EXPORT void gridgen_add(gridgen::Kernel* kernel) { gridgen::kernels.add(kernel); }

GRIDGEN_EXPORT XLA_FFI_Error* gridgen_call(XLA_FFI_CallFrame* frame) {
    using namespace gridgen;
    if (tells_version(frame, 0)) return nullptr;
    Call call;
    if (!read_call(frame, call))
        return error(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT, "the attributes are of another version");
    Kernel* kernel = kernels.find(call.kernel);
    if (!kernel) return error(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION, unknown_kernel);
    Handle function = nullptr;
    if (XLA_FFI_Error* found = load(frame, kernel, function)) return found;
    XLA_FFI_Stream_Get_Args stream = {};
    stream.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
    stream.ctx = frame->ctx;
    if (XLA_FFI_Error* found = frame->api->XLA_FFI_Stream_Get(&stream)) return found;

    struct {
        Array array[most_arrays];
        int64 room;
    } parameters;
    for (int64 i = 0; i < call.arrays; ++i) {
        const int64 inputs = frame->args.size;
        void* const buffer = i < inputs ? frame->args.args[i] : frame->rets.rets[i - inputs];
        parameters.array[i] = {static_cast<XLA_FFI_Buffer*>(buffer)->data, call.strides[2 * i],
                               call.strides[2 * i + 1]};
    }
    const auto words = reinterpret_cast<int64*>(&parameters);
    size_t size = size_t(8 * (3 * call.arrays + 1));
    void* extra[] = {(void*)buffer_pointer, &parameters, (void*)buffer_size, &size,
                     (void*)end_of_extra};
    const bool is_double = static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0])->dtype == XLA_FFI_DataType_F64;
    const int64 itemsize = is_double ? 8 : 4;
    const int64 states = call.launch[0], most = call.launch[1], of_block = call.launch[2];
    const auto word = [&](int i) { return unsigned(call.launch[i]); };
    for (int64 begin = 0; begin < states; begin += most) {
        const int64 count = states - begin < most ? states - begin : most;
        words[3 * call.arrays] = count;
        if (const Status status = kernel->driver->launch(
                function, unsigned((count + of_block - 1) / of_block), 1, 1, word(3), 1, 1, word(4),
                stream.stream, nullptr, extra))
            return refused(frame, kernel, "launch the kernel", status);
        for (int64 i = 0; i + 1 < call.arrays; ++i) {
            char*& data = reinterpret_cast<char*&>(parameters.array[i].data);
            data += most * parameters.array[i].batch * itemsize;
        }
    }
    return nullptr;
}
