// The region: one file per process, little-endian. ttmem/probe/layout.py mirrors it; a test compares the two.
//
//   offset  size  field
//        0     8  magic            "TTMEMPRB"
//        8   u32  version          2; 1 had device records of 104 bytes, without what follows `cb_base`; 3 is compact: of a
//                                   dead process, rewritten by ttmem/sources/probe/cleanup.py, sections cut to what is used
//       12   u32  state            0 being made, 1 in use, 2 the process ended in order
//       16   u64  file size
//       24   u32  pid
//       28   u32  tracking         1 on, 0 off; a controller or the process itself may flip it
//       32   u64  start ticks      field 22 of /proc/PID/stat
//       40   u64  created, ns      since 1970
//       48   u64  ended, ns        0 = not yet, or unknown; of a killed process (state 1) by whoever saw it die
//       56   u32  options          Option bits
//       60   u32  launcher         pid of the `ttmem run` that started the process; 0 = none
//       64  12 x  section          u64 offset, u32 count, u32 stride; in the order of Section
//      512   u64  tickets          events begun: the next event's number
//      576   u64  given up         tickets whose slot was held by a writer that is a whole ring behind
//      640   u64  live             entries of the live table; u64 ever without space; u64 of those alive now
//      704   u32  strings          used; u32 bytes of text used; u64 strings without space
//      768   u32  devices          u32 sets; u32 core sets; u32 without space
//      832   u64  failures         failed allocations so far
//      896   u64  unpaired frees   frees of what was never seen: made while tracking was off, or before a fork
//      904   u64  unseen           buffers that were allocated while tracking was off
//      912   u64  forgotten        buffers that went with their device, without a place or for want of one
//      920   u64  last event, ns   in a compact region, whose ring may be empty
//     4096        sections
//
// Invariant: a record that is written once starts with a checksum of its other words, stored last. Whatever was
// being written when the process was killed fails it, so a reader never takes half a record for a whole one.
// Counters are absolute and stand alone: they stay right when events are lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../event.hpp"
#include "memory_order.hpp"

