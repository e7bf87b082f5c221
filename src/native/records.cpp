#include "records.hpp"

#include <cstring>

namespace ttmem {

namespace {

template <typename T>
T load(const std::uint8_t* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

constexpr std::size_t HEAD = 40;
constexpr std::uint32_t PADDING = 0xFFFFFF00;  // three bytes after `type` and after `buffer_type`

bool plain_type(std::uint8_t type) {
    return type == ALLOC || type == FREE || (type >= CB_ALLOC && type <= KERNEL_UNLOAD);
}

bool zero_tail(const std::uint8_t* record, std::size_t record_size) {
    std::uint64_t any = 0;
    for (std::size_t at = HEAD; at < record_size; at += 8) {
        any |= load<std::uint64_t>(record + at);
    }
    return any == 0;
}

Event event_of(const std::uint8_t* record) {
    Event event{};
    event.op = record[0];
    event.device = load<std::uint32_t>(record + 4);
    event.size = load<std::uint64_t>(record + 8);
    event.id = load<std::uint64_t>(record + 24);
    if (event.op == ALLOC) {
        event.kind = record[16];
        event.address = event.id;  // this protocol identifies buffers by their address
    } else if (event.op == KERNEL_LOAD) {
        event.kind = record[16];
        event.flags = FOOTPRINT;
        event.extra = event.id;
    }
    return event;
}

}  // namespace

Decoded decode_records(const std::uint8_t* data, std::size_t size, std::size_t record_size, std::int32_t pid) {
    Decoded out{{}, 0, Stop::END};
    out.events.reserve(size / record_size);
    for (; out.used + record_size <= size; out.used += record_size) {
        const std::uint8_t* record = data + out.used;
        const bool padded = ((load<std::uint32_t>(record) | load<std::uint32_t>(record + 16)) & PADDING) != 0;
        if (!plain_type(record[0]) || padded || !zero_tail(record, record_size)) {
            out.stop = Stop::ATTENTION;
            break;
        }
        const auto named = load<std::int32_t>(record + 20);
        if (pid != 0 && named != 0 && named != pid) {
            out.stop = Stop::OTHER_PID;
            break;
        }
        out.events.push_back(event_of(record));
    }
    return out;
}

}  // namespace ttmem
