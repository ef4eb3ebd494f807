/* A plug-in as will-it-scale wants it: counts, and checks that it is called as it expects. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

char *testcase_description = "Count";

static unsigned long prepared;

void testcase_prepare(unsigned long nr_tasks)
{
	prepared = nr_tasks;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	assert(nr < prepared);
	while (1) {
		(*iterations)++;
		/* A real testcase has a call here, which keeps the count in the loop. */
		__asm__ volatile("" ::: "memory");
	}
}

void testcase_cleanup(void)
{
	FILE *proof = fopen(getenv("CLEANUP_PROOF"), "w");
	fprintf(proof, "%lu\n", prepared);
	fclose(proof);
}
