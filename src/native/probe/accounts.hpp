// One thing comes to life or dies: the counters, the live table and the ring tell of it, in that order.
#pragma once

#include "device_groups.hpp"
#include "live_table.hpp"
#include "ring.hpp"

namespace ttmem::probe {

// What of an entry is counted, and where; COUNTED = in no counter (a circular buffer on top of an L1 buffer).
std::uint32_t counter_of(const LiveEntry& entry);

Event event_of(std::uint8_t op, const LiveEntry& entry, std::uint64_t time);

// False if the live table has no room. The counters have it all the same.
bool hold(Region& region, const ThreadState& thread, LiveEntry& entry, const DeviceGroup& group, Op op);

// Takes the entry of a key out and tells of it; false if there is none.
bool release(Region& region, const ThreadState& thread, std::uint64_t key, Op op);

// The same because its device closed: the events say so, and a buffer stays as one that nobody freed.
bool release_with_device(Region& region, const ThreadState& thread, std::uint64_t key, Op op);

// A device is closed and nothing is on it any more, also of what had no room in the table.
void count_nothing(Region& region, std::uint64_t mask);

// The peaks of a device are what it holds now; the highest before stays in the counter. By one thread at a time.
void reset_peaks(Region& region, std::uint32_t device);

// Atomic operations wait for one another: what they touch on the chips of a mesh is brought in all at once.
void expect_counters(const Region& region, const LiveEntry& entry, std::uint64_t mask);

// The counters alone.
void count_in(Region& region, const LiveEntry& entry, std::uint64_t mask);
void count_out(Region& region, const LiveEntry& entry, std::uint64_t mask);

}  // namespace ttmem::probe
