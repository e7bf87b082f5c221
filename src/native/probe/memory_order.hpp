// The memory orders of the probe, named by the reason why each is sufficient. Nothing else in src/native names one,
// which tests/house/test_native.py checks. On x86 they save the fence of every seq_cst store, on the path of every
// allocation; elsewhere also those of loads.
#pragma once

#include <atomic>

namespace ttmem::probe::order {

// What was written before a PUBLISH is visible to whoever gets its value by OBSERVE. Everything that the probe passes
// from thread to thread goes through one variable, and nothing depends on the order of two of them: only that would
// need seq_cst.
constexpr auto PUBLISH = std::memory_order_release;
constexpr auto OBSERVE = std::memory_order_acquire;

// A read-modify-write that takes or releases a slot: it observes what the last owner wrote, and publishes.
constexpr auto TAKE_OVER = std::memory_order_acq_rel;

// An independent value: a count, a sum, a ticket, a switch. No other memory is read because of it, and
// read-modify-writes of one variable are exact in any order. Readers of the region are other processes; they see every
// number as of about now.
constexpr auto ALONE = std::memory_order_relaxed;

// A first look, which may be out of date. What it suggests is checked by the compare-exchange that follows, or is only
// a prefetch.
constexpr auto GLANCE = std::memory_order_relaxed;

// Ordered by something else. One of:
// - it is written before the PUBLISH of another variable, and read after the OBSERVE of that one
// - it is used only by the holder of a ShortLock
// - it belongs to one buffer, program or workload. The application and the runtime use these in one thread at a time,
// and pass them on under their own locks, so the next thread sees what the last one wrote.
constexpr auto GUARDED = std::memory_order_relaxed;

}  // namespace ttmem::probe::order
