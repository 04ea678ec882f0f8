// SPDX-License-Identifier: Apache-2.0
/*
 * x86_cpuid.c - what a vCPU says of itself.
 *
 * KVM names what the host can do; here the leaves that describe one processor among its neighbours
 * are made this vCPU's own: one socket, one thread per core, APIC id equal to the vCPU's number, as
 * the ACPI and MP tables have it (hard case C14). The clock leaves spare the guest a calibration
 * (C15). Features can be hidden by name, for hosts that offer what they cannot run. The PMU leaf
 * and kvmclock's are left as KVM fills them. Runs on main. Spec: Intel SDM 2A, CPUID; AMD APM 3,
 * appendix E; KVM Documentation/virt/kvm/x86/cpuid.rst.
 */
#include "arch.h"
#include "log.h"
#include "vm.h"
#include "x86.h"
#include <linux/kvm.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define ENTRIES_START 128
#define ENTRIES_MAX   1024
#define ENTRIES_SPARE 8 /* for the leaves added here */

#define LEAF_BASIC      0x0
#define LEAF_FEATURES   0x1
#define LEAF_CACHES     0x4
#define LEAF_POWER      0x6
#define LEAF_EXT        0x7
#define LEAF_TOPOLOGY   0xb
#define LEAF_XSAVE      0xd
#define LEAF_TOPOLOGY2  0x1f
#define LEAF_KVM        0x40000000
#define LEAF_TSC        0x40000010
#define LEAF_AMD        0x80000001
#define LEAF_AMD_SIZES  0x80000008
#define LEAF_AMD_CACHES 0x8000001d
#define LEAF_AMD_CORE   0x8000001e
#define LEAF_AMD_TOPO2  0x80000026

#define TSC_DEADLINE (1u << 24) /* leaf 1 ECX */
#define HYPERVISOR   (1u << 31)
#define HTT          (1u << 28) /* leaf 1 EDX: more than one logical processor in the package */
#define CMP_LEGACY   (1u << 1)  /* leaf 0x80000001 ECX: and they are cores, not threads */
#define ARAT         (1u << 2)  /* leaf 6 EAX: the APIC timer does not stop */
#define KVM_APIC_KHZ 1000000u   /* KVM's APIC timer counts nanoseconds */
#define VENDOR_AMD   0x68747541 /* "Auth", EBX of leaf 0 */
#define VENDOR_HYGON 0x6f677948 /* "Hygo" */

enum reg { EAX, EBX, ECX, EDX };

