/* Starts a process that would live on, and fails. */
#include <assert.h>
#include <unistd.h>

char *testcase_description = "Prepare starts a process and fails";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	if (fork() == 0) {
		for (;;)
			pause();
	}
	assert(!"nothing works here");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	for (;;)
		(*iterations)++;
}
