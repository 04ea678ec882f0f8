// SPDX-License-Identifier: Apache-2.0
/*
 * cpu.h - ports, device memory and the time stamp counter, from ring 3.
 *
 * Device memory is touched by plain moves of one width only: a hypervisor decodes these, and not every one decodes
 * more.
 */
#ifndef PAYLOAD_CPU_H
#define PAYLOAD_CPU_H

#include <stddef.h>
#include <stdint.h>

static inline void port_out8(uint16_t port, uint8_t v)
{
	asm volatile("outb %0, %1" ::"a"(v), "Nd"(port));
}
static inline void port_out16(uint16_t port, uint16_t v)
{
	asm volatile("outw %0, %1" ::"a"(v), "Nd"(port));
}
static inline void port_out32(uint16_t port, uint32_t v)
{
	asm volatile("outl %0, %1" ::"a"(v), "Nd"(port));
}
static inline uint8_t port_in8(uint16_t port)
{
	uint8_t v;

	asm volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}
static inline uint16_t port_in16(uint16_t port)
{
	uint16_t v;

	asm volatile("inw %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}
static inline uint32_t port_in32(uint16_t port)
{
	uint32_t v;

	asm volatile("inl %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}
/* All bytes to one port: a single exit. */
static inline void port_out_bytes(uint16_t port, const void *p, size_t n)
{
	asm volatile("rep outsb" : "+S"(p), "+c"(n) : "d"(port) : "memory");
}
static inline void port_in_bytes(uint16_t port, void *p, size_t n)
{
	asm volatile("rep insb" : "+D"(p), "+c"(n) : "d"(port) : "memory");
}

static inline uint8_t mmio_read8(uint64_t a)
{
	uint8_t v;

	asm volatile("movb (%1), %0" : "=q"(v) : "r"(a) : "memory");
	return v;
}
static inline uint16_t mmio_read16(uint64_t a)
{
	uint16_t v;

	asm volatile("movw (%1), %0" : "=r"(v) : "r"(a) : "memory");
	return v;
}
static inline uint32_t mmio_read32(uint64_t a)
{
	uint32_t v;

	asm volatile("movl (%1), %0" : "=r"(v) : "r"(a) : "memory");
	return v;
}
static inline void mmio_write8(uint64_t a, uint8_t v)
{
	asm volatile("movb %0, (%1)" ::"q"(v), "r"(a) : "memory");
}
static inline void mmio_write16(uint64_t a, uint16_t v)
{
	asm volatile("movw %0, (%1)" ::"r"(v), "r"(a) : "memory");
}
static inline void mmio_write32(uint64_t a, uint32_t v)
{
	asm volatile("movl %0, (%1)" ::"r"(v), "r"(a) : "memory");
}

/* Orders stores for the device's threads, which see this memory as ours does: x86 needs no instruction. */
static inline void cpu_barrier(void)
{
	asm volatile("" ::: "memory");
}
/* A store before it is seen before a load after it. */
static inline void cpu_fence(void)
{
	asm volatile("lock; orl $0, -4(%%rsp)" ::: "memory", "cc");
}
static inline void cpu_pause(void)
{
	asm volatile("pause" ::: "memory");
}
static inline uint64_t cpu_tsc(void)
{
	uint32_t lo, hi;

	asm volatile("lfence; rdtsc" : "=a"(lo), "=d"(hi)::"memory");
	return (uint64_t)hi << 32 | lo;
}
static inline void cpu_id(uint32_t leaf, uint32_t r[4])
{
	asm volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "a"(leaf), "c"(0));
}

#endif
