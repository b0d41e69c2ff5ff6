"""A stand-in for the part of CuPy that grid-gen uses, on devices that are not there.

Its devices have memory that the host cannot touch, and streams whose work waits until somebody
waits for it. Of all the orders that streams and events allow, a schedule picks one that is bad for
careless callers; and whatever the schedule, two accesses to the same memory that nothing orders are
reported (`MisuseError`), and so is what CUDA would do silently wrong.

| room | what is inside |
|---|---|
| `errors` | CUDA's errors, and misuse |
| `region`, `pool` | a device's memory, and who has which part of it |
| `order` | which operation comes after which, and who last touched each word |
| `work`, `schedules` | operations that wait to be run, and which of them runs next |
| `machine` | the devices, and what of them is current |
| `streams`, `capture` | streams, events, graphs |
| `arrays`, `routines` | arrays on a device, and the functions that make and compare them |
| `pinned`, `transfers` | pinned memory, copies between host and device |
| `kernels` | modules of PTX text, functions, launches |
| `face` | all that under CuPy's names, in the place of CuPy |

Numbers are NumPy's. It shows nothing of a GPU's speed, nor of its arithmetic.
"""
