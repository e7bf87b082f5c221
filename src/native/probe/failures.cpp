// When an allocation fails: small code is preferred.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os")
#endif

#include "failures.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "accounts.hpp"
#include "attribution.hpp"
#include "ring.hpp"
#include "programs.hpp"
#include "settings.hpp"

namespace ttmem::probe {

namespace {

constexpr std::uint64_t TOLD = 5;  // failures per process: some programs try until it fits
constexpr std::size_t LONGEST = 400;
const char* const KINDS[] = {"DRAM", "L1", "SYSTEM_MEMORY", "L1_SMALL", "TRACE"};

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')).substr(0, LONGEST); }

std::string_view text_of(const Region& region, std::uint32_t number) {
    if (!number || number >= region.counts[STRINGS]) {
        return "";
    }
    const StringRecord& record = region.strings[number];
    const std::uint64_t end = std::uint64_t{record.offset} + record.length;
    return end <= region.counts[TEXT] ? first_line({region.text + record.offset, record.length}) : "";
}

// Its checks print their location in the runtime, then 'info:', then what is wrong.
std::string_view essence(std::string_view message) {
    constexpr std::string_view HEAD = "info:\n";
    const std::size_t head = message.find(HEAD);
    return first_line(head == std::string_view::npos ? message : message.substr(head + HEAD.size()));
}

int width(std::string_view text) { return static_cast<int>(text.size()); }

// No `ttmem run` watches this process and explains the failure, so the essential lines are printed here.
void tell(const Region& region, const FailureRecord& record) {
    const std::string_view name = text_of(region, record.name), site = text_of(region, record.site);
    const std::string_view message = essence({record.message, record.length});
    const char* kind = record.kind < std::size(KINDS) ? KINDS[record.kind] : "an unknown kind of memory";
    const char* gap = name.empty() || site.empty() ? "" : "  ";
    const char* by = name.empty() && site.empty() ? "" : ", asked by ";
    if (record.what == 0) {
        const bool full = message.find("Out of Memory") != std::string_view::npos;  // otherwise it rejected the layout
        say("%s a buffer of %llu B in %s%s%.*s%s%.*s", full ? "no space for" : "the runtime refused",
            static_cast<unsigned long long>(record.requested), kind, by, width(name), name.data(), gap, width(site),
            site.data());
    } else {
        say("no space for the %s buffers of a program in L1%s%.*s%s%.*s", record.what == 1 ? "circular" : "dataflow", by,
            width(name), name.data(), gap, width(site), site.data());
    }
    say("the runtime says: %.*s", width(message), message.data());
}

// What the program wanted, before it is destroyed: nothing else in the ring refers to its circular buffers.
void tell_layout(const Recording& recording, std::uint64_t program, std::uint64_t time) {
    const ProgramParts* parts = parts_of(program, false);
    const std::uint32_t count = parts ? parts->laid_out.load(order::GUARDED) : 0;
    for (std::uint32_t index = 0; index < count; ++index) {
        if (const LiveEntry* entry = find(recording.region(), part_key(LAID_OUT, program, index))) {
            Event event = event_of(CB_REFUSED, *entry, time);
            event.number = recording.region().cores[entry->cores].total;
            append(recording.region(), recording.thread(), event);
        }
    }
}

}  // namespace

void failed(const Recording& recording, const Failure& failure, const char* message) {
    Region& region = recording.region();
    const Attribution who = attribute(region, recording.thread());
    const DeviceGroup group = group_of_program(region, failure.program, failure.device);
    FailureRecord record{};
    record.time = now_ns();
    record.requested = failure.requested;
    record.program = failure.program;
    record.kind = failure.kind;
    record.devices = group.named;
    record.name = who.name;
    record.site = who.site;
    record.what = failure.what;
    record.length = static_cast<std::uint32_t>(std::min(std::strlen(message), sizeof record.message));
    std::memcpy(record.message, message, record.length);
    record.check = checksum(&record, sizeof record);
    const std::uint64_t number = region.header->failures.fetch_add(1, order::ALONE);
    region.failures[number % region.counts[FAILURES]] = record;
    tell_layout(recording, failure.program, record.time);
    Event event{};
    event.op = ALLOCATION_FAILED;
    event.kind = static_cast<std::uint8_t>(failure.kind);
    event.device = group.named;
    event.time = record.time;
    event.id = number;
    event.size = failure.requested;
    event.extra = failure.program;
    event.name = who.name;
    event.site = who.site;
    append(region, recording.thread(), event);
    if (!region.header->launcher && number < TOLD) {
        tell(region, record);
    }
}

}  // namespace ttmem::probe
