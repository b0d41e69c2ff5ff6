// A handler between XLA on the CPU and the one for GPUs: it says which stream a call is on, as XLA on a
// GPU would.
#include "xla_ffi_c_api.h"

extern "C" {

XLA_FFI_Handler* handler;  // whom calls are handed to
void* stream;

static XLA_FFI_Error* get_stream(XLA_FFI_Stream_Get_Args* args) {
    args->stream = stream;
    return nullptr;
}

__attribute__((visibility("default"))) XLA_FFI_Error* on_stream(XLA_FFI_CallFrame* frame) {
    if (frame->extension_start) return handler(frame);
    XLA_FFI_Api api = *frame->api;
    api.XLA_FFI_Stream_Get = get_stream;
    XLA_FFI_CallFrame other = *frame;
    other.api = &api;
    return handler(&other);
}
}