/* Names as in the flags line of /proc/cpuinfo. */
static const struct {
	const char *name;
	uint32_t leaf, index;
	enum reg reg;
	unsigned bit;
} features[] = {
	{"pni", LEAF_FEATURES, 0, ECX, 0},
	{"pclmulqdq", LEAF_FEATURES, 0, ECX, 1},
	{"vmx", LEAF_FEATURES, 0, ECX, 5},
	{"ssse3", LEAF_FEATURES, 0, ECX, 9},
	{"fma", LEAF_FEATURES, 0, ECX, 12},
	{"cx16", LEAF_FEATURES, 0, ECX, 13},
	{"pcid", LEAF_FEATURES, 0, ECX, 17},
	{"sse4_1", LEAF_FEATURES, 0, ECX, 19},
	{"sse4_2", LEAF_FEATURES, 0, ECX, 20},
	{"x2apic", LEAF_FEATURES, 0, ECX, 21},
	{"movbe", LEAF_FEATURES, 0, ECX, 22},
	{"popcnt", LEAF_FEATURES, 0, ECX, 23},
	{"tsc_deadline_timer", LEAF_FEATURES, 0, ECX, 24},
	{"aes", LEAF_FEATURES, 0, ECX, 25},
	{"xsave", LEAF_FEATURES, 0, ECX, 26},
	{"avx", LEAF_FEATURES, 0, ECX, 28},
	{"f16c", LEAF_FEATURES, 0, ECX, 29},
	{"rdrand", LEAF_FEATURES, 0, ECX, 30},
	{"fsgsbase", LEAF_EXT, 0, EBX, 0},
	{"bmi1", LEAF_EXT, 0, EBX, 3},
	{"hle", LEAF_EXT, 0, EBX, 4},
	{"avx2", LEAF_EXT, 0, EBX, 5},
	{"smep", LEAF_EXT, 0, EBX, 7},
	{"bmi2", LEAF_EXT, 0, EBX, 8},
	{"erms", LEAF_EXT, 0, EBX, 9},
	{"invpcid", LEAF_EXT, 0, EBX, 10},
	{"rtm", LEAF_EXT, 0, EBX, 11},
	{"avx512f", LEAF_EXT, 0, EBX, 16},
	{"rdseed", LEAF_EXT, 0, EBX, 18},
	{"adx", LEAF_EXT, 0, EBX, 19},
	{"smap", LEAF_EXT, 0, EBX, 20},
	{"clflushopt", LEAF_EXT, 0, EBX, 23},
	{"clwb", LEAF_EXT, 0, EBX, 24},
	{"sha_ni", LEAF_EXT, 0, EBX, 29},
	{"umip", LEAF_EXT, 0, ECX, 2},
	{"pku", LEAF_EXT, 0, ECX, 3},
	{"vaes", LEAF_EXT, 0, ECX, 9},
	{"vpclmulqdq", LEAF_EXT, 0, ECX, 10},
	{"la57", LEAF_EXT, 0, ECX, 16},
	{"rdpid", LEAF_EXT, 0, ECX, 22},
	{"fsrm", LEAF_EXT, 0, EDX, 4},
	{"xsaveopt", LEAF_XSAVE, 1, EAX, 0},
	{"xsavec", LEAF_XSAVE, 1, EAX, 1},
	{"xgetbv1", LEAF_XSAVE, 1, EAX, 2},
	{"xsaves", LEAF_XSAVE, 1, EAX, 3},
	{"svm", LEAF_AMD, 0, ECX, 2},
	{"abm", LEAF_AMD, 0, ECX, 5},
	{"sse4a", LEAF_AMD, 0, ECX, 6},
	{"nx", LEAF_AMD, 0, EDX, 20},
	{"pdpe1gb", LEAF_AMD, 0, EDX, 26},
	{"rdtscp", LEAF_AMD, 0, EDX, 27},
};

/* What the leaves are made from. */
struct topology {
	unsigned id, ncpus;
	unsigned shift; /* bits of an APIC id that number the cores */
	bool is_amd;
	bool tsc_deadline;
	uint32_t tsc_khz; /* 0: not known */
};

/* ---- the list ---- */

static struct kvm_cpuid2 *list_alloc(uint32_t n)
{
	struct kvm_cpuid2 *list =
		calloc(1, sizeof(*list) + (n + ENTRIES_SPARE) * sizeof(list->entries[0]));

	if (list)
		list->nent = n;
	return list;
}

/* KVM says E2BIG and not how many there are. NULL with errno. */
static struct kvm_cpuid2 *list_supported(int kvm_fd)
{
	errno = E2BIG;
	for (uint32_t n = ENTRIES_START; n <= ENTRIES_MAX && errno == E2BIG; n *= 2) {
		struct kvm_cpuid2 *list = list_alloc(n);

		if (!list)
			return NULL;
		if (ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, list) == 0)
			return list;
		free(list); /* which keeps errno */
	}
	return NULL;
}

static struct kvm_cpuid_entry2 *list_find(struct kvm_cpuid2 *list, uint32_t leaf, uint32_t index)
{
	for (uint32_t i = 0; i < list->nent; i++)
		if (list->entries[i].function == leaf && list->entries[i].index == index)
			return &list->entries[i];
	return NULL;
}

static void list_drop(struct kvm_cpuid2 *list, uint32_t leaf)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < list->nent; i++)
		if (list->entries[i].function != leaf)
			list->entries[kept++] = list->entries[i];
	list->nent = kept;
}

/* At most ENTRIES_SPARE times per list. */
static void list_add(struct kvm_cpuid2 *list, struct kvm_cpuid_entry2 e)
{
	list->entries[list->nent++] = e;
}

/* ---- leaves ---- */

static void set_bits(uint32_t *reg, unsigned low, unsigned width, uint32_t v)
{
	uint32_t mask = ((1u << width) - 1) << low;

	*reg = (*reg & ~mask) | (v << low & mask);
}

