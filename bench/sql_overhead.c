/*
 * sql_overhead.c: latency of two statements on one connection, in turns.
 *
 *     sql_overhead URI CALLS
 *
 * Both are prepared, so that parsing is not what is measured.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_UP 500

typedef struct Statement
{
	const char *name;
	const char *sql;
	double *us; /* [n_calls] */
} Statement;

static Statement statements[] = {
	{ "SELECT 1", "SELECT 1", NULL },
	{ "infer_count_tokens", "SELECT infer_count_tokens('hi')", NULL },
};
#define N_STATEMENTS 2

static double
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

static void
expect(PGconn *connection, PGresult *result, ExecStatusType status)
{
	if (PQresultStatus(result) != status)
	{
		fprintf(stderr, "sql_overhead: %s", PQerrorMessage(connection));
		exit(1);
	}
}

static double
call_us(PGconn *connection, const char *name)
{
	double begin = now_us();
	PGresult *result = PQexecPrepared(connection, name, 0, NULL, NULL, NULL, 0);
	double us = now_us() - begin;

	expect(connection, result, PGRES_TUPLES_OK);
	PQclear(result);
	return us;
}

static int
compare_doubles(const void *a, const void *b)
{
	double x = *(const double *) a;
	double y = *(const double *) b;

	return (x > y) - (x < y);
}

int
main(int argc, char **argv)
{
	int n_calls = argc > 2 ? atoi(argv[2]) : 0;
	PGconn *connection;
	double p50[N_STATEMENTS];

	if (argc != 3 || n_calls < 1)
	{
		fprintf(stderr, "Usage: sql_overhead URI CALLS\n");
		return 1;
	}
	connection = PQconnectdb(argv[1]);
	if (PQstatus(connection) != CONNECTION_OK)
	{
		fprintf(stderr, "sql_overhead: %s", PQerrorMessage(connection));
		return 1;
	}
	for (int s = 0; s < N_STATEMENTS; s++)
	{
		PGresult *result = PQprepare(connection, statements[s].name, statements[s].sql, 0, NULL);

		expect(connection, result, PGRES_COMMAND_OK);
		PQclear(result);
		statements[s].us = calloc((size_t) n_calls, sizeof(double));
		if (statements[s].us == NULL)
			return 1;
		for (int i = 0; i < WARM_UP; i++)
			call_us(connection, statements[s].name);
	}
	for (int i = 0; i < n_calls; i++)
		for (int s = 0; s < N_STATEMENTS; s++)
			statements[s].us[i] = call_us(connection, statements[s].name);
	printf("%d calls each, in turns, one connection; microseconds\n", n_calls);
	for (int s = 0; s < N_STATEMENTS; s++)
	{
		qsort(statements[s].us, (size_t) n_calls, sizeof(double), compare_doubles);
		p50[s] = statements[s].us[n_calls / 2];
		printf("%-20s p50 %8.1f   p99 %8.1f\n", statements[s].name, p50[s],
			   statements[s].us[(size_t) n_calls * 99 / 100]);
	}
	printf("%-20s p50 %8.1f\n", "difference", p50[1] - p50[0]);
	PQfinish(connection);
	return 0;
}
