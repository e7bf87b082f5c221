// The event record of ttmem/events/record.py, byte for byte.
#pragma once

#include <cstdint>

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

enum Op : std::uint8_t {
    ALLOC = 1,
    FREE = 2,
    CB_ALLOC = 8,
    CB_FREE = 9,
    KERNEL_LOAD = 10,
    KERNEL_UNLOAD = 11,
    PROGRAM_DISPATCH = 16,
    PROGRAM_DESTROY = 17,
    BINARY_STATUS = 18,
    RING = 19,
    COUNTERS = 20,
    CACHE_ENTRIES = 21,
    PROGRAM_NAME = 22,
};

constexpr std::uint8_t FIRST_NOTICE = 64;  // from here on: what happened beside the accounts (ttmem/events/record.py)

enum Flag : std::uint16_t {
    KIND_KNOWN = 1,
    GLOBAL = 2,
    DATAFLOW = 4,
    RESENT = 8,
    CACHE_HIT = 16,
    CACHE_MISS = 32,
    FOOTPRINT = 64,
    WITH_DEVICE = 128,
};

constexpr int KINDS = 5;
constexpr int KERNEL_TYPES = 3;
constexpr std::uint8_t KIND_L1 = 1, KIND_SYSTEM = 2, KIND_L1_SMALL = 3;

}  // namespace ttmem
