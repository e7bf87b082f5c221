// What is alive, by key. A key is stored within WINDOW slots after its hash, so that neither insertion nor removal ever
// moves another entry, and a reader can copy the table at any time.
#pragma once

#include "region.hpp"

namespace ttmem::probe {

constexpr std::uint32_t WINDOW = 64;
constexpr std::uint64_t TAKEN = 1;  // not a key: its type would be 0

inline std::uint64_t live_key(LiveType type, std::uint64_t id) {
    return static_cast<std::uint64_t>(type) << 56 | (id & 0x00FFFFFFFFFFFFFFull);
}

// The things of a program: circular buffers, kernels.
inline std::uint64_t part_key(LiveType type, std::uint64_t program, std::uint32_t index) {
    return live_key(type, program << 16 | (index & 0xFFFF));
}

// Eight consecutive numbers, which are allocated and freed together, have their keys in one cache line.
inline std::uint32_t first_place(const Region& region, std::uint64_t key) {
    const std::uint64_t line = mixed(0, key >> 3) >> 20;
    return static_cast<std::uint32_t>(line << 3 | (key & 7)) & (region.counts[LIVE] - 1);
}

// The table is larger than the caches: if a key is known early, its slot is prefetched.
inline void expect(const Region& region, std::uint64_t key) {
    const std::uint32_t place = first_place(region, key);
    __builtin_prefetch(&region.live_keys[place], 1);
    __builtin_prefetch(&region.live[place], 1);
    __builtin_prefetch(reinterpret_cast<const char*>(&region.live[place] + 1) - 1, 1);
}

inline bool claim_place(std::atomic<std::uint64_t>& key, std::uint64_t holder) {
    return key.load(order::GLANCE) == holder &&
           key.compare_exchange_strong(holder, TAKEN, order::TAKE_OVER);
}

inline void write_entry(Region& region, std::uint32_t place, LiveEntry& entry) {
    entry.check = checksum(&entry, sizeof entry);
    region.live[place] = entry;
    region.live_keys[place].store(entry.key, order::PUBLISH);
}

// False if there is no space. Entries that are no longer alive are replaced.
inline bool insert(Region& region, LiveEntry& entry) {
    const std::uint32_t first = first_place(region, entry.key);
    const std::uint32_t mask = region.counts[LIVE] - 1;
    for (std::uint32_t step = 0; step < WINDOW; ++step) {
        const std::uint32_t place = (first + step) & mask;
        if (claim_place(region.live_keys[place], 0)) {
            region.header->live.fetch_add(1, order::ALONE);
            write_entry(region, place, entry);
            return true;
        }
    }
    for (std::uint32_t step = 0; step < WINDOW; ++step) {
        const std::uint32_t place = (first + step) & mask;
        const std::uint64_t holder = region.live_keys[place].load(order::GLANCE);
        if (holder >> 56 == LEFT_BUFFER && claim_place(region.live_keys[place], holder)) {
            region.header->forgotten.fetch_add(1, order::ALONE);
            region.header->live.fetch_add(1, order::ALONE);
            write_entry(region, place, entry);
            return true;
        }
    }
    region.header->live_without_space.fetch_add(1, order::ALONE);
    return false;
}

// A buffer that was removed because its device was closed is kept as such, in the first slot that is free.
inline void keep_left(Region& region, LiveEntry& entry) {
    entry.key = live_key(LEFT_BUFFER, entry.key);
    const std::uint32_t first = first_place(region, entry.key);
    for (std::uint32_t step = 0; step < WINDOW; ++step) {
        const std::uint32_t place = (first + step) & (region.counts[LIVE] - 1);
        if (claim_place(region.live_keys[place], 0)) {
            write_entry(region, place, entry);
            return;
        }
    }
    region.header->forgotten.fetch_add(1, order::ALONE);
}

inline LiveEntry* find(Region& region, std::uint64_t wanted) {
    const std::uint32_t first = first_place(region, wanted);
    const std::uint32_t mask = region.counts[LIVE] - 1;
    for (std::uint32_t step = 0; step < WINDOW; ++step) {
        const std::uint32_t place = (first + step) & mask;
        if (region.live_keys[place].load(order::OBSERVE) == wanted) {
            return &region.live[place];
        }
    }
    return nullptr;
}

// Copies the entry out; false if it is not there, or another thread was faster.
inline bool take(Region& region, std::uint64_t wanted, LiveEntry& entry) {
    expect(region, wanted);
    LiveEntry* found = find(region, wanted);
    if (!found) {
        return false;
    }
    entry = *found;
    std::uint64_t expected = wanted;
    std::atomic<std::uint64_t>& key = region.live_keys[found - region.live];
    if (!key.compare_exchange_strong(expected, 0, order::TAKE_OVER)) {
        return false;
    }
    region.header->live.fetch_sub(1, order::ALONE);
    return true;
}

}  // namespace ttmem::probe
