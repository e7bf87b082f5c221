// A private table whose keys are nonzero numbers: an object's address, a program's id. Like the live table, it uses a
// window instead of tombstones, so that threads insert and remove without a lock.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "layout.hpp"

namespace ttmem::probe {

// Value: plain data of atomics; zeroed when its key goes in.
template <typename Value, std::uint32_t COUNT>
class AddressTable {
public:
    Value* find(std::uint64_t key) {
        Places* places = places_.load(order::OBSERVE);
        return places ? search(*places, key) : nullptr;
    }

    // The existing value, or a new one; null if the table is full.
    Value* find_or_insert(std::uint64_t key) {
        Places* places = all();
        if (!places) {
            return nullptr;
        }
        if (Value* known = search(*places, key)) {
            return known;
        }
        for (std::uint32_t step = 0; step < WINDOW; ++step) {
            const std::uint32_t place = (first(key) + step) & (COUNT - 1);
            if (exchange(places->keys[place], 0, BUSY)) {
                places->values[place].clear();
                places->keys[place].store(key, order::PUBLISH);
                Value* first_of_all = search(*places, key);  // another thread may have inserted it meanwhile
                if (first_of_all != &places->values[place]) {
                    places->keys[place].store(0, order::PUBLISH);
                }
                return first_of_all;
            }
        }
        return nullptr;
    }

    void remove(std::uint64_t key) {
        Places* places = places_.load(order::OBSERVE);
        for (std::uint32_t step = 0; places && step < WINDOW; ++step) {
            if (exchange(places->keys[(first(key) + step) & (COUNT - 1)], key, 0)) {
                return;
            }
        }
    }

    void forget() {
        if (Places* places = places_.exchange(nullptr)) {
            munmap(places, sizeof(Places));
        }
    }

private:
    static constexpr std::uint32_t WINDOW = 64;
    static constexpr std::uint64_t BUSY = ~0ull;

    // Keys are stored separately: a search that finds nothing reads eight cache lines, whatever the size of a value.
    struct Places {
        std::atomic<std::uint64_t> keys[COUNT];
        Value values[COUNT];
    };

    static std::uint32_t first(std::uint64_t key) { return static_cast<std::uint32_t>(mixed(0, key) >> 20); }

    // Looks before it locks: most slots are taken by others.
    static bool exchange(std::atomic<std::uint64_t>& key, std::uint64_t expected, std::uint64_t fresh) {
        return key.load(order::GLANCE) == expected &&
               key.compare_exchange_strong(expected, fresh, order::TAKE_OVER);
    }

    static Value* search(Places& places, std::uint64_t key) {
        for (std::uint32_t step = 0; step < WINDOW; ++step) {
            const std::uint32_t place = (first(key) + step) & (COUNT - 1);
            if (places.keys[place].load(order::OBSERVE) == key) {
                return &places.values[place];
            }
        }
        return nullptr;
    }

    Places* all() {
        Places* places = places_.load(order::OBSERVE);
        if (!places) {
            void* memory = mmap(nullptr, sizeof(Places), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED) {
                return nullptr;
            }
            if (places_.compare_exchange_strong(places, static_cast<Places*>(memory))) {
                return static_cast<Places*>(memory);
            }
            munmap(memory, sizeof(Places));
        }
        return places;
    }

    std::atomic<Places*> places_{nullptr};
};

}  // namespace ttmem::probe
