// The ring of events. Writers never wait: a full ring overwrites, and a writer that finds a slot still being written
// since a whole ring ago drops its own event, so that no slot is ever written by two.
#pragma once

#include <cstring>

#include "region.hpp"
#include "thread_state.hpp"

namespace ttmem::probe {

constexpr std::uint64_t BEING_WRITTEN = 1;

struct ClaimedSlot {
    Slot* slot;  // null: dropped
    std::uint64_t ticket;
};

inline ClaimedSlot claim(Region& region) {
    const std::uint64_t ticket = region.header->tickets.fetch_add(1, order::ALONE);
    Slot& slot = region.ring[ticket & (region.counts[RING] - 1)];
    std::uint64_t before = slot.check.load(order::GLANCE);
    if (before == BEING_WRITTEN ||
        !slot.check.compare_exchange_strong(before, BEING_WRITTEN, order::TAKE_OVER)) {
        region.header->given_up.fetch_add(1, order::ALONE);
        return {nullptr, ticket};
    }
    return {&slot, ticket};
}

inline void fill(const Region& region, ClaimedSlot claimed, const ThreadState& thread, const Event& event,
                 std::uint8_t layout) {
    if (!claimed.slot) {
        return;
    }
    struct {
        std::uint64_t check, ticket, who;
        Event event;
    } record{0, claimed.ticket, thread.phase | std::uint64_t{thread.number} << 32 | std::uint64_t{layout} << 48, event};
    static_assert(sizeof record == sizeof(Slot), "a slot without its atomic");
    std::memcpy(reinterpret_cast<char*>(claimed.slot) + 8, reinterpret_cast<const char*>(&record) + 8,
                sizeof record - 8);
    claimed.slot->check.store(checksum(&record, sizeof record), order::PUBLISH);
    // The ring is larger than the caches: the slot of the next event is prefetched.
    const char* next =
        reinterpret_cast<const char*>(&region.ring[(claimed.ticket + 1) & (region.counts[RING] - 1)]);
    __builtin_prefetch(next, 1);
    __builtin_prefetch(next + 64, 1);
}

inline void append(Region& region, const ThreadState& thread, const Event& event) {
    fill(region, claim(region), thread, event, 0);
}

}  // namespace ttmem::probe
