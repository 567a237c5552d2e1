#!/usr/bin/env python3
"""How long each question to NVML takes on this machine: what the pace of 'arles agent' rests on. Needs the driver, and nothing else."""
import ctypes as c, time
nvml = c.CDLL("libnvidia-ml.so.1")
assert nvml.nvmlInit_v2() == 0
uuid = c.create_string_buffer(96)
dev = c.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, c.byref(dev)) == 0
nvml.nvmlDeviceGetUUID(dev, uuid, 96)
u32, u64 = c.c_uint(), c.c_ulonglong()
big = c.create_string_buffer(4096)
class Field(c.Structure):
    _fields_ = [("id", c.c_uint), ("scope", c.c_uint), ("timestamp", c.c_longlong), ("latency", c.c_longlong), ("type", c.c_int), ("status", c.c_int), ("value", c.c_ulonglong)]
def fields(*ids):
    a = (Field * len(ids))(*[Field(id=i) for i in ids])
    def call():
        rc = nvml.nvmlDeviceGetFieldValues(dev, len(ids), a)
        return rc or max(f.status for f in a)
    return call
def memory():
    class Memory(c.Structure):
        _fields_ = [("v", c.c_uint), ("a", c.c_ulonglong * 4)]
    m = Memory(); m.v = c.sizeof(Memory) | (2 << 24)
    return nvml.nvmlDeviceGetMemoryInfo_v2(dev, c.byref(m))
calls = {
    "handle by UUID": lambda: nvml.nvmlDeviceGetHandleByUUID(uuid, c.byref(c.c_void_p())),
    "power": lambda: nvml.nvmlDeviceGetPowerUsage(dev, c.byref(u32)),
    "energy counter": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(dev, c.byref(u64)),
    "utilisation": lambda: nvml.nvmlDeviceGetUtilizationRates(dev, big),
    "throttle reasons": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(dev, c.byref(u64)),
    "ECC errors": lambda: nvml.nvmlDeviceGetTotalEccErrors(dev, 1, 0, c.byref(u64)),
    "memory": memory,
    "temperature": lambda: nvml.nvmlDeviceGetTemperature(dev, 0, c.byref(u32)),
    "clock": lambda: nvml.nvmlDeviceGetClockInfo(dev, 1, c.byref(u32)),
    "power limit": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(dev, c.byref(u32)),
    "fields: energy": fields(83),
    "fields: instant power": fields(186),
    "fields: average power": fields(185),
    "fields: energy, power": fields(83, 186),
}
print(f"{'question':24} {'rc':>3} {'wall ms':>9} {'cpu ms':>9}")
for name, call in calls.items():
    call()
    n, wall, cpu = 50, time.perf_counter(), time.process_time()
    for _ in range(n):
        rc = call()
    print(f"{name:24} {rc:>3} {(time.perf_counter() - wall) / n * 1e3:>9.4f} {(time.process_time() - cpu) / n * 1e3:>9.4f}")
