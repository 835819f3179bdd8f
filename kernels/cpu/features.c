/*
 * features.c: which instructions this machine and its operating system allow.
 */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#	include <cpuid.h>
#	include <sys/syscall.h>
#	include <unistd.h>

/* XCR0 bits that say the OS saves the registers: SSE and AVX; and for AVX-512 masks and the upper
 * halves. */
#	define XCR0_AVX	0x06u
#	define XCR0_AVX512 0xe6u
#	define XCR0_AMX	0x60000u

/* Leaf 7, edx; not in every cpuid.h. */
#	define BIT_AMX_TILE (1u << 24)
#	define BIT_AMX_INT8 (1u << 25)

/* asm/prctl.h of Linux 5.16; older headers lack them. */
#	define REQUEST_XCOMP_PERMISSION 0x1023
#	define XCOMP_TILE_DATA			 18

static uint64_t
xcr0_read(void)
{
	uint32_t low, high;

	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (uint64_t) high << 32 | low;
}

/* Linux gives the 8 kB of tile registers only to processes that ask. */
static bool
amx_allowed(void)
{
#	if defined(__linux__)
	return syscall(SYS_arch_prctl, REQUEST_XCOMP_PERMISSION, XCOMP_TILE_DATA) == 0;
#	else
	return false;
#	endif
}

KernelIsa
kernels_detect(void)
{
	uint32_t eax, ebx, ecx, edx;
	uint64_t xcr0;
	uint32_t needed_ecx = bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C;
	uint32_t needed_amx = BIT_AMX_TILE | BIT_AMX_INT8;
	uint32_t needed_512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & needed_ecx) != needed_ecx)
		return KERNEL_REF;
	xcr0 = xcr0_read();
	if ((xcr0 & XCR0_AVX) != XCR0_AVX || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
		(ebx & bit_AVX2) == 0)
		return KERNEL_REF;
	if ((xcr0 & XCR0_AVX512) != XCR0_AVX512 || (ebx & needed_512) != needed_512)
		return KERNEL_AVX2;
	if ((ecx & bit_AVX512VNNI) == 0)
		return KERNEL_AVX512;
	return (xcr0 & XCR0_AMX) == XCR0_AMX && (edx & needed_amx) == needed_amx && amx_allowed()
			   ? KERNEL_AMX
			   : KERNEL_VNNI;
}

#else

KernelIsa
kernels_detect(void)
{
	return KERNEL_REF;
}

#endif
