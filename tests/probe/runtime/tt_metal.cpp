// A runtime of a few lines.
#include "tt_metal.hpp"

namespace tt::tt_metal {

std::uint32_t Buffer::address() const { return place; }
#ifdef OLD
std::uint64_t Buffer::page_size() const { return bytes; }
std::uint32_t Buffer::num_pages() const { return 1; }
bool Buffer::is_l1() const { return type == BufferType::L1 || type == BufferType::L1_SMALL; }
bool Buffer::is_dram() const { return type == BufferType::DRAM || type == BufferType::TRACE; }
#else
std::uint64_t Buffer::size() const { return bytes; }
BufferType Buffer::buffer_type() const { return type; }
std::uint64_t Buffer::unique_id() const { return number; }
int Buffer::buffer_layout() const { return layout; }
IDevice* Buffer::device() const { return where; }
#endif
const std::vector<CoreRange>& CoreRangeSet::ranges() const { return all; }

#ifndef HALF
static Allocator memory;
std::uint64_t Buffer::aligned_size_per_bank() const { return per_bank; }
Allocator* Buffer::allocator() const { return &memory; }
std::uint32_t Allocator::get_alignment(BufferType) const { return 64; }
std::uint64_t Allocator::get_base_allocator_addr(const HalMemType& type) const {
    return type == HalMemType::L1 ? 111'744 : 64;
}
void detail::ProgramImpl::CircularBufferAllocator::mark_address(std::uint64_t, std::uint64_t, std::uint64_t) {}
void detail::ProgramImpl::allocate_dataflow_buffers(const IDevice*) {
    CircularBufferAllocator cores{{{0, 0}, {3, 1}}};
    cores.mark_address(200'000, 4096, 111'744);
}
void distributed::MeshDeviceImpl::begin_mesh_trace(std::uint8_t, const MeshTraceId&) {}
void distributed::MeshDeviceImpl::end_mesh_trace(std::uint8_t, const MeshTraceId&) {}
void distributed::MeshDeviceImpl::replay_mesh_trace(std::uint8_t, const MeshTraceId&, bool) {}
void distributed::MeshDeviceImpl::release_mesh_trace(const MeshTraceId&) {}
#endif

std::uint32_t Allocator::get_num_banks(const BufferType& type) const { return type == BufferType::DRAM ? 8 : 110; }
std::uint64_t Allocator::get_bank_size(const BufferType& type) const {
    return type == BufferType::DRAM ? 4'277'010'304 : type == BufferType::L1 ? 1'428'352 : 32'768;
}

std::uint64_t AllocatorImpl::allocate_buffer(Buffer* buffer) {
    if (buffer->bytes > (1ull << 40)) {
        throw std::runtime_error("Out of Memory: not enough space");
    }
    return buffer->place;
}

SharedMemoryStatsProvider::SharedMemoryStatsProvider(std::uint64_t, int, bool, bool) {}
bool Device::close() { return true; }
void GraphTracker::track_allocate(const Buffer*) {}
void GraphTracker::track_deallocate(Buffer*) {}
void GraphTracker::track_allocate_cb(const CoreRangeSet&, std::uint64_t, std::uint64_t, bool, const IDevice*) {}

std::uint64_t detail::ProgramImpl::get_id() const { return number; }
void detail::ProgramImpl::allocate_circular_buffers(const IDevice*) {
    laid_out = true;
    CoreRangeSet cores{{{{0, 0}, {1, 1}}}};
    std::uint64_t address = 111'744;
    for (const std::uint64_t size : sizes) {
        for (const IDevice* device : devices) {
            GraphTracker().track_allocate_cb(cores, address, size, false, device);
        }
        address += size;
    }
}
void detail::ProgramImpl::deallocate_circular_buffers() {}
void detail::ProgramImpl::validate_circular_buffer_region(const IDevice*) {
    std::uint64_t end = 111'744;
    for (const std::uint64_t size : sizes) {
        end += size;
    }
    if (end > 1'572'864) {
        throw std::runtime_error("Statically allocated circular buffers grow beyond L1");
    }
}

std::vector<int> distributed::MeshDeviceImpl::get_device_ids() const { return chips; }
const std::unique_ptr<Allocator>& distributed::MeshDeviceImpl::allocator() const { return memory; }
xy distributed::MeshDeviceImpl::compute_with_storage_grid_size() const { return {11, 10}; }
std::uint32_t distributed::MeshDeviceImpl::l1_size_per_core() const { return 1'572'864; }
ARCH distributed::MeshDeviceImpl::arch() const { return ARCH::BLACKHOLE; }
int distributed::MeshDevice::id() const { return number; }
void distributed::MeshDeviceImpl::close_impl(MeshDevice*) {
    for (const int chip : chips) {
        shared || Device(chip).close();
    }
}
std::vector<int> distributed::MeshDevice::get_device_ids() const { return impl.chips; }
void Inspector::mesh_device_initialized(const distributed::MeshDeviceImpl*) noexcept {}
void Inspector::program_created(const detail::ProgramImpl*) noexcept {}
void Inspector::program_destroyed(const detail::ProgramImpl*) noexcept {}

}  // namespace tt::tt_metal
