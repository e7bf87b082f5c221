// Any bytes as historical records: what was decoded, encoded again, is what stood there.
//
// An input: record size (1 byte: 40 + 8 times that, to 144), whether a pid is known (1 byte), then the records.
#include "../../src/native/records.hpp"

#include <cstring>

using namespace ttmem;

namespace {

void law(bool holds) {
    if (!holds) {
        __builtin_trap();
    }
}

std::uint64_t word(const std::uint8_t* at, std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, bytes);
    return value;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) {
        return 0;
    }
    const std::size_t record_size = 40 + 8 * (data[0] % 14u);
    const std::int32_t pid = data[1];
    const std::uint8_t* records = data + 2;
    const Decoded decoded = decode_records(records, size - 2, record_size, pid);
    law(decoded.used <= size - 2 && decoded.used == decoded.events.size() * record_size);
    law(decoded.stop != Stop::END || size - 2 - decoded.used < record_size);
    for (std::size_t i = 0; i < decoded.events.size(); ++i) {
        const std::uint8_t* at = records + i * record_size;
        const Event& event = decoded.events[i];
        law(event.op == at[0] && event.op < FIRST_NOTICE && event.device == word(at + 4, 4));
        law(event.size == word(at + 8, 8) && event.id == word(at + 24, 8));
        law(pid == 0 || word(at + 20, 4) == 0 || word(at + 20, 4) == static_cast<std::uint32_t>(pid));
    }
    return 0;
}
