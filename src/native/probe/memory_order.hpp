// The memory orders of the probe, named by the reason why each is enough. Nothing else in src/native names one, which
// tests/house/test_native.py checks. On x86 what they save is the fence that every seq_cst store has, on the path of every
// allocation; elsewhere those of loads as well.
#pragma once

#include <atomic>

namespace ttmem::probe::order {

// What was written before a PUBLISH is there for whoever gets its value by OBSERVE. All that the probe hands from thread to
// thread goes through one variable, and nobody draws conclusions from the order of two of them: that alone would take seq_cst.
constexpr auto PUBLISH = std::memory_order_release;
constexpr auto OBSERVE = std::memory_order_acquire;

// A read-modify-write that takes a place over, or gives it away: it observes what the last owner wrote, and publishes.
constexpr auto TAKE_OVER = std::memory_order_acq_rel;

// A value that stands alone: a count, a sum, a ticket, a switch. No other memory is read on the strength of it, and
// read-modify-writes of one variable are exact in any order. Readers of the region are other processes; to them, every
// number is one of about now.
constexpr auto ALONE = std::memory_order_relaxed;

// A first look, which may be out of date. What it suggests is checked by the compare-exchange that follows, or is no more
// than a prefetch.
constexpr auto GLANCE = std::memory_order_relaxed;

// Ordered by something else. One of:
// - it is written before the PUBLISH of another variable, and read after the OBSERVE of that one
// - it is used only by who holds a ShortLock
// - it is about one buffer, program or workload. The application and the runtime give these to one thread at a time, and
//   have locks of their own to hand them over: what the last thread wrote of it, the next one sees.
constexpr auto GUARDED = std::memory_order_relaxed;

}  // namespace ttmem::probe::order
