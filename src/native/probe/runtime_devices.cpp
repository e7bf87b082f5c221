#include "runtime_devices.hpp"

#include <memory>
#include <vector>

#include "address_table.hpp"
#include "careful_read.hpp"
#include "features.hpp"

namespace ttmem::probe {

TTMEM_HOT_DATA std::atomic<std::uint64_t> device_generation{1};

namespace {

#define TT_MESH "_ZNK2tt8tt_metal11distributed14MeshDeviceImpl"
#define TT_ALLOCATOR "_ZNK2tt8tt_metal9Allocator"

using Ids = std::vector<int>;
struct Coordinates {
    std::size_t x, y;
};

Symbol mesh_vtable{"_ZTVN2tt8tt_metal11distributed10MeshDeviceE"};
Function<int(const void*)> mesh_id_method{"_ZNK2tt8tt_metal11distributed10MeshDevice2idEv"};
Function<Ids(const void*)> mesh_device_ids{"_ZNK2tt8tt_metal11distributed10MeshDevice14get_device_idsEv"};
// A MeshCoordinate stores up to eight numbers inline; the runtime writes one here, and nothing needs to be freed.
struct Coordinate {
    alignas(16) char storage[256];
};
struct Numbers {
    const std::uint32_t* first;
    std::size_t size;
};
Function<const void*(const void*)> range_start{"_ZNK2tt8tt_metal11distributed19MeshCoordinateRange11start_coordEv"};
Function<const void*(const void*)> range_end{"_ZNK2tt8tt_metal11distributed19MeshCoordinateRange9end_coordEv"};
Function<Numbers(const void*)> numbers_of{"_ZNK2tt8tt_metal11distributed14MeshCoordinate6coordsEv"};
Function<const void*(const void*)> view_of{"_ZNK2tt8tt_metal11distributed10MeshDevice8get_viewEv"};
Function<Coordinate(const void*, int)> find_chip{"_ZNK2tt8tt_metal11distributed14MeshDeviceView11find_deviceEi"};
Function<Ids(const void*)> impl_device_ids{TT_MESH "14get_device_idsEv"};
Function<const std::unique_ptr<char>*(const void*)> impl_allocator{TT_MESH "9allocatorEv"};
Function<Coordinates(const void*)> impl_grid{TT_MESH "30compute_with_storage_grid_sizeEv"};
Function<std::uint32_t(const void*)> impl_l1_per_core{TT_MESH "16l1_size_per_coreEv"};
Function<int(const void*)> impl_arch{TT_MESH "4archEv"};
Function<std::uint32_t(const void*, const int*)> number_of_banks{TT_ALLOCATOR "13get_num_banksERKNS0_10BufferTypeE"};
Function<std::uint64_t(const void*, const int*)> bank_size{TT_ALLOCATOR "13get_bank_sizeERKNS0_10BufferTypeE"};
Function<std::uint64_t(const void*, const unsigned char*)> base_address{
    TT_ALLOCATOR "23get_base_allocator_addrERKNS0_10HalMemTypeE"};

const Feature devices{"devices", mesh_vtable, mesh_id_method, mesh_device_ids};
const Feature capacities{"capacities", impl_device_ids, impl_allocator, number_of_banks, bank_size};
const Feature ranges{"program ranges", range_start, range_end, numbers_of, view_of, find_chip};

struct KnownDevice {
    std::atomic<std::uint64_t> mask;
    std::atomic<std::uint64_t> generation;
    std::atomic<std::uint32_t> named;
    void clear() { generation.store(0, order::GUARDED); }
};

AddressTable<KnownDevice, 1024> known;

// IDevice::id() is virtual, and Device's is not exported. Its vtable slot is the one of MeshDevice's in MeshDevice's
// vtable.
int place_of_id() {
    static const int place = [] {
        auto** table = static_cast<void**>(mesh_vtable.address());
        void* wanted = mesh_id_method.address();
        for (int i = 2; table && wanted && i < 64; ++i) {
            if (table[i] == wanted) {
                return i - 2;
            }
        }
        return -1;
    }();
    return place;
}

bool is_mesh(const void* device) {
    auto** mesh = static_cast<void**>(mesh_vtable.address());
    return mesh && *static_cast<void** const*>(device) == mesh + 2;
}

Ids chips_of(const void* device) {
    if (place_of_id() < 0) {
        return {};
    }
    if (is_mesh(device)) {
        return mesh_device_ids(device);
    }
    void** vtable = *static_cast<void** const*>(device);
    return {reinterpret_cast<int (*)(const void*)>(vtable[place_of_id()])(device)};
}

constexpr std::uint32_t MAX_DIMENSIONS = 4;  // a machine has two

// False if there are more dimensions than fit, or none.
bool packed(const void* coordinate, std::uint32_t& dimensions, std::uint64_t& all) {
    const Numbers numbers = coordinate ? numbers_of(coordinate) : Numbers{nullptr, 0};
    all = 0;
    for (std::size_t i = 0; i < numbers.size && i < MAX_DIMENSIONS; ++i) {
        all |= std::uint64_t{numbers.first[i] & 0xFFFF} << (16 * i);
    }
    dimensions = static_cast<std::uint32_t>(numbers.size);
    return numbers.size && numbers.size <= MAX_DIMENSIONS;
}

bool in_range(const MeshRange& range, std::uint64_t coordinate) {
    for (std::uint32_t at = 0; at < 16 * range.dimensions; at += 16) {
        const std::uint64_t one = coordinate >> at & 0xFFFF;
        const std::uint64_t first = range.first >> at & 0xFFFF, last = range.last >> at & 0xFFFF;
        const bool inside = first <= last ? first <= one && one <= last : first <= one || one <= last;
        if (!inside) {
            return false;
        }
    }
    return true;
}

// False if the mesh does not say where its chips are. Possibly none of them is in the range: others are on other hosts.
bool chips_in_range(const void* mesh, const MeshRange& range, Ids& found) {
    const void* view = find_chip.address() ? view_of(mesh) : nullptr;
    for (const int chip : view ? mesh_device_ids(mesh) : Ids{}) {
        const Coordinate place = find_chip(view, chip);
        std::uint32_t dimensions;
        std::uint64_t coordinate;
        if (!packed(&place, dimensions, coordinate) || dimensions != range.dimensions) {
            return false;
        }
        if (in_range(range, coordinate)) {
            found.push_back(chip);
        }
    }
    return view;
}

DeviceGroup group_of_chips(Region& region, const Ids& chips, const DeviceFacts* facts = nullptr) {
    std::uint64_t mask = 0;
    for (const int chip : chips) {
        const int index = chip < 0 ? -1 : device_index(region, static_cast<std::uint32_t>(chip), facts);
        if (index < 0) {
            return {0, 0};  // a part of them would be cached as all
        }
        mask |= 1ull << index;
    }
    return group_of_mask(region, mask);
}

template <typename Find>
DeviceGroup remembered(const void* object, Find find) {
    const std::uint64_t now = device_generation.load(order::OBSERVE);
    const auto key = reinterpret_cast<std::uint64_t>(object);
    KnownDevice* entry = known.find(key);
    if (entry && entry->generation.load(order::OBSERVE) == now) {
        return {entry->mask.load(order::GUARDED), entry->named.load(order::GUARDED)};
    }
    DeviceGroup group{0, 0};
    try {
        group = find();
    } catch (...) {  // a device that is being destroyed may throw
    }
    if (group.mask && (entry = known.find_or_insert(key))) {
        entry->mask.store(group.mask, order::GUARDED);
        entry->named.store(group.named, order::GUARDED);
        entry->generation.store(now, order::PUBLISH);
    }
    return group;
}

DeviceFacts facts_of(const void* mesh) {
    DeviceFacts facts{};
    const Coordinates grid = impl_grid(mesh);
    facts.grid_x = static_cast<std::uint32_t>(grid.x);
    facts.grid_y = static_cast<std::uint32_t>(grid.y);
    facts.l1_per_core = impl_l1_per_core(mesh);
    facts.arch = static_cast<std::uint32_t>(impl_arch(mesh));
    const std::unique_ptr<char>* allocator = impl_allocator(mesh);
    if (allocator && *allocator) {
        for (const int kind : {0, 1, 3, 4}) {
            facts.banks[kind] = number_of_banks(allocator->get(), &kind);
            facts.bank_size[kind] = bank_size(allocator->get(), &kind);
        }
        const unsigned char l1 = 0, dram = 1;  // HalMemType
        facts.cb_base = base_address(allocator->get(), &l1);
        facts.dram_base = base_address(allocator->get(), &dram);
    }
    return facts;
}

}  // namespace

DeviceGroup group_of_device(Region& region, const void* device) {
    if (!device) {
        return {0, 0};
    }
    return remembered(device, [&] { return group_of_chips(region, chips_of(device)); });
}

const void* mesh_of_queue(const void* queue) {
    constexpr int LAST_WORD = 64;
    static std::atomic<bool> somewhere_else{false};
    auto** table = static_cast<void**>(mesh_vtable.address());
    const void *mesh, *its_table;
    if (!table || somewhere_else.load(order::ALONE)) {
        return nullptr;
    }
    for (int at = sizeof(void*); at <= LAST_WORD; at += sizeof(void*)) {
        if (careful_field(queue, at, mesh) && careful_field(mesh, 0, its_table) && its_table == table + 2) {
            return mesh;
        }
    }
    if (!somewhere_else.exchange(true)) {
        switch_off("dispatches", "the queues of this runtime keep their mesh in a place that is not known");
    }
    return nullptr;
}

MeshRange mesh_range(const void* mesh_coordinate_range) {
    MeshRange range{};
    std::uint32_t dimensions = 0;
    const bool known = packed(range_start(mesh_coordinate_range), dimensions, range.first) &&
                       packed(range_end(mesh_coordinate_range), range.dimensions, range.last);
    return known && dimensions == range.dimensions ? range : MeshRange{};
}

DeviceGroup group_in_range(Region& region, const void* device, const MeshRange& range) {
    const DeviceGroup all = group_of_device(region, device);
    if (!all.mask || !range.dimensions || !is_mesh(device)) {
        return all;
    }
    try {
        if (Ids chips; chips_in_range(device, range, chips)) {
            return group_of_chips(region, chips);
        }
    } catch (...) {  // as above
    }
    static std::atomic<bool> told{false};
    if (find_chip.address() && !told.exchange(true)) {
        switch_off("program ranges", "the meshes of this runtime do not say where their chips are");
    }
    return all;
}

int mesh_id(const void* mesh_device) { return mesh_id_method(mesh_device); }

std::uint32_t mesh_number(const void* device) {
    const bool numbered = device && mesh_id_method.address() && is_mesh(device);
    return numbered ? static_cast<std::uint32_t>(mesh_id(device)) + 1 : 0;
}

DeviceGroup group_of_mesh(Region& region, const void* mesh) {
    return remembered(mesh, [&] { return group_of_chips(region, impl_device_ids(mesh)); });
}

DeviceGroup declare_mesh(Region& region, const void* mesh) {
    try {
        const DeviceFacts facts = facts_of(mesh);
        return group_of_chips(region, impl_device_ids(mesh), &facts);
    } catch (...) {  // as above
        return group_of_mesh(region, mesh);
    }
}

void devices_changed() { device_generation.fetch_add(1, order::TAKE_OVER); }

void forget_runtime_devices() { known.forget(); }

}  // namespace ttmem::probe
