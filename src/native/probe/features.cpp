#include "features.hpp"

#include <cstdio>
#include <cstring>

#include "python_frames.hpp"
#include "settings.hpp"

namespace ttmem::probe {

namespace {

constexpr char CALL_SITES_FEATURE[] = "call sites";

struct Found {
    const char* name;
    const char* missing;  // a symbol, or null
};

void write(FeatureRecord& record, const char* name, bool found) {
    std::snprintf(record.name, sizeof record.name, "%s", name);
    record.state.store(found ? 1 : 2, order::PUBLISH);
}

Found* named(Found* begin, Found* end, const char* name) {
    while (begin != end && std::strcmp(begin->name, name)) {
        ++begin;
    }
    return begin;
}

}  // namespace

const char* Feature::first_missing() const {
    for (Symbol* symbol : symbols_) {
        if (symbol && !symbol->address()) {
            return symbol->name();
        }
    }
    return nullptr;
}

void switch_off(const char* feature, const char* why) {
    say("%s: off, %s", feature, why);
    Region* region = mapped_region.load(order::OBSERVE);
    for (std::size_t i = 0; region && i < region->counts[FEATURES]; ++i) {
        if (!std::strcmp(region->features[i].name, feature)) {
            write(region->features[i], feature, false);
        }
    }
}

void look_for_features(Region& region) {
    if (region.features[0].state.load(order::OBSERVE)) {
        return;
    }
    Found table[MAX_FEATURES];
    Found* end = table;
    for (const Feature* feature = Feature::first(); feature; feature = feature->next()) {
        Found* found = named(table, end, feature->name());
        if (found == table + MAX_FEATURES - 1) {
            break;  // the last entry is for call sites
        }
        if (found == end) {
            *end++ = {feature->name(), nullptr};
        }
        found->missing = found->missing ? found->missing : feature->first_missing();
    }
    for (Found* found = end; found-- != table;) {  // the first is written last: it indicates that all are complete
        write(region.features[found - table], found->name, !found->missing);
        if (found->missing) {
            say("%s: off, this runtime has no %s", found->name, found->missing);
        }
    }
    ThreadState* thread = thread_state();
    if (region.header->options & CALL_SITES && thread) {
        python_caller(region, *thread);
        if (const char* problem = call_sites_missing()) {
            say("%s: off, %s", CALL_SITES_FEATURE, problem);
        }
        write(region.features[end - table], CALL_SITES_FEATURE, !call_sites_missing());
    }
}

}  // namespace ttmem::probe