static void fix_features(struct kvm_cpuid_entry2 *e, const struct topology *t)
{
	set_bits(&e->ebx, 24, 8, t->id);
	set_bits(&e->ebx, 16, 8, MIN(1u << t->shift, 255u)); /* ids in the package */
	e->ecx |= HYPERVISOR;
	if (t->tsc_deadline)
		e->ecx |= TSC_DEADLINE; /* KVM leaves it out of its list */
	e->edx = t->ncpus > 1 ? e->edx | HTT : e->edx & ~HTT;
}

/* Levels 1 and 2 belong to one core, level 3 to all; the fields hold the highest id that shares. */
static void fix_cache(struct kvm_cpuid_entry2 *e, const struct topology *t)
{
	unsigned type = e->eax & 0x1f, level = e->eax >> 5 & 7;
	uint32_t last = (1u << t->shift) - 1;

	if (!type)
		return;
	set_bits(&e->eax, 14, 12, level < 3 ? 0 : last);
	if (e->function == LEAF_CACHES)
		set_bits(&e->eax, 26, 6, last);
}

static void fix_amd_core(struct kvm_cpuid_entry2 *e, const struct topology *t)
{
	e->eax = t->id;
	e->ebx = t->id; /* core number; one thread in it */
	e->ecx = 0;     /* node 0 of 1 */
	e->edx = 0;
}

static void fix_entry(struct kvm_cpuid_entry2 *e, const struct topology *t)
{
	switch (e->function) {
	case LEAF_FEATURES:
		fix_features(e, t);
		break;
	case LEAF_CACHES:
	case LEAF_AMD_CACHES:
		fix_cache(e, t);
		break;
	case LEAF_POWER:
		e->eax &= ARAT; /* nobody here can slow the clock down or measure it */
		e->ebx = e->ecx = e->edx = 0;
		break;
	case LEAF_AMD:
		if (t->is_amd)
			set_bits(&e->ecx, 1, 1, t->ncpus > 1);
		break;
	case LEAF_AMD_SIZES:
		if (t->is_amd)
			e->ecx = (t->ncpus - 1) | t->shift << 12;
		break;
	case LEAF_AMD_CORE:
		if (t->is_amd)
			fix_amd_core(e, t);
		break;
	}
}

/* Level 0 is the threads of a core (1), level 1 the cores of the package; EAX is the shift to the
 * next level's id. */
static void add_topology(struct kvm_cpuid2 *list, const struct topology *t)
{
	const struct kvm_cpuid_entry2 levels[] = {
		{.eax = 0, .ebx = 1, .ecx = 1u << 8 | 0},
		{.eax = t->shift, .ebx = t->ncpus, .ecx = 2u << 8 | 1},
		{.ecx = 2},
	};

	for (uint32_t i = 0; i < ARRAY_LEN(levels); i++) {
		struct kvm_cpuid_entry2 e = levels[i];

		e.function = LEAF_TOPOLOGY;
		e.index = i;
		e.flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
		e.edx = t->id;
		list_add(list, e);
	}
}

/* Where hypervisors by convention tell their guests both clock rates, in kHz. */
static void add_clock(struct kvm_cpuid2 *list, const struct topology *t)
{
	struct kvm_cpuid_entry2 *kvm = list_find(list, LEAF_KVM, 0);

	if (!kvm || !t->tsc_khz)
		return;
	list_drop(list, LEAF_TSC);
	kvm = list_find(list, LEAF_KVM, 0);
	kvm->eax = MAX(kvm->eax, (uint32_t)LEAF_TSC);
	list_add(list, (struct kvm_cpuid_entry2){
			       .function = LEAF_TSC, .eax = t->tsc_khz, .ebx = KVM_APIC_KHZ});
}

/* ---- hiding features ---- */

/* ARRAY_LEN(features): it is none. */
static unsigned feature_find(const char *name, size_t len)
{
	unsigned i = 0;

	while (i < ARRAY_LEN(features) &&
	       (strlen(features[i].name) != len || memcmp(features[i].name, name, len) != 0))
		i++;
	return i;
}

