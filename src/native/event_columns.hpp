// Events as columns, for writing tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "event.hpp"

namespace ttmem {

// What the fields of an event mean (ttmem/exporters/events.py has the same as rows).
enum class EventClass : std::uint8_t { OTHER = 0, ALLOCATION = 1, FREED = 2, FAILURE = 3, CIRCULAR = 4, KERNEL = 5, PROGRAM = 6 };
constexpr std::uint8_t WITHOUT_DEVICE = 128;  // added to a class

// Integers, of which some may be missing.
template <typename T>
struct Numbers {
    std::vector<T> values;              // those that are present
    std::vector<std::uint8_t> present;  // a byte for each row
    T lowest = ~T{0}, highest = 0;

    void add(T value) {
        values.push_back(value);
        present.push_back(1);
        lowest = value < lowest ? value : lowest;
        highest = value > highest ? value : highest;
    }
    void add_none() { present.push_back(0); }
    void add_unless_zero(T value) { value ? add(value) : add_none(); }
};

// Texts by number: rows refer to entries of `keys`.
struct Keys {
    static constexpr std::uint64_t NONE = ~std::uint64_t{0};

    std::vector<std::uint32_t> rows;
    std::vector<std::uint64_t> keys;
    std::unordered_map<std::uint64_t, std::uint32_t> known;

    void add(std::uint64_t key);
};

// Events of one process that arrived together.
struct EventRun {
    std::uint32_t process, pid;
    std::uint64_t arrived, position;
    const Event* events;
    std::size_t count;
};

struct EventColumns {
    Numbers<std::uint64_t> position, time, id, requested, reserved, address, program;
    Numbers<std::uint32_t> pid, number;
    Keys device, event, memory, op, site, phase;
};

constexpr std::uint64_t MEMORY_CB = 255;  // in `memory`, beside the kinds

// Sorted by time. `classes` has a class for each op.
EventColumns event_columns(const std::vector<EventRun>& runs, const std::uint8_t* classes);

}  // namespace ttmem
