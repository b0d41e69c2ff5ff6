"""A fake of the part of CuPy that grid-gen uses, for machines without a GPU.

The host cannot access the memory of fake devices. Their streams run operations lazily, when the
host synchronizes. A schedule picks an order that streams and events permit and that exposes missing
synchronization. `MisuseError` reports unordered accesses to the same memory under any schedule, and
errors that CUDA does not detect.

| module | content |
|---|---|
| `errors` | CUDA's errors, and misuse |
| `region`, `pool` | memory of a device and its allocation |
| `order` | vector clocks, and the last accesses to each word |
| `work`, `schedules` | pending operations, and the choice of the next one |
| `machine` | devices, and the current device and streams |
| `streams`, `capture` | streams, events, graphs |
| `arrays`, `routines` | arrays on a device, and functions of arrays |
| `pinned`, `transfers` | pinned memory, copies between host and device |
| `kernels` | modules of PTX text, functions, launches |
| `face` | replacement modules with CuPy's names |
| `tensors` | PyTorch's tensors, streams and graphs on these devices |

NumPy computes the numbers. The fake does not model the speed or the arithmetic of a GPU.
"""