static void say_unknown(const char *name, size_t len, char *err, size_t n)
{
	size_t at = (size_t)snprintf(
		err, n, "no feature \"%.*s\"; known are:", (int)MIN(len, (size_t)40), name);

	for (unsigned i = 0; i < ARRAY_LEN(features) && at < n; i++)
		at += (size_t)snprintf(err + at, n - at, " %s", features[i].name);
}

/* The next of the names, without its comma: false at the end. */
static bool next_name(const char **names, const char **name, size_t *len)
{
	*names += strspn(*names, ",");
	*name = *names;
	*len = strcspn(*names, ",");
	*names += *len;
	return *len;
}

bool arch_cpu_mask_check(const char *names, char *err, size_t n)
{
	const char *name;
	size_t len;

	while (next_name(&names, &name, &len))
		if (feature_find(name, len) == ARRAY_LEN(features)) {
			say_unknown(name, len, err, n);
			return false;
		}
	return true;
}

static uint32_t *reg_of(struct kvm_cpuid_entry2 *e, enum reg reg)
{
	uint32_t *const regs[] = {
		[EAX] = &e->eax, [EBX] = &e->ebx, [ECX] = &e->ecx, [EDX] = &e->edx};

	return regs[reg];
}

static int mask_all(struct kvm_cpuid2 *list, const char *names)
{
	char err[600];
	const char *name;
	size_t len;

	if (!names)
		return 0;
	if (!arch_cpu_mask_check(names, err, sizeof(err))) {
		log_err("cpu_mask: %s", err);
		return -EINVAL;
	}
	while (next_name(&names, &name, &len)) {
		unsigned i = feature_find(name, len);
		struct kvm_cpuid_entry2 *e = list_find(list, features[i].leaf, features[i].index);

		if (e)
			*reg_of(e, features[i].reg) &= ~(1u << features[i].bit);
	}
	return 0;
}

/* ---- */

static struct topology topology_of(const struct vm *vm, int vcpu_fd, unsigned id,
				   struct kvm_cpuid2 *list)
{
	const struct kvm_cpuid_entry2 *basic = list_find(list, LEAF_BASIC, 0);
	int khz = ioctl(vcpu_fd, KVM_GET_TSC_KHZ, 0);
	struct topology t = {.id = id, .ncpus = vm->ncpus, .tsc_khz = khz > 0 ? (uint32_t)khz : 0};

	while (1u << t.shift < t.ncpus)
		t.shift++;
	t.is_amd = basic && (basic->ebx == VENDOR_AMD || basic->ebx == VENDOR_HYGON);
	t.tsc_deadline = ioctl(vm->kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_TSC_DEADLINE_TIMER) > 0;
	return t;
}

static int list_adapt(struct kvm_cpuid2 *list, const struct vm *vm, int vcpu_fd, unsigned id)
{
	const struct topology t = topology_of(vm, vcpu_fd, id, list);
	const struct kvm_cpuid_entry2 *basic = list_find(list, LEAF_BASIC, 0);
	bool has_topology = basic && basic->eax >= LEAF_TOPOLOGY;

	for (uint32_t i = 0; i < list->nent; i++)
		fix_entry(&list->entries[i], &t);
	/* The host's own; a leaf that is not there reads as zeros, and kernels then look at 0xb. */
	list_drop(list, LEAF_TOPOLOGY);
	list_drop(list, LEAF_TOPOLOGY2);
	list_drop(list, LEAF_AMD_TOPO2);
	if (has_topology)
		add_topology(list, &t);
	add_clock(list, &t);
	return mask_all(list, vm->cpu_mask);
}

int x86_cpuid_set(const struct vm *vm, int vcpu_fd, unsigned id)
{
	struct kvm_cpuid2 *list = list_supported(vm->kvm_fd);
	int r;

	if (!list) {
		r = -errno;
		log_err("vcpu%u: KVM_GET_SUPPORTED_CPUID: %m", id);
		return r;
	}
	r = list_adapt(list, vm, vcpu_fd, id);
	if (!r && ioctl(vcpu_fd, KVM_SET_CPUID2, list) < 0) {
		r = -errno;
		log_err("vcpu%u: KVM_SET_CPUID2: %m", id);
	}
	free(list);
	return r;
}
