// The runtime's device objects: which chips they represent, and their memory.
#pragma once

#include "device_groups.hpp"

namespace ttmem::probe {

// The chips of an IDevice*: all chips of a MeshDevice, or one of a Device. Mask 0 if unknown.
DeviceGroup group_of_device(Region& region, const void* device);

// The MeshDevice* that a MeshCommandQueue refers to; null if unknown.
const void* mesh_of_queue(const void* queue);

int mesh_id(const void* mesh_device);

// Identifies the mesh of an IDevice*, even among meshes of the same chips, which have different allocators. 0: not a
// mesh.
std::uint32_t mesh_number(const void* device);

// The part of a mesh that a program runs on: the runtime's MeshCoordinateRange in plain numbers, 16 bits per
// coordinate.
struct MeshRange {
    std::uint32_t dimensions;  // 0 = unknown
    std::uint64_t first, last;  // ends included; in a range that wraps around, `last` may be the smaller one
};
MeshRange mesh_range(const void* mesh_coordinate_range);

// The chips of a mesh that are in the range; all chips of `device` if there is no range, or it is not a mesh.
DeviceGroup group_in_range(Region& region, const void* device, const MeshRange& range);

// Of a MeshDeviceImpl*.
DeviceGroup group_of_mesh(Region& region, const void* mesh);

// Publishes grid, banks and capacities of a mesh's chips, with the runtime's own figures.
DeviceGroup declare_mesh(Region& region, const void* mesh);

// Changes whenever a device object is created or destroyed: from then on an address may mean another device.
extern std::atomic<std::uint64_t> device_generation;
void devices_changed();

void forget_runtime_devices();  // in the child of a fork

}  // namespace ttmem::probe
