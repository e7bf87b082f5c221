// The event record of ttmem/events/record.py, byte for byte.
#pragma once

#include <cstdint>

#include "tables.hpp"

namespace ttmem {

struct Event {
    std::uint8_t op;
    std::uint8_t kind;
    std::uint16_t flags;
    std::uint32_t device;
    std::uint64_t time;
    std::uint64_t id;
    std::uint64_t size;
    std::uint64_t extra;
    std::uint64_t address;
    std::uint32_t number;
    std::uint32_t cores;
    std::uint32_t name;
    std::uint32_t site;
};
static_assert(sizeof(Event) == 64, "the record is 64 bytes on the wire and in files");

}  // namespace ttmem
