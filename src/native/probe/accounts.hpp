// Records that something was allocated or freed: in the counters, the live table and the ring, in that order.
#pragma once

#include "device_groups.hpp"
#include "live_table.hpp"
#include "ring.hpp"

namespace ttmem::probe {

// Which part of an entry is counted, and where; COUNTED = nowhere (a circular buffer inside an L1 buffer).
std::uint32_t counter_of(const LiveEntry& entry);

Event event_of(std::uint8_t op, const LiveEntry& entry, std::uint64_t time);

// False if the live table is full. The counters include it anyway.
bool hold(Region& region, const ThreadState& thread, LiveEntry& entry, const DeviceGroup& group, Op op);

// Removes the entry with that key and reports it; false if there is none.
bool release(Region& region, const ThreadState& thread, std::uint64_t key, Op op);

// The same because its device was closed: the events say so, and a buffer is kept as never freed.
bool release_with_device(Region& region, const ThreadState& thread, std::uint64_t key, Op op);

// A device was closed: clears what is left on it, including what did not fit into the table.
void count_nothing(Region& region, std::uint64_t mask);

// Resets the peaks of a device to what it holds now; the highest before stays in the counter. One thread at a time.
void reset_peaks(Region& region, std::uint32_t device);

// Atomic operations wait for each other, so the cache lines of all chips of a mesh are prefetched together.
void expect_counters(const Region& region, const LiveEntry& entry, std::uint64_t mask);

// The counters alone.
void count_in(Region& region, const LiveEntry& entry, std::uint64_t mask);
void count_out(Region& region, const LiveEntry& entry, std::uint64_t mask);

}  // namespace ttmem::probe
