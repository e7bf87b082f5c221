// The runtime's device objects: which chips one of them stands for, and what it says of their memory.
#pragma once

#include "device_groups.hpp"

namespace ttmem::probe {

// Of an IDevice*: a MeshDevice stands for all of its chips, a Device for one. Mask 0 if that cannot be told.
DeviceGroup group_of_device(Region& region, const void* device);

// The MeshDevice* that a MeshCommandQueue keeps a pointer to; null if that cannot be told.
const void* mesh_of_queue(const void* queue);

int mesh_id(const void* mesh_device);

// Of an IDevice*: tells meshes apart, also those of the same chips, whose allocators are not the same. 0: it is none.
std::uint32_t mesh_number(const void* device);

// Where in a mesh a program runs: the runtime's MeshCoordinateRange in plain numbers, 16 bits per coordinate.
struct MeshRange {
    std::uint32_t dimensions;  // 0 = it cannot be told
    std::uint64_t first, last;  // ends included; in a range that wraps around, `last` may be the smaller one
};
MeshRange mesh_range(const void* mesh_coordinate_range);

// The chips of a mesh that are in the range. All that `device` stands for where there is no range, or it is no mesh.
DeviceGroup group_in_range(Region& region, const void* device, const MeshRange& range);

// Of a MeshDeviceImpl*.
DeviceGroup group_of_mesh(Region& region, const void* mesh);

// Publishes grid, banks and capacities of a mesh's chips, in the runtime's own figures.
DeviceGroup declare_mesh(Region& region, const void* mesh);

// Changes whenever a device object is made or destroyed: an address may mean another device from then on.
extern std::atomic<std::uint64_t> device_generation;
void devices_changed();

void forget_runtime_devices();  // in the child of a fork

}  // namespace ttmem::probe
