#include "buffer_facts.hpp"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

#include "careful_read.hpp"
#include "features.hpp"
#include "runtime.hpp"

namespace ttmem::probe {

namespace {

#define TT_BUFFER "_ZNK2tt8tt_metal6Buffer"

TTMEM_HOT_DATA Function<std::uint64_t(const void*)> unique_id{TT_BUFFER "9unique_idEv"};
TTMEM_HOT_DATA Function<std::uint64_t(const void*)> size_of{TT_BUFFER "4sizeEv"};
TTMEM_HOT_DATA Function<const void*(const void*)> device_of{TT_BUFFER "6deviceEv"};
TTMEM_HOT_DATA Function<std::uint32_t(const void*)> type_of{TT_BUFFER "11buffer_typeEv"};
TTMEM_HOT_DATA Function<std::uint32_t(const void*)> layout_of{TT_BUFFER "13buffer_layoutEv"};

Function<std::uint64_t(const void*)> page_size{TT_BUFFER "9page_sizeEv"};
Function<std::uint32_t(const void*)> pages{TT_BUFFER "9num_pagesEv"};
Function<bool(const void*)> is_l1{TT_BUFFER "5is_l1Ev"};
Function<bool(const void*)> is_dram{TT_BUFFER "7is_dramEv"};
Symbol a_vtable{"_ZTVN2tt8tt_metal11distributed10MeshDeviceE"};

constexpr int DEVICE_AT = 16, SIZE_AT = 24, TYPE_AT = 32, LAYOUT_AT = 36;

enum class Way { UNDECIDED, FUNCTIONS, FIELDS, NONE };
TTMEM_HOT_DATA std::atomic<Way> way{Way::UNDECIDED};

template <typename T>
T field(const void* object, int offset) {
    T value;
    std::memcpy(&value, static_cast<const char*>(object) + offset, sizeof value);
    return value;
}

bool is_object_of_runtime(const void* object) {
    void* vtable = nullptr;
    Dl_info one, other;
    return careful_field(object, 0, vtable) && a_vtable.address() && dladdr(vtable, &one) &&
           dladdr(a_vtable.address(), &other) && one.dli_fbase == other.dli_fbase;
}

BufferFacts by_fields(const void* buffer) {
    return {reinterpret_cast<std::uint64_t>(buffer), field<std::uint64_t>(buffer, SIZE_AT),
            field<const void*>(buffer, DEVICE_AT), field<std::uint32_t>(buffer, TYPE_AT),
            field<std::uint32_t>(buffer, LAYOUT_AT)};
}

bool fields_fit(const void* buffer) {
    if (!pages.address() || !page_size.address() || !is_l1.address() || !is_dram.address()) {
        return false;
    }
    const BufferFacts facts = by_fields(buffer);
    const bool l1 = facts.kind == 1 || facts.kind == 3, dram = facts.kind == 0 || facts.kind == 4;
    return facts.size == page_size(buffer) * pages(buffer) && is_l1(buffer) == l1 && is_dram(buffer) == dram &&
           is_object_of_runtime(facts.device);
}

Way decide(const void* buffer) {
    if (unique_id.address() && size_of.address() && device_of.address() && type_of.address() && layout_of.address()) {
        return Way::FUNCTIONS;
    }
    if (page_size.address() && !page_size(buffer)) {
        return Way::UNDECIDED;  // an empty buffer proves nothing
    }
    if (fields_fit(buffer)) {
        return Way::FIELDS;
    }
    switch_off("buffers", "this runtime keeps what they are in a place that is not known");
    return Way::NONE;
}

}  // namespace

bool buffer_id(const void* buffer, std::uint64_t& id) {
    const Way known = way.load(order::ALONE);
    if (known == Way::FUNCTIONS) {
        id = unique_id(buffer);
    } else {
        id = reinterpret_cast<std::uint64_t>(buffer);
    }
    return known == Way::FUNCTIONS || known == Way::FIELDS;
}

bool ids_are_numbers() { return way.load(order::ALONE) == Way::FUNCTIONS; }

bool buffer_facts(const void* buffer, BufferFacts& facts) {
    Way known = way.load(order::ALONE);
    if (known == Way::UNDECIDED) {
        known = decide(buffer);
        way.store(known, order::ALONE);
    }
    if (known == Way::FUNCTIONS) {
        facts = {unique_id(buffer), size_of(buffer), device_of(buffer), type_of(buffer), layout_of(buffer)};
    } else if (known == Way::FIELDS) {
        facts = by_fields(buffer);
    }
    return known == Way::FUNCTIONS || known == Way::FIELDS;
}

}  // namespace ttmem::probe
