/* Two pipes and a helper made by new_task, which exists in the host only. */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

void new_task(void *(*func)(void *), void *arg);

char *testcase_description = "Ping-pong with a helper";

static void *echo(void *arg)
{
	int *fd = arg;
	char c;
	while (read(fd[0], &c, 1) == 1)
		assert(write(fd[3], &c, 1) == 1);
	return NULL;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int *fd = malloc(4 * sizeof(int));
	char c = 'x';
	(void)nr;
	assert(pipe(fd) == 0 && pipe(fd + 2) == 0);
	new_task(echo, fd);
	while (1) {
		assert(write(fd[1], &c, 1) == 1);
		assert(read(fd[2], &c, 1) == 1);
		(*iterations)++;
	}
}