namespace ttmem::probe {

constexpr char MAGIC[8] = {'T', 'T', 'M', 'E', 'M', 'P', 'R', 'B'};
constexpr std::uint32_t VERSION = 2;
constexpr std::size_t HEADER_SIZE = 4096;
constexpr std::uint32_t MAX_DEVICES = 64;  // a 32-chip Galaxy, twice
constexpr std::uint32_t MAX_RANGES = 16;   // rectangles of one core set
constexpr std::uint32_t MAX_FEATURES = 64;
constexpr std::uint32_t SET_OF_DEVICES = 0x80000000u;  // Event::device names a set of chips, not one

constexpr std::uint32_t SECTIONS = FAILURES + 1;

// A program's number is its id in the runtime + 1: 0 means 'none' everywhere.

constexpr std::uint32_t COUNTED = KERNEL_BINARIES + 1;  // counters of a device: the runtime's kinds, then Counted

// A live key is a LiveType in the upper 8 bits, and an id, cut to 56.
// LiveEntry::flags beside the bits of Event::flags: a DRAM buffer that holds kernel binaries.
constexpr std::uint16_t HOLDS_BINARIES = 256;

struct SectionPlace {
    std::uint64_t offset;
    std::uint32_t count;
    std::uint32_t stride;
};

struct Header {
    char magic[8];
    std::uint32_t version;
    std::atomic<std::uint32_t> state;
    std::uint64_t file_size;
    std::uint32_t pid;
    std::atomic<std::uint32_t> tracking;
    std::uint64_t start_ticks;
    std::uint64_t created_ns;
    std::uint64_t ended_ns;
    std::uint32_t options;
    std::uint32_t launcher;
    SectionPlace sections[SECTIONS];
    alignas(64) char gap[256];
    alignas(64) std::atomic<std::uint64_t> tickets;
    alignas(64) std::atomic<std::uint64_t> given_up;
    alignas(64) std::atomic<std::uint64_t> live;
    std::atomic<std::uint64_t> live_without_space;
    std::atomic<std::uint64_t> live_uncounted;
    alignas(64) std::atomic<std::uint32_t> strings;
    std::atomic<std::uint32_t> text_bytes;
    std::atomic<std::uint64_t> strings_without_space;
    alignas(64) std::atomic<std::uint32_t> devices;
    std::atomic<std::uint32_t> sets;
    std::atomic<std::uint32_t> cores;
    std::atomic<std::uint32_t> tables_without_space;
    alignas(64) std::atomic<std::uint64_t> failures;
    alignas(64) std::atomic<std::uint64_t> unpaired_frees;
    std::atomic<std::uint64_t> unseen;
    std::atomic<std::uint64_t> forgotten;
};
static_assert(offsetof(Header, sections) == 64 && offsetof(Header, tickets) == 512, "drawn above");
static_assert(offsetof(Header, live) == 640 && offsetof(Header, devices) == 768, "drawn above");
static_assert(offsetof(Header, unpaired_frees) == 896 && sizeof(Header) <= HEADER_SIZE, "drawn above");

// One per device and kind; two cache lines, so that two kinds never share one.
struct alignas(128) Counter {
    std::atomic<std::uint64_t> requested;
    std::atomic<std::uint64_t> reserved;
    std::atomic<std::uint64_t> allocations;  // ever; less `frees` = alive: one atomic operation less per event
    std::atomic<std::uint64_t> frees;        // ever
    std::atomic<std::uint64_t> peak;         // of reserved
    std::atomic<std::uint64_t> peak_ns;
    std::atomic<std::uint32_t> peak_name;
    std::atomic<std::uint32_t> peak_site;
    std::atomic<std::uint64_t> peak_capacity;  // of the device at that time; 0 = unknown
    // The highest peak before peaks were last reset, so that the highest of all is still known. A line of its own: what
    // allocates does not touch it.
    std::atomic<std::uint64_t> earlier_peak;
    std::atomic<std::uint64_t> earlier_ns;
    std::atomic<std::uint32_t> earlier_name;
    std::atomic<std::uint32_t> earlier_site;
    std::atomic<std::uint64_t> earlier_capacity;
};

// One per device: what only counts up.
struct alignas(128) Activity {
    std::atomic<std::uint64_t> dispatches;
    std::atomic<std::uint64_t> hits;
    std::atomic<std::uint64_t> misses;
    std::atomic<std::uint64_t> programs_compiled;
    std::atomic<std::uint64_t> programs_destroyed;
    std::atomic<std::uint64_t> kernels_loaded;
    std::atomic<std::uint64_t> kernels_unloaded;
    std::atomic<std::uint64_t> traces_captured;
    std::atomic<std::uint64_t> traces_replayed;
    std::atomic<std::uint64_t> opened;
    std::atomic<std::uint64_t> closed;
    std::atomic<std::uint64_t> cache_entries;  // workloads that are in the program cache now; the only one that goes down
};

struct Slot {
    std::atomic<std::uint64_t> check;  // 0 never used, 1 being written
    std::uint64_t ticket;
    std::uint32_t phase;
    std::uint16_t thread;
    std::uint8_t layout;  // TensorMemoryLayout of a buffer + 1; 0 = unknown
    std::uint8_t reserved;
    Event event;
};
static_assert(sizeof(Slot) == 88, "mirrored in Python");

struct LiveEntry {
    std::uint64_t check;
    std::uint64_t key;
    std::uint64_t time;
    std::uint64_t requested;
    std::uint64_t reserved;
    std::uint64_t address;
    std::uint64_t program;
    std::uint32_t devices;  // chip, or set of chips
    std::uint32_t cores;
    std::uint32_t name;
    std::uint32_t site;
    std::uint32_t phase;
    std::uint32_t number;  // circular buffers of a program, cores of a kernel
    std::uint16_t flags;
    std::uint16_t thread;
    std::uint8_t kind;
    std::uint8_t layout;
    std::uint16_t padding;
    std::uint32_t path;  // ELF file of a kernel
    std::uint32_t mesh;  // with which it goes when that is closed: its number in the runtime + 1; 0 = none is known
};
static_assert(sizeof(LiveEntry) == 96, "mirrored in Python");

struct StringRecord {
    std::uint64_t check;  // of the text as well
    std::uint32_t offset;
    std::uint32_t length;
};

struct DeviceRecord {
    std::uint64_t check;
    std::uint64_t unique_id;  // may be 0: a board without ids numbers its chips from there
    std::uint64_t bank_size[5];  // per kind; 0 = unknown
    std::uint32_t banks[5];
    std::uint32_t chip;
    std::uint32_t arch;  // the runtime's number
    std::uint32_t grid_x, grid_y;
    std::uint32_t l1_per_core;
    std::uint64_t cb_base;
    std::uint64_t dram_base;  // of the allocator, in each bank
    std::uint32_t identified;  // 1: the unique id is the runtime's own
    std::uint32_t reserved;
};
static_assert(sizeof(DeviceRecord) == 120, "mirrored in Python");

struct SetRecord {
    std::uint64_t check;
    std::uint32_t count;
    std::uint32_t reserved;
    std::uint16_t chips[MAX_DEVICES];
};
static_assert(sizeof(SetRecord) == 144, "mirrored in Python");

struct CoresRecord {
    std::uint64_t check;
    std::uint32_t count;
    std::uint32_t total;  // cores; more than the rectangles hold if there were too many of them
    std::uint16_t rectangles[MAX_RANGES][4];  // x0, y0, x1, y1, ends included
};
static_assert(sizeof(CoresRecord) == 144, "mirrored in Python");

struct FeatureRecord {
    char name[56];
    std::atomic<std::uint32_t> state;  // 0 not tried yet, 1 found, 2 missing in this runtime
    std::uint32_t reserved;
};

struct FailureRecord {
    std::uint64_t check;
    std::uint64_t time;
    std::uint64_t requested;
    std::uint64_t program;
    std::uint32_t kind;
    std::uint32_t devices;
    std::uint32_t name;
    std::uint32_t site;
    std::uint32_t what;  // 0 buffer, 1 circular buffers of a program, 2 its dataflow buffers
    std::uint32_t length;
    char message[968];
};
static_assert(sizeof(FailureRecord) == 1024, "mirrored in Python");

inline std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) {
    sum = (sum ^ word) * 0x9E3779B97F4A7C15ull;
    return sum ^ (sum >> 29);
}

inline std::uint64_t word_at(const void* record, std::size_t at) {
    std::uint64_t word;
    std::memcpy(&word, static_cast<const char*>(record) + at, sizeof word);
    return word;
}

// Of all words but the first; never 0 or 1, which say 'empty' and 'being written', and no small number for zeroes.
// Two sums side by side: one would wait for its own multiplication eleven times.
inline std::uint64_t checksum(const void* record, std::size_t size, std::uint64_t start = 0) {
    std::uint64_t one = start ^ 0xC2B2AE3D27D4EB4Full, other = 0x165667B19E3779F9ull;
    std::size_t at = 8;
    for (; at + 16 <= size; at += 16) {
        one = mixed(one, word_at(record, at));
        other = mixed(other, word_at(record, at + 8));
    }
    if (at + 8 <= size) {
        one = mixed(one, word_at(record, at));
    }
    const std::uint64_t sum = mixed(one, other);
    return sum < 2 ? sum + 2 : sum;
}

}  // namespace ttmem::probe
