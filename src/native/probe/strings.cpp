#include "strings.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "short_lock.hpp"
#include "text_hash.hpp"

namespace ttmem::probe {

namespace {

struct Known {
    std::uint64_t hash;
    std::uint32_t number;
};

std::atomic<bool> busy{false};
Known* known = nullptr;  // twice as many places as there may be strings

std::uint32_t add(Region& region, const char* text, std::uint32_t length, std::uint64_t hash) {
    Header& header = *region.header;
    const std::uint32_t number = header.strings.load(order::GUARDED);
    const std::uint32_t offset = header.text_bytes.load(order::GUARDED);
    if (number >= region.counts[STRINGS] || offset + length > region.counts[TEXT]) {
        header.strings_without_space.fetch_add(1, order::ALONE);
        return 0;
    }
    std::memcpy(region.text + offset, text, length);
    StringRecord& record = region.strings[number];
    record.offset = offset;
    record.length = length;
    record.check = checksum(&record, sizeof record, hash);
    header.text_bytes.store(offset + length, order::GUARDED);
    header.strings.store(number + 1, order::PUBLISH);
    return number;
}

}  // namespace

std::uint32_t intern(Region& region, const char* text, std::size_t length) {
    length = std::min(length, MAX_TEXT);
    ShortLock lock(busy);
    if (!lock || !length) {
        return 0;
    }
    const std::uint32_t places = region.counts[STRINGS] * 2;
    if (!known && !(known = static_cast<Known*>(std::calloc(places, sizeof(Known))))) {
        return 0;
    }
    const std::uint64_t hash = text_hash(text, length);
    for (std::uint32_t place = hash >> 7 & (places - 1);; place = (place + 1) & (places - 1)) {
        Known& entry = known[place];
        if (!entry.hash) {
            const std::uint32_t number = add(region, text, static_cast<std::uint32_t>(length), hash);
            if (number) {
                entry = {hash, number};
            }
            return number;
        }
        if (entry.hash == hash) {
            const StringRecord& record = region.strings[entry.number];
            if (record.length == length && !std::memcmp(region.text + record.offset, text, length)) {
                return entry.number;
            }
        }
    }
}

void forget_strings() {
    std::free(known);
    known = nullptr;
    busy = false;
}

}  // namespace ttmem::probe
