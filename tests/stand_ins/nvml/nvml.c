/*
 * A stand-in for the NVIDIA driver's library (libnvidia-ml.so.1) with as much of it as curator-bench asks for.
 *
 * NVML_STAND_IN names a file that is read again at every question, so that a test can change the GPUs in mid-run. Each
 * line is one GPU; its first word says how it is:
 *
 *   healthy     idle
 *   busy        93 % utilised, 60 of 80 GiB used, by the processes 4242 and 4343
 *   lost        answers nothing: it has dropped off the bus
 *   failing     answers all but the question for its power, to which it says that it is lost
 *   poor        knows its memory and no more, as small and virtual GPUs do
 *   old         healthy, with a driver too old to tell reserved memory apart
 *   worn        uncorrected memory errors, and a defect row of memory that could not be replaced
 *   faulty      has reported Xid 79; the driver asks for a reset
 *   prohibited  compute mode prohibited
 *   detuned     without persistence, its clock and power limited, slowed down for heat
 *   sliced      has one MIG slice, MIG-0000000N of GPU N
 *
 * A file whose first word is "no-driver", "mismatch" or "hanging" makes the library refuse to open, or never return.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GPUS 8
#define GIB (1024ull * 1024 * 1024)
#define RESERVED (700ull * 1024 * 1024)

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9,
       TIMEOUT = 10, FUNCTION_NOT_FOUND = 13, LOST = 15, MISMATCH = 18 };

struct device { int index; int slice; };
struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned int version; unsigned long long total, reserved, free, used; };
struct utilization { unsigned int gpu, memory; };
struct process { unsigned int pid; unsigned long long memory; unsigned int gpu_instance, compute_instance; };
struct event { struct device *device; unsigned long long type, data; unsigned int gpu_instance, compute_instance; };
struct field { unsigned int id, scope; long long stamp, latency; unsigned int type; int result; unsigned long long value; };

static struct device devices[GPUS], slices[GPUS];
static char states[GPUS][32];
static int fault_told[GPUS];
static int opened;

static int read_states(void)
{
    char line[256];
    int count = 0;
    const char *path = getenv("NVML_STAND_IN");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        return 0;
    while (count < GPUS && fgets(line, sizeof line, file))
        if (sscanf(line, "%31s", states[count]) == 1)
            count++;
    fclose(file);
    return count;
}

static int is(struct device *device, const char *state)
{
    return device->index < read_states() && strcmp(states[device->index], state) == 0;
}

/* What every question is answered when the GPU, or the whole library, cannot answer it. */
static int refusal(struct device *device)
{
    if (!opened)
        return UNINITIALIZED;
    return is(device, "lost") ? LOST : OK;
}

#define ASK(device) do { int code = refusal(device); if (code) return code; } while (0)
#define RICH(device) do { ASK(device); if (is(device, "poor") || (device)->slice) return NOT_SUPPORTED; } while (0)

int nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    read_states();
    if (strcmp(states[0], "no-driver") == 0)
        return NOT_LOADED;
    if (strcmp(states[0], "mismatch") == 0)
        return MISMATCH;
    while (strcmp(states[0], "hanging") == 0)
        sleep(1);
    for (int i = 0; i < GPUS; i++) {
        devices[i].index = slices[i].index = i;
        slices[i].slice = 1;
    }
    opened++;
    return OK;
}

int nvmlShutdown(void) { return opened ? (opened--, OK) : UNINITIALIZED; }

const char *nvmlErrorString(int code) { (void)code; return "stand-in error"; }

int nvmlSystemGetDriverVersion(char *text, unsigned int size)
{
    snprintf(text, size, "999.42.01");
    return opened ? OK : UNINITIALIZED;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = (unsigned int)read_states();
    return opened ? OK : UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device **device)
{
    if (index >= GPUS)
        return INVALID;
    *device = &devices[index];
    return refusal(*device);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device)
{
    int index;
    if (sscanf(uuid, "MIG-%d", &index) != 1 || index >= GPUS || !is(&devices[index], "sliced"))
        return NOT_FOUND;
    *device = &slices[index];
    return OK;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *slice, struct device **device)
{
    *device = &devices[slice->index];
    return slice->slice ? OK : INVALID;
}

int nvmlDeviceGetIndex(struct device *device, unsigned int *index)
{
    ASK(device);
    *index = (unsigned int)device->index;
    return OK;
}

int nvmlDeviceGetUUID(struct device *device, char *text, unsigned int size)
{
    ASK(device);
    snprintf(text, size, "%s-%08d-aaaa-bbbb-cccc-ddddddddeeee", device->slice ? "MIG" : "GPU", device->index);
    return OK;
}

int nvmlDeviceGetName(struct device *device, char *text, unsigned int size)
{
    ASK(device);
    snprintf(text, size, "Stand-in X100");
    return OK;
}

