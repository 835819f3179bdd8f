/*
 * select.c: the table is filled with references, then overwritten with what the machine has.
 */
#include "kernels/cpu/ref.h"

#include <stdlib.h>
#include <string.h>

static const char *const isa_names[KERNEL_N_ISAS] = { "ref", "avx2", "avx512", "vnni", "amx" };

const char *
kernel_isa_name(KernelIsa isa)
{
	return isa_names[isa];
}

bool
kernels_for_isa(KernelIsa isa, Kernels *out)
{
	if (isa > kernels_detect())
		return false;
	*out = (Kernels){
		.name = isa_names[isa],
		.quantize_acts = quantize_acts_ref,
		.matmul = matmul_ref,
		.rms_norm = rms_norm_ref,
		.rope = rope_ref,
		.swiglu = swiglu_ref,
		.add = add_ref,
		.kv_write = kv_write_ref,
		.attention = attention_ref,
		.argmax = argmax_ref,
		.exp_sum = exp_sum_ref,
		.max_finite = max_finite_ref,
	};
#if defined(__x86_64__)
	if (isa >= KERNEL_AVX2)
		kernels_fill_avx2(out);
	if (isa >= KERNEL_AVX512)
		kernels_fill_avx512(out);
	if (isa >= KERNEL_VNNI)
		kernels_fill_vnni(out);
	if (isa >= KERNEL_AMX)
		kernels_fill_amx(out);
#endif
	return true;
}

bool
kernels_select(Kernels *out, const char **problem)
{
	const char *cap = getenv("INFER_CPU");
	KernelIsa best = kernels_detect();
	KernelIsa isa = best;

	if (cap != NULL && *cap != '\0')
	{
		int named = -1;

		for (int i = 0; i < KERNEL_N_ISAS; i++)
			if (strcmp(cap, isa_names[i]) == 0)
				named = i;
		if (named < 0)
		{
			*problem = "INFER_CPU must be ref, avx2, avx512, vnni or amx";
			return false;
		}
		isa = (KernelIsa) named < best ? (KernelIsa) named : best;
	}
	return kernels_for_isa(isa, out);
}
