// A private table keyed by a number that is not 0: an object's address, a program's id. Like the live table, it has a
// window instead of tombstones, so that threads insert and remove without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "layout.hpp"

namespace ttmem::probe {

// Value: plain data of atomics; zeroed when its key goes in.
template <typename Value, std::uint32_t PLACES>
class AddressTable {
public:
    Value* find(std::uint64_t key) {
        Entry* entries = entries_.load(std::memory_order_acquire);
        return entries ? search(entries, key) : nullptr;
    }

    // The value there is, or a new one; null if there is no room.
    Value* find_or_insert(std::uint64_t key) {
        Entry* entries = all();
        if (!entries) {
            return nullptr;
        }
        if (Value* known = search(entries, key)) {
            return known;
        }
        for (std::uint32_t step = 0; step < WINDOW; ++step) {
            Entry& entry = entries[(first(key) + step) & (PLACES - 1)];
            std::uint64_t empty = 0;
            if (entry.key.compare_exchange_strong(empty, BUSY, std::memory_order_acq_rel)) {
                entry.value.clear();
                entry.key.store(key, std::memory_order_release);
                return &entry.value;
            }
        }
        return nullptr;
    }

    void remove(std::uint64_t key) {
        Entry* entries = entries_.load(std::memory_order_acquire);
        for (std::uint32_t step = 0; entries && step < WINDOW; ++step) {
            std::uint64_t expected = key;
            Entry& entry = entries[(first(key) + step) & (PLACES - 1)];
            if (entry.key.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) {
                return;
            }
        }
    }

    void forget() { std::free(entries_.exchange(nullptr)); }

private:
    static constexpr std::uint32_t WINDOW = 64;
    static constexpr std::uint64_t BUSY = ~0ull;

    struct Entry {
        std::atomic<std::uint64_t> key;
        Value value;
    };

    static std::uint32_t first(std::uint64_t key) { return static_cast<std::uint32_t>(mixed(0, key) >> 20); }

    static Value* search(Entry* entries, std::uint64_t key) {
        for (std::uint32_t step = 0; step < WINDOW; ++step) {
            Entry& entry = entries[(first(key) + step) & (PLACES - 1)];
            if (entry.key.load(std::memory_order_acquire) == key) {
                return &entry.value;
            }
        }
        return nullptr;
    }

    Entry* all() {
        Entry* entries = entries_.load(std::memory_order_acquire);
        if (!entries) {
            auto* fresh = static_cast<Entry*>(std::calloc(PLACES, sizeof(Entry)));
            if (entries_.compare_exchange_strong(entries, fresh)) {
                return fresh;
            }
            std::free(fresh);
        }
        return entries;
    }

    std::atomic<Entry*> entries_{nullptr};
};

}  // namespace ttmem::probe