int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *memory)
{
    ASK(device);
    memory->total = (device->slice ? 10 : 80) * GIB;
    memory->used = (is(device, "busy") ? 60 * GIB : 0) + RESERVED;
    memory->free = memory->total - memory->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *memory)
{
    struct memory whole;
    ASK(device);
    if (is(device, "old"))
        return FUNCTION_NOT_FOUND;
    nvmlDeviceGetMemoryInfo(device, &whole);
    memory->total = whole.total;
    memory->reserved = RESERVED;
    memory->used = whole.used - RESERVED;
    memory->free = whole.free;
    return OK;
}

int nvmlDeviceGetUtilizationRates(struct device *device, struct utilization *utilization)
{
    RICH(device);
    utilization->gpu = is(device, "busy") ? 93 : 0;
    utilization->memory = 0;
    return OK;
}

int nvmlDeviceGetTemperature(struct device *device, unsigned int sensor, unsigned int *celsius)
{
    (void)sensor;
    RICH(device);
    *celsius = is(device, "busy") ? 71 : 35;
    return OK;
}

int nvmlDeviceGetPowerUsage(struct device *device, unsigned int *milliwatts)
{
    RICH(device);
    *milliwatts = is(device, "busy") ? 400500 : 60000;
    return is(device, "failing") ? LOST : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned int *count, struct process *processes)
{
    unsigned int room = *count;
    RICH(device);
    *count = is(device, "busy") ? 2 : 0;
    if (*count > room)
        return TOO_SMALL;
    for (unsigned int i = 0; i < *count; i++)
        processes[i] = (struct process){ .pid = 4242 + 101 * i, .memory = 30 * GIB };
    return OK;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *device, unsigned int *count, struct process *processes)
{
    (void)processes;
    RICH(device);
    *count = 0;
    return OK;
}

int nvmlDeviceGetComputeMode(struct device *device, unsigned int *mode)
{
    RICH(device);
    *mode = is(device, "prohibited") ? 2 : 0;
    return OK;
}

int nvmlDeviceGetPersistenceMode(struct device *device, unsigned int *mode)
{
    RICH(device);
    *mode = !is(device, "detuned");
    return OK;
}

int nvmlDeviceGetMaxClockInfo(struct device *device, unsigned int kind, unsigned int *mhz)
{
    RICH(device);
    *mhz = kind == 1 ? 1980 : 2619;
    return OK;
}

int nvmlDeviceGetClockInfo(struct device *device, unsigned int kind, unsigned int *mhz)
{
    RICH(device);
    *mhz = is(device, "detuned") ? 1100 : kind == 1 ? 1830 : 2619;
    return OK;
}

int nvmlDeviceGetApplicationsClock(struct device *device, unsigned int kind, unsigned int *mhz)
{
    RICH(device);
    *mhz = is(device, "detuned") ? 1200 : kind == 1 ? 1980 : 2619;
    return OK;
}

int nvmlDeviceGetPowerManagementLimit(struct device *device, unsigned int *milliwatts)
{
    RICH(device);
    *milliwatts = is(device, "detuned") ? 450000 : 700000;
    return OK;
}

int nvmlDeviceGetPowerManagementDefaultLimit(struct device *device, unsigned int *milliwatts)
{
    RICH(device);
    *milliwatts = 700000;
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(struct device *device, unsigned long long *reasons)
{
    RICH(device);
    *reasons = is(device, "detuned") ? 0x1 | 0x20 | 0x40 : 0x1;
    return OK;
}

int nvmlDeviceGetTotalEccErrors(struct device *device, unsigned int kind, unsigned int since, unsigned long long *count)
{
    RICH(device);
    *count = is(device, "worn") && kind == 1 && since == 0 ? 3 : 0;
    return OK;
}

int nvmlDeviceGetEccMode(struct device *device, unsigned int *now, unsigned int *after_reset)
{
    RICH(device);
    *now = 1;
    *after_reset = !is(device, "detuned");
    return OK;
}

int nvmlDeviceGetRemappedRows(struct device *device, unsigned int *corrected, unsigned int *uncorrected,
                              unsigned int *pending, unsigned int *failed)
{
    RICH(device);
    *corrected = *uncorrected = *pending = 0;
    *failed = is(device, "worn");
    return OK;
}

int nvmlDeviceGetFieldValues(struct device *device, int count, struct field *fields)
{
    RICH(device);
    for (int i = 0; i < count; i++) {
        fields[i].result = fields[i].id == 230 ? OK : NOT_SUPPORTED;
        fields[i].value = is(device, "faulty") ? 1 : 0;
    }
    return OK;
}

int nvmlEventSetCreate(void **set) { *set = devices; return OK; }

int nvmlEventSetFree(void *set) { (void)set; return OK; }

int nvmlDeviceRegisterEvents(struct device *device, unsigned long long kinds, void *set)
{
    (void)kinds;
    (void)set;
    RICH(device);
    return OK;
}

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned int timeout_ms)
{
    (void)set;
    (void)timeout_ms;
    for (int i = 0; i < GPUS; i++)
        if (is(&devices[i], "faulty") && !fault_told[i]) {
            fault_told[i] = 1;
            *event = (struct event){ .device = &devices[i], .type = 8, .data = 79 };
            return OK;
        }
    return TIMEOUT;
}
